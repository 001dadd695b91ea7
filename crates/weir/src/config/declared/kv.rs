//! `[kv]`: the key-value store; and the `kv` of a route.

use std::time::Duration;

use weir_kv::placement::scheme::{Hash, Scheme};

use super::{Form, Key, Kind, List, Needs, Preset, Section, engine, forms, words};

pub(crate) static STORE: Section = Section {
    example: "[kv]",
    groups: &[&[
        &ENGINE,
        &NODE,
        &NODES,
        &JOIN,
        &URLS,
        &REPLICAS,
        &PLACEMENT,
        &HASH,
        &VIRTUAL_NODES,
        &SECRET,
        &REPAIR,
        &TOMBSTONES,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static ENGINE: Key = Key {
    name: "engine",
    kind: Kind::Table(&engine::SECTION),
    preset: Preset::Required("`{ path = \"data/kv\" }`"),
    doc: "Where the data is.",
};
pub(crate) static NODE: Key = Key {
    name: "node",
    kind: Kind::Text(&ADDRESS),
    preset: Preset::Said("the only one"),
    doc: "Where the other nodes reach this one. Only with a `path`.",
};
pub(crate) static NODES: Key = Key {
    name: "nodes",
    kind: Kind::List(&ADDRESSES),
    preset: Preset::Said("this one alone"),
    doc: "All nodes, `node` among them; the same on each, at most 9.",
};
pub(crate) static JOIN: Key = Key {
    name: "join",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "`true`: this node has no data yet, and waits for [`weir kv join`](sharding.md#nodes-that-come-and-go). Of no meaning once it has some.",
};
pub(crate) static REPLICAS: Key = Key {
    name: "replicas",
    kind: Kind::Integer(1..=NODES_MAX as u64),
    preset: Preset::Said("3, or all nodes where there are fewer"),
    doc: "How many nodes have a key, unless a request says otherwise; the same on each.",
};
pub(crate) static PLACEMENT: Key = Key {
    name: "placement",
    kind: Kind::Words(&words::<_, 6>(Scheme::NAMES)),
    preset: Preset::Text("slots"),
    doc: "Which nodes have a key, see [placement](sharding.md#placement); the same on each.",
};
pub(crate) static HASH: Key = Key {
    name: "hash",
    kind: Kind::Words(&words::<_, 2>(Hash::NAMES)),
    preset: Preset::Text("xxh3"),
    doc: "What a key is hashed with for that: XXH3-64, or the first eight bytes of MD5; the same on each.",
};
pub(crate) static VIRTUAL_NODES: Key = Key {
    name: "virtual_nodes",
    kind: Kind::Integer(1..=Scheme::VIRTUAL_NODES_MAX as u64),
    preset: Preset::Integer(Scheme::VIRTUAL_NODES_USUAL as u64),
    doc: "Points of each node on a ring; the same on each. Only with a ring.",
};
pub(crate) static REPAIR: Key = Key {
    name: "repair",
    kind: Kind::Duration(SECOND..=YEAR),
    preset: Preset::Duration(DAY),
    doc: "How often this node compares what it has with the others.",
};
pub(crate) static TOMBSTONES: Key = Key {
    name: "tombstones",
    kind: Kind::Duration(SECOND..=YEAR),
    preset: Preset::Duration(DAY),
    doc: "How long a deletion is remembered at least. It is forgotten by a repair that finds it on all replicas.",
};
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);
pub(crate) static URLS: Key = Key {
    name: "urls",
    kind: Kind::List(&URL_LIST),
    preset: Preset::Said("none"),
    doc: "Where clients reach the routes of each node, in the order of `nodes`: for [`Prefer: redirect`](sharding.md#redirects).",
};
pub(crate) static SECRET: Key = Key {
    name: "secret",
    kind: Kind::Text(&forms::TOKEN),
    preset: Preset::Said("none"),
    doc: "What nodes know each other by, the same on each. Needed where a node is not on a loopback address.",
};
static ADDRESS: Form = Form {
    noun: "IP address and port, as in `\"10.0.0.1:8081\"`",
    expected: ADDRESS_EXPECTED,
    pattern: Some("^[0-9A-Fa-f:.\\[\\]]+:[0-9]+$"),
};
pub(crate) const ADDRESS_EXPECTED: &str = "an IP address and a port such as \"10.0.0.1:8081\"";
static ADDRESSES: List = List {
    of: Kind::Text(&ADDRESS),
    noun: "such addresses",
    expected: "addresses such as [\"10.0.0.1:8081\", \"10.0.0.2:8081\"]",
    is_never_empty: true,
};
static URL: Form = Form {
    noun: "URL without a path, as in `\"http://10.0.0.1:8080\"`",
    expected: URL_EXPECTED,
    pattern: Some("^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+$"),
};
pub(crate) const URL_EXPECTED: &str =
    "a URL of http or https without a path such as \"http://10.0.0.1:8080\"";
static URL_LIST: List = List {
    of: Kind::Text(&URL),
    noun: "URLs without a path, as in `\"http://10.0.0.1:8080\"`",
    expected: "URLs such as [\"http://10.0.0.1:8080\", \"http://10.0.0.2:8080\"]",
    is_never_empty: true,
};
pub(crate) const NODES_MAX: usize = 9;
pub(crate) const REPLICAS_USUAL: usize = 3;

/// The `kv` of a route.
pub(crate) static KV: Key = Key {
    name: "kv",
    kind: Kind::Boolean,
    preset: Preset::Said(""),
    doc: "`true`: the store of `[kv]` answers, see [sharding](sharding.md).",
};
