//! `[kv]`, and the `kv` of routes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_gateway::settings::Serve;
use weir_kv::engine::Durability;
use weir_kv::engine::lsm::LsmSettings;
use weir_kv::{ClusterSettings, Upkeep};

use super::declared::file::KV;
use super::declared::kv as declared;
use super::entries::Entries;
use super::entry::Entry;
use super::file::token;
use super::in_process::{InProcess, Service};

/// The name of the service.
const SERVICE: &str = "kv";
/// The directory of hints, in that of the engine.
const HINTS: &str = "hints";
/// How long a client waits for the store at most.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A store: where its data is, and which nodes it has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoreSettings {
    pub(crate) engine: LsmSettings,
    /// This node among others; `None` for a store of one node.
    pub(crate) cluster: Option<ClusterSettings>,
    pub(crate) upkeep: Upkeep,
}

/// Reads `[kv]`.
pub(super) fn store(root: &mut Entries) -> Option<StoreSettings> {
    let mut table = root.section(&KV)?;
    let engine = table.required(&declared::ENGINE);
    let engine = engine.and_then(|engine| engine.table());
    let engine = engine.map_or_else(nowhere, embedded);
    let upkeep = Upkeep {
        repair: table
            .duration(&declared::REPAIR)
            .unwrap_or(declared::REPAIR.preset.duration()),
        tombstones: table
            .duration(&declared::TOMBSTONES)
            .unwrap_or(declared::TOMBSTONES.preset.duration()),
    };
    let cluster = cluster(&mut table).map(|cluster| ClusterSettings {
        hints: engine.path.join(HINTS),
        hints_age: upkeep.tombstones / 2,
        ..cluster
    });
    table.finish();
    // A store with a mistake is one all the same: a route that names it is not wrong too.
    Some(StoreSettings {
        engine,
        cluster,
        upkeep,
    })
}

fn cluster(table: &mut Entries) -> Option<ClusterSettings> {
    let node_value = table.optional(&declared::NODE);
    let nodes_value = table.optional(&declared::NODES);
    let replicas_value = table.optional(&declared::REPLICAS);
    let secret_value = table.optional(&declared::SECRET);
    let node = node_value.as_ref().and_then(|value| value.parsed(address));
    let nodes = nodes_value.as_ref().and_then(addresses);
    let secret = secret_value.as_ref().map(token);
    let replicas = replicas_value
        .as_ref()
        .and_then(|value| value.integer())
        .map(|count| count as usize);
    match (&node_value, &nodes_value) {
        (Some(alone), None) => alone.expected("\"nodes\" beside it, which are all of them"),
        (None, Some(others)) => others.expected("\"node\" beside it, which of them this one is"),
        (None, None) => {
            for value in [&replicas_value, &secret_value].into_iter().flatten() {
                value.expected(
                    "\"node\" and \"nodes\" beside it, since a store of one node has no use for it",
                );
            }
        }
        _ => {}
    }
    let (node, nodes) = (node?, nodes?);
    if !nodes.contains(&node) {
        node_value?.expected("one of \"nodes\"");
        return None;
    }
    let replicas = replicas.unwrap_or(nodes.len().min(declared::REPLICAS_USUAL));
    if replicas > nodes.len() {
        replicas_value?.expected(&format!(
            "at most {}, since there are no more nodes",
            nodes.len()
        ));
        return None;
    }
    let is_open = nodes.iter().any(|node| !node.ip().is_loopback());
    if is_open && secret.is_none() {
        nodes_value?.expected("a \"secret\" beside it, since other machines reach these nodes");
    }
    Some(ClusterSettings {
        node,
        nodes,
        replicas,
        hints: PathBuf::new(),
        hints_age: Duration::ZERO,
        secret: secret.flatten().unwrap_or_default(),
    })
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let address: Option<SocketAddr> = text.parse().ok();
    let address = address.filter(|address| address.port() > 0 && !address.ip().is_unspecified());
    address.ok_or_else(|| format!("expected {}", declared::ADDRESS_EXPECTED))
}

fn addresses(value: &Entry) -> Option<Vec<SocketAddr>> {
    let items = value.list()?;
    let mut nodes: Vec<SocketAddr> = Vec::new();
    for item in &items {
        if let Some(node) = item.parsed(address) {
            if nodes.contains(&node) {
                item.expected("a node that is not there already");
            }
            nodes.push(node);
        }
    }
    if items.len() > declared::NODES_MAX {
        value.expected(&format!("at most {} nodes", declared::NODES_MAX));
    }
    (nodes.len() == items.len()).then_some(nodes)
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
