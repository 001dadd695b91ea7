//! `[kv]`, and the `kv` of routes.

use std::net::SocketAddr;

use weir_gateway::settings::Serve;
use weir_kv::ClusterSettings;
use weir_kv::engine::EngineSettings;

use super::declared::file::KV;
use super::declared::kv as declared;
use super::engine;
use super::entries::Entries;
use super::entry::Entry;
use super::file::token;
use super::in_process::{InProcess, Service};

/// The name of the service.
const SERVICE: &str = "kv";
/// The table of a store in a database, unless another one is named.
const TABLE: &str = "kv";
/// A store: where its data is, and which nodes it has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoreSettings {
    pub(crate) engine: EngineSettings,
    /// This node among others; `None` for a store of one node.
    pub(crate) cluster: Option<ClusterSettings>,
}

/// Reads `[kv]`.
pub(super) fn store(root: &mut Entries) -> Option<StoreSettings> {
    let mut table = root.section(&KV)?;
    let engine = table.required(&declared::ENGINE);
    let engine = engine.and_then(|value| engine::engine(value.table()?, TABLE));
    let cluster = match &engine {
        Some(EngineSettings::Postgres(_)) => alone(&mut table, "Postgres"),
        Some(EngineSettings::Cassandra(_)) => alone(&mut table, "Cassandra"),
        Some(EngineSettings::Embedded(_)) | None => cluster(&mut table),
    };
    table.finish();
    // A store with a mistake is one all the same: a route that names it is not wrong too.
    Some(StoreSettings {
        engine: engine.unwrap_or_else(engine::nowhere),
        cluster,
    })
}

/// A database has its own nodes and replicas.
fn alone(table: &mut Entries, database: &str) -> Option<ClusterSettings> {
    for key in [&declared::NODE, &declared::NODES, &declared::SECRET] {
        if let Some(value) = table.optional(key) {
            value.wrong(format!(
                "has no meaning with an engine in {database}, which replicates by itself; expected it only with a \"path\""
            ));
        }
    }
    None
}

fn cluster(table: &mut Entries) -> Option<ClusterSettings> {
    let node_value = table.optional(&declared::NODE);
    let nodes_value = table.optional(&declared::NODES);
    let secret_value = table.optional(&declared::SECRET);
    let node = node_value.as_ref().and_then(|value| value.parsed(address));
    let nodes = nodes_value.as_ref().and_then(addresses);
    let secret = secret_value.as_ref().map(token);
    match (&node_value, &nodes_value) {
        (Some(alone), None) => alone.expected("\"nodes\" beside it, which are all of them"),
        (None, Some(others)) => others.expected("\"node\" beside it, which of them this one is"),
        _ => {}
    }
    let (node, nodes) = (node?, nodes?);
    if !nodes.contains(&node) {
        node_value?.expected("one of \"nodes\"");
        return None;
    }
    let is_open = nodes.iter().any(|node| !node.ip().is_loopback());
    if is_open && secret.is_none() {
        nodes_value?.expected("a \"secret\" beside it, since other machines reach these nodes");
    }
    Some(ClusterSettings {
        node,
        nodes,
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

impl InProcess {
    /// Reads what stands at `kv`, and says which service does it.
    pub(super) fn kv(&mut self, value: &Entry) -> Option<Serve> {
        if !value.boolean()? {
            value.wrong("found false, expected true, or another action instead");
            return None;
        }
        let Some(store) = &self.kv else {
            value.wrong("there is no store; add `[kv]` with `engine = { path = \"data/kv\" }`");
            return None;
        };
        let timeout = engine::timeout(&store.engine);
        self.services.insert(SERVICE.to_owned(), Service::Kv);
        Some(Serve {
            service: SERVICE.to_owned(),
            timeout,
            delivery: None,
        })
    }
}
