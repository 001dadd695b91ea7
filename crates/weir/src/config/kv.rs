//! `[kv]`, and the `kv` of routes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_gateway::settings::Serve;
use weir_http::host::Authority;
use weir_kv::engine::EngineSettings;
use weir_kv::placement::Rule;
use weir_kv::placement::scheme::{Hash, Scheme};
use weir_kv::{ClusterSettings, Upkeep};

use super::declared::file::KV;
use super::declared::kv as declared;
use super::engine;
use super::entries::Entries;
use super::entry::Entry;
use super::file::token;
use super::in_process::{InProcess, Service};

/// The name of the service.
const SERVICE: &str = "kv";
/// The directory of hints, in that of the engine.
const HINTS: &str = "hints";
/// The table of a store in a database, unless another one is named.
const TABLE: &str = "kv";

/// A store: where its data is, and which nodes it has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoreSettings {
    pub(crate) engine: EngineSettings,
    /// This node among others; `None` for a store of one node.
    pub(crate) cluster: Option<ClusterSettings>,
    /// `None` where a database sees to its own.
    pub(crate) upkeep: Option<Upkeep>,
}

/// Reads `[kv]`.
pub(super) fn store(root: &mut Entries) -> Option<StoreSettings> {
    let mut table = root.section(&KV)?;
    let engine = table.required(&declared::ENGINE);
    let engine = engine.and_then(|value| engine::engine(value.table()?, TABLE));
    let (cluster, upkeep) = match &engine {
        Some(EngineSettings::Postgres(_)) => alone(&mut table, "Postgres"),
        Some(EngineSettings::Cassandra(_)) => alone(&mut table, "Cassandra"),
        Some(EngineSettings::Embedded(_)) | None => (cluster(&mut table), Some(upkeep(&mut table))),
    };
    table.finish();
    // A store with a mistake is one all the same: a route that names it is not wrong too.
    let engine = engine.unwrap_or_else(engine::nowhere);
    let mut settings = StoreSettings {
        engine,
        cluster,
        upkeep,
    };
    if let (EngineSettings::Embedded(embedded), Some(cluster), Some(upkeep)) =
        (&settings.engine, &mut settings.cluster, upkeep)
    {
        cluster.hints = embedded.path.join(HINTS);
        cluster.hints_age = upkeep.tombstones / 2;
    }
    Some(settings)
}

fn upkeep(table: &mut Entries) -> Upkeep {
    let mut duration = |key| {
        let said = table.duration(key);
        said.unwrap_or(key.preset.duration())
    };
    Upkeep {
        repair: duration(&declared::REPAIR),
        tombstones: duration(&declared::TOMBSTONES),
    }
}

/// A database has its own nodes and replicas.
fn alone(table: &mut Entries, database: &str) -> (Option<ClusterSettings>, Option<Upkeep>) {
    let keys = [
        &declared::NODE,
        &declared::NODES,
        &declared::JOIN,
        &declared::REPLICAS,
        &declared::PLACEMENT,
        &declared::HASH,
        &declared::VIRTUAL_NODES,
        &declared::SECRET,
        &declared::REPAIR,
        &declared::TOMBSTONES,
    ];
    for key in keys {
        if let Some(value) = table.optional(key) {
            value.wrong(format!(
                "has no meaning with an engine in {database}, which replicates by itself; expected it only with a \"path\""
            ));
        }
    }
    (None, None)
}

fn cluster(table: &mut Entries) -> Option<ClusterSettings> {
    let node_value = table.optional(&declared::NODE);
    let nodes_value = table.optional(&declared::NODES);
    let join_value = table.optional(&declared::JOIN);
    let urls_value = table.optional(&declared::URLS);
    let replicas_value = table.optional(&declared::REPLICAS);
    let secret_value = table.optional(&declared::SECRET);
    let rule_values = [
        table.optional(&declared::PLACEMENT),
        table.optional(&declared::HASH),
        table.optional(&declared::VIRTUAL_NODES),
    ];
    let node = node_value.as_ref().and_then(|value| value.parsed(address));
    let nodes = nodes_value.as_ref().and_then(addresses);
    let secret = secret_value.as_ref().map(token);
    let urls = urls_value.as_ref().and_then(urls);
    let is_joining = join_value.as_ref().and_then(Entry::boolean);
    let replicas = replicas_value
        .as_ref()
        .and_then(Entry::integer)
        .map(|count| count as usize);
    match (&node_value, &nodes_value) {
        (Some(alone), None) => alone.expected("\"nodes\" beside it, which are all of them"),
        (None, Some(others)) => others.expected("\"node\" beside it, which of them this one is"),
        (None, None) => {
            let values = [&join_value, &urls_value, &replicas_value, &secret_value];
            for value in values.into_iter().chain(&rule_values).flatten() {
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
    if let (Some(value), Some(urls)) = (&urls_value, &urls)
        && urls.len() != nodes.len()
    {
        value.expected(&format!("one for each of the {} nodes", nodes.len()));
    }
    let is_open = nodes.iter().any(|node| !node.ip().is_loopback());
    if is_open && secret.is_none() {
        nodes_value?.expected("a \"secret\" beside it, since other machines reach these nodes");
    }
    Some(ClusterSettings {
        node,
        nodes,
        urls: urls.unwrap_or_default(),
        replicas,
        placement: placement(&rule_values, join_value.as_ref())?,
        hints: PathBuf::new(),
        hints_age: Duration::ZERO,
        secret: secret.flatten().unwrap_or_default(),
        is_joining: is_joining.unwrap_or(false),
    })
}

/// How keys find their nodes, whether this node joins others or not.
fn placement(values: &[Option<Entry>; 3], join: Option<&Entry>) -> Option<Rule> {
    let rule = rule(values)?;
    let joins = join.filter(|join| join.as_bool() == Some(true));
    if let Some(join) = joins.filter(|_| rule != Rule::default()) {
        join.wrong(
            "nodes come and go only where keys are placed by slots and XXH3, expected none here",
        );
    }
    Some(rule)
}

/// The scheme, the hash, and the virtual nodes of a ring.
fn rule([scheme, hash, virtual_nodes]: &[Option<Entry>; 3]) -> Option<Rule> {
    let mut rule = Rule::default();
    if let Some(value) = scheme {
        rule.scheme = value.choice(Scheme::NAMES)?;
    }
    if let Some(value) = hash {
        rule.hash = value.choice(Hash::NAMES)?;
    }
    if let Some(value) = virtual_nodes {
        let each = value.integer()? as usize;
        let Some(ring) = rule.scheme.with_virtual_nodes(each) else {
            value.wrong(
                "has a meaning only with placement = \"ring\" or \"ring-tree\", expected none here",
            );
            return None;
        };
        rule.scheme = ring;
    }
    Some(rule)
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

fn urls(value: &Entry) -> Option<Vec<String>> {
    let items = value.list()?;
    let urls: Vec<String> = items.iter().filter_map(|item| item.parsed(url)).collect();
    (urls.len() == items.len()).then_some(urls)
}

fn url(text: &str) -> Result<String, String> {
    let parts = text.split_once("://").filter(|(scheme, authority)| {
        let is_web = ["http", "https"].map(|web| scheme.eq_ignore_ascii_case(web));
        is_web.contains(&true) && Authority::parse(authority.as_bytes()).is_ok()
    });
    match parts {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("expected {}", declared::URL_EXPECTED)),
    }
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
