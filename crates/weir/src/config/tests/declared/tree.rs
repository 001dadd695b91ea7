//! Every declared key with the way to it, and files in which it is the one that matters.

use crate::config::declared::file::FILE;
use crate::config::declared::{Key, Kind, Section};

/// The name of the upstream in these files.
const NAME: &str = "app";
/// A name where names are statuses.
const STATUS: &str = "404";

/// A declared key and the names from the top of the file to it. Lists do not count: `upstream.app.servers.weight`.
pub(in super::super) struct Place {
    pub(in super::super) way: Vec<&'static str>,
    pub(in super::super) key: &'static Key,
}

/// All of them, in their order; a section that stands in two places is gone through in both.
pub(in super::super) fn places() -> Vec<Place> {
    let mut places = Vec::new();
    below(&FILE, &[], &mut places);
    places
}

fn below(section: &'static Section, way: &[&'static str], places: &mut Vec<Place>) {
    for key in section.keys() {
        let way = [way, &[key.name]].concat();
        let sections = sections_at(&key.kind);
        places.push(Place {
            way: way.clone(),
            key,
        });
        for (section, name) in sections {
            let way = [way.as_slice(), name.as_slice()].concat();
            below(section, &way, places);
        }
    }
}

/// The tables that may stand at a key, each once, with the name that leads to it.
fn sections_at(kind: &'static Kind) -> Vec<(&'static Section, Option<&'static str>)> {
    let mut found: Vec<(&'static Section, Option<&'static str>)> = Vec::new();
    for kind in kind.alternatives() {
        let more = match kind {
            Kind::Table(section) | Kind::Tables(section, _) => vec![(*section, None)],
            Kind::List(list) => sections_at(&list.of),
            Kind::Named(named) => {
                let sections = sections_at(&named.values).into_iter();
                let name = if named.names.starts_with("^[45]") {
                    STATUS
                } else {
                    NAME
                };
                sections.map(|(section, _)| (section, Some(name))).collect()
            }
            _ => Vec::new(),
        };
        let is_new = |(section, _): &(&'static Section, _)| {
            !found
                .iter()
                .any(|(other, _)| std::ptr::eq(*other, *section))
        };
        let more: Vec<_> = more.into_iter().filter(is_new).collect();
        found.extend(more);
    }
    found
}

/// What else a file must say for a key to mean something: the beginning of the way to the key, the way to what is said,
/// and that.
const COMPANIONS: &[(&str, &str, &str)] = &[
    ("", "listener.address", "\"127.0.0.1:8080\""),
    ("", "upstream.app.servers", "[\"127.0.0.1:9001\"]"),
    ("", "route.path", "\"/\""),
    ("admin.", "admin.listen", "\"127.0.0.1:9901\""),
    ("admin.guard_file", "admin.guard_api", "true"),
    ("access_log.", "access_log.path", "\"a\""),
    ("access_log.fields", "access_log.format", "\"json\""),
    ("cache.disk.", "cache.disk.path", "\"cache\""),
    ("cache.disk.", "cache.disk.size", "\"1GiB\""),
    (
        "upstream.app.servers.",
        "upstream.app.servers.address",
        "\"127.0.0.1:9001\"",
    ),
    ("upstream.app.hash_on", "upstream.app.balance", "\"hash\""),
    (
        "upstream.app.breaker.slow_ratio",
        "upstream.app.breaker.slow",
        "\"1s\"",
    ),
    (
        "upstream.app.sticky.",
        "upstream.app.sticky.cookie",
        "\"weir\"",
    ),
    ("queue.app.", "queue.app.path", "\"data\""),
    (
        "queue.app.sink.app.batch",
        "queue.app.sink.app.file",
        "\"a\"",
    ),
    (
        "queue.app.sink.app.rate",
        "queue.app.sink.app.file",
        "\"a\"",
    ),
    (
        "queue.app.sink.app.timeout",
        "queue.app.sink.app.file",
        "\"a\"",
    ),
    (
        "queue.app.sink.app.file.",
        "queue.app.sink.app.file.path",
        "\"a\"",
    ),
    (
        "queue.app.sink.app.postgres.",
        "queue.app.sink.app.postgres.url",
        "\"postgres://a/b\"",
    ),
    (
        "queue.app.sink.app.cassandra.",
        "queue.app.sink.app.cassandra.nodes",
        "[\"a:1\"]",
    ),
    (
        "queue.app.sink.app.cassandra.",
        "queue.app.sink.app.cassandra.table",
        "\"a.b\"",
    ),
    (
        "queue.app.sink.app.cassandra.user",
        "queue.app.sink.app.cassandra.password",
        "\"a\"",
    ),
    (
        "queue.app.sink.app.kafka.",
        "queue.app.sink.app.kafka.brokers",
        "[\"a:1\"]",
    ),
    (
        "queue.app.sink.app.kafka.sasl.",
        "queue.app.sink.app.kafka.sasl.user",
        "\"a\"",
    ),
    (
        "queue.app.sink.app.kafka.sasl.",
        "queue.app.sink.app.kafka.sasl.password",
        "\"a\"",
    ),
    ("queue.app.kafka.", "queue.app.kafka.brokers", "[\"a:1\"]"),
    (
        "queue.app.kafka.sasl.",
        "queue.app.kafka.sasl.user",
        "\"a\"",
    ),
    (
        "queue.app.kafka.sasl.",
        "queue.app.kafka.sasl.password",
        "\"a\"",
    ),
    ("kv.node", "kv.engine.path", "\"data\""),
    ("kv.join", "kv.engine.path", "\"data\""),
    ("kv.join", "kv.node", "\"127.0.0.1:8081\""),
    ("kv.join", "kv.nodes", "[\"127.0.0.1:8081\"]"),
    ("kv.replicas", "kv.engine.path", "\"data\""),
    ("kv.replicas", "kv.node", "\"127.0.0.1:8081\""),
    (
        "kv.replicas",
        "kv.nodes",
        "[\"127.0.0.1:8081\", \"127.0.0.1:8082\", \"127.0.0.1:8083\"]",
    ),
    ("kv.placement", "kv.engine.path", "\"data\""),
    ("kv.placement", "kv.node", "\"127.0.0.1:8081\""),
    ("kv.placement", "kv.nodes", "[\"127.0.0.1:8081\"]"),
    ("kv.hash", "kv.engine.path", "\"data\""),
    ("kv.hash", "kv.node", "\"127.0.0.1:8081\""),
    ("kv.hash", "kv.nodes", "[\"127.0.0.1:8081\"]"),
    ("kv.virtual_nodes", "kv.engine.path", "\"data\""),
    ("kv.virtual_nodes", "kv.node", "\"127.0.0.1:8081\""),
    ("kv.virtual_nodes", "kv.nodes", "[\"127.0.0.1:8081\"]"),
    ("kv.virtual_nodes", "kv.placement", "\"ring\""),
    ("kv.repair", "kv.engine.path", "\"data\""),
    ("kv.tombstones", "kv.engine.path", "\"data\""),
    ("kv.secret", "kv.engine.path", "\"data\""),
    ("kv.engine.durability", "kv.engine.path", "\"data\""),
    ("kv.engine.memory", "kv.engine.path", "\"data\""),
    (
        "kv.engine.postgres.",
        "kv.engine.postgres.url",
        "\"postgres://a/b\"",
    ),
    (
        "kv.engine.cassandra.",
        "kv.engine.cassandra.nodes",
        "[\"a:1\"]",
    ),
    (
        "kv.engine.cassandra.user",
        "kv.engine.cassandra.password",
        "\"a\"",
    ),
    ("kv.node", "kv.node", "\"127.0.0.1:8081\""),
    ("kv.node", "kv.nodes", "[\"127.0.0.1:8081\"]"),
    ("table.app.batch", "table.app.engine.path", "\"data\""),
    (
        "table.app.engine.durability",
        "table.app.engine.path",
        "\"data\"",
    ),
    (
        "table.app.engine.memory",
        "table.app.engine.path",
        "\"data\"",
    ),
    (
        "table.app.engine.postgres.",
        "table.app.engine.postgres.url",
        "\"postgres://a/b\"",
    ),
    (
        "table.app.engine.cassandra.",
        "table.app.engine.cassandra.nodes",
        "[\"a:1\"]",
    ),
    (
        "table.app.engine.cassandra.user",
        "table.app.engine.cassandra.password",
        "\"a\"",
    ),
    ("route.collect", "table.app.engine.path", "\"data\""),
    ("route.collect.", "route.collect.table", "\"app\""),
    ("kv.urls", "kv.engine.path", "\"data\""),
    ("kv.urls", "kv.node", "\"127.0.0.1:8081\""),
    ("kv.urls", "kv.nodes", "[\"127.0.0.1:8081\"]"),
    ("route.kv", "kv.engine.path", "\"data\""),
    ("route.defer", "queue.app.path", "\"data\""),
    ("route.defer.", "route.defer.queue", "\"app\""),
    ("route.sticky", "route.split", "{ app = 1 }"),
    ("route.sticky.", "route.sticky.cookie", "\"version\""),
    (
        "route.mirror.",
        "upstream.other.servers",
        "[\"127.0.0.1:9002\"]",
    ),
    ("route.mirror.", "route.mirror.upstream", "\"other\""),
    ("upstream.app.health.", "upstream.app.health.path", "\"/\""),
    ("route.breaker.slow_ratio", "route.breaker.slow", "\"1s\""),
    ("route.rate.", "route.rate.requests", "5"),
    ("route.priority.", "route.priority.header", "\"x-priority\""),
    ("route.fallback.", "route.fallback.status", "503"),
    ("route.fallback.status", "route.fallback.body", "\"x\""),
    ("route.redirect.", "route.redirect.to", "\"/x\""),
    (
        "route.cors.",
        "route.cors.origins",
        "[\"https://a.example\"]",
    ),
    ("error_pages.404.", "error_pages.404.body", "\"x\""),
    ("error_pages.404.body", "error_pages.404.json", "[]"),
    (
        "route.error_pages.404.body",
        "route.error_pages.404.json",
        "[]",
    ),
    (
        "route.error_pages.404.",
        "route.error_pages.404.body",
        "\"x\"",
    ),
];

/// A file that says `value` at the place, and what must be there besides. Without a value, it says nothing there; the
/// table in which it would stand is there all the same.
pub(in super::super) fn file(place: &Place, value: Option<&str>) -> String {
    let way = place.way.join(".");
    let mut said: Vec<(&str, &str)> = COMPANIONS
        .iter()
        .filter(|(beginning, ..)| way.starts_with(beginning))
        .map(|(_, other, value)| (*other, *value))
        .collect();
    let others = [
        "route.redirect",
        "route.respond",
        "route.kv",
        "route.collect",
        "route.sticky",
    ];
    if !others.iter().any(|other| way.starts_with(other)) {
        said.push(("route.upstream", "\"app\""));
    }
    // What stands at the key, in it or around it gives way.
    let gives_way = |other: &str| other == way || is_below(other, &way) || is_below(&way, other);
    said.retain(|(other, _)| !gives_way(other));
    let (parent, _) = way.rsplit_once('.').unwrap_or((&way, ""));
    match value {
        Some(value) => said.push((&way, value)),
        None if parent != way && !said.iter().any(|(other, _)| is_below(other, parent)) => {
            said.push((parent, "{}"));
        }
        None => {}
    }
    text(&said)
}

fn is_below(way: &str, above: &str) -> bool {
    way.strip_prefix(above)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// A file that says these things. What is in a list is its only item.
fn text(said: &[(&str, &str)]) -> String {
    let within = |list: &str| {
        let items = said.iter().filter(|(way, _)| is_below(way, list));
        let items: Vec<_> = items
            .map(|(way, value)| format!("{} = {value}", &way[list.len() + 1..]))
            .collect();
        items.join(", ")
    };
    let lists = ["listener", "upstream.app.servers", "route"];
    let mut lines = Vec::new();
    for (way, value) in said {
        if !lists.iter().any(|list| is_below(way, list)) {
            lines.push(format!("{way} = {value}"));
        }
    }
    for list in lists {
        let items = within(list);
        if !items.is_empty() {
            lines.push(format!("{list} = [{{ {items} }}]"));
        }
    }
    lines.join("\n")
}
