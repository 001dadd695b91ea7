//! `[kv]`, and the `kv` of routes.

use std::path::PathBuf;
use std::time::Duration;

use weir_gateway::settings::Serve;
use weir_kv::engine::Durability;
use weir_kv::engine::lsm::LsmSettings;

use super::declared::file::KV;
use super::declared::kv as declared;
use super::entries::Entries;
use super::entry::Entry;
use super::queue::{InProcess, Service};

/// The name of the service.
const SERVICE: &str = "kv";
/// How long a client waits for the store at most.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads `[kv]`.
pub(super) fn store(root: &mut Entries) -> Option<LsmSettings> {
    let mut table = root.section(&KV)?;
    let engine = table.required(&declared::ENGINE);
    let engine = engine.and_then(|engine| engine.table());
    table.finish();
    // A store with a mistake is one all the same: a route that names it is not wrong too.
    Some(engine.map_or_else(nowhere, embedded))
}

fn nowhere() -> LsmSettings {
    LsmSettings {
        path: PathBuf::new(),
        durability: Durability::Group,
        memory_bytes: declared::MEMORY.preset.bytes(),
    }
}

fn embedded(mut table: Entries) -> LsmSettings {
    let path = table.required(&declared::PATH);
    let path = path.and_then(|path| path.parsed(super::queue::directory));
    let durability = table.optional(&declared::DURABILITY);
    let durability = durability.and_then(|value| value.choice(declared::DURABILITIES));
    let memory_bytes = table.size_bytes(&declared::MEMORY);
    table.finish();
    let usual = nowhere();
    LsmSettings {
        path: path.unwrap_or_default(),
        durability: durability.unwrap_or(usual.durability),
        memory_bytes: memory_bytes.unwrap_or(usual.memory_bytes),
    }
}

impl InProcess {
    /// Reads what stands at `kv`, and says which service does it.
    pub(super) fn kv(&mut self, value: &Entry) -> Option<Serve> {
        if !value.boolean()? {
            value.wrong("found false, expected true, or another action instead");
            return None;
        }
        if self.kv.is_none() {
            value.wrong("there is no store; add `[kv]` with `engine = { path = \"data/kv\" }`");
            return None;
        }
        self.services.insert(SERVICE.to_owned(), Service::Kv);
        Some(Serve {
            service: SERVICE.to_owned(),
            timeout: TIMEOUT,
            delivery: None,
        })
    }
}
