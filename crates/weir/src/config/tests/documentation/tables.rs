//! The tables of keys in the reference, as the declaration has them.

use weir_gateway::settings::template::{Known, TABLE};

use crate::config::declared::care::{
    self, breaker, fallback, health, rate, retry, upstream as spared,
};
use crate::config::declared::{
    Key, Preset, cache, clients, compress, engine, file, kv, log, queue, route, server, sink,
    table, upstream,
};

/// A table is behind a line `<!-- keys: NAME -->` and has the keys of these groups.
type Table = (&'static str, &'static [&'static [&'static Key]]);

const TABLES: &[Table] = &[
    ("include", &[&[&file::INCLUDE]]),
    ("server", server::SERVER.groups),
    ("listener", server::LISTENER.groups),
    ("admin", server::ADMIN.groups),
    ("log", server::LOG.groups),
    ("access_log", log::ACCESS_LOG.groups),
    ("request_id", log::REQUEST_ID.groups),
    ("limits", clients::LIMITS.groups),
    ("trusted_proxies", clients::TRUSTED_PROXIES.groups),
    ("timeouts", clients::TIMEOUTS.groups),
    ("cache", cache::STORAGE.groups),
    ("cache.disk", cache::ON_DISK.groups),
    ("dns", server::DNS.groups),
    ("upstream", &[upstream::OF_SERVERS]),
    ("upstream.servers", upstream::SERVER.groups),
    ("upstream.sticky", upstream::SESSIONS.groups),
    ("queue", &[queue::KEPT]),
    ("queue.delivery", &[queue::DELIVERED]),
    ("queue.sinks", &[queue::ELSEWHERE]),
    ("queue.sink", &[sink::TARGETS]),
    ("queue.sink.written", &[sink::WRITTEN]),
    ("queue.sink.file", sink::FILE_TABLE.groups),
    ("queue.sink.postgres", sink::POSTGRES_TABLE.groups),
    ("queue.sink.cassandra", sink::CASSANDRA_TABLE.groups),
    ("queue.sink.kafka", sink::KAFKA_TOPIC.groups),
    ("queue.sink.kafka.sasl", sink::SASL_TABLE.groups),
    ("queue.kafka", &[&[&sink::GROUP]]),
    ("route.defer", queue::DEFERRAL.groups),
    ("kv", kv::STORE.groups),
    ("kv.engine", engine::SECTION.groups),
    ("kv.engine.postgres", engine::POSTGRES_TABLE.groups),
    ("kv.engine.cassandra", engine::CASSANDRA_TABLE.groups),
    ("table", table::TABLE.groups),
    ("table.batch", table::BATCHES.groups),
    ("route.collect", table::COLLECTION.groups),
    ("route", &[route::OF_ANY]),
    ("route.split", route::split::RULE.groups),
    ("route.mirror", route::mirror::RULE.groups),
    ("route.forward", &[route::FORWARD]),
    ("route.cors", route::cors::RULE.groups),
    ("route.error_pages", route::error_pages::PAGE.groups),
    ("route.timeout", route::TIMEOUTS.groups),
    ("route.headers", route::ANSWER_EDITS.groups),
    ("route.redirect", route::REDIRECTION.groups),
    ("route.respond", route::ANSWER.groups),
    ("route.cache", cache::POLICY.groups),
    ("route.cache.key", cache::KEY_PARTS.groups),
    ("compress", compress::POLICY.groups),
    ("compress.level", compress::LEVELS.groups),
    ("care.route", &[&[&rate::RATE], care::OF_ROUTE]),
    ("care.priority", care::BY_FIELD.groups),
    ("care.upstream", &[care::OF_UPSTREAM]),
    ("care.rate", rate::RULE.groups),
    ("care.breaker", breaker::RULE.groups),
    ("care.concurrency", spared::LIMIT_AND_QUEUE.groups),
    ("care.ejection", spared::EJECT.groups),
    ("care.health", health::CHECK.groups),
    ("care.retry", retry::RULE.groups),
    ("care.hedge", retry::SECOND.groups),
    ("care.retry_budget", retry::SHARED.groups),
    ("care.fallback", fallback::RULE.groups),
];

/// Every key that some table shows.
pub(super) fn shown() -> impl Iterator<Item = &'static Key> {
    let groups = TABLES.iter().flat_map(|(_, groups)| *groups);
    groups.flat_map(|group| group.iter().copied())
}

pub(super) fn each_has_one_place<'p>(pages: impl Iterator<Item = &'p String>) {
    let pages: Vec<_> = pages.map(String::as_str).collect();
    let all = pages.concat();
    for (name, _) in TABLES {
        let places = all.matches(&format!("<!-- keys: {name} -->")).count();
        assert_eq!(places, 1, "the place of the table {name:?}");
    }
}

/// Every variable, and when it is known.
fn table_of_variables() -> String {
    let mut text = "| variable | known | meaning |\n| --- | --- | --- |\n".to_owned();
    for entry in TABLE {
        let known = match entry.known {
            Known::WithRequest => "with the request",
            Known::WithAnswer => "with the answer",
            Known::AtEnd => "in the end",
        };
        text.extend(["| `", entry.name, "` | ", known, " | ", entry.doc, " |\n"]);
    }
    text
}

/// The page with every table as it is declared.
pub(super) fn written(page: &str) -> String {
    let mut text = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        text.extend([line, "\n"]);
        if line == "<!-- variables -->" {
            while lines.next_if(|line| line.starts_with('|')).is_some() {}
            text.push_str(&table_of_variables());
            continue;
        }
        let marker = line.strip_prefix("<!-- keys: ");
        let Some(name) = marker.and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let table = TABLES.iter().find(|(known, _)| *known == name);
        let (_, groups) = table.unwrap_or_else(|| panic!("there is no table of {name:?}"));
        while lines.next_if(|line| line.starts_with('|')).is_some() {}
        text.push_str(&table_of(&groups.concat()));
    }
    text
}

/// Its name, and what it says of a key.
type Column = (&'static str, fn(&Key) -> String);

fn table_of(keys: &[&Key]) -> String {
    let columns: [Column; 5] = [
        ("key", |key| format!("`{}`", key.name)),
        ("type", |key| key.kind.noun()),
        ("default", |key| default(&key.preset)),
        ("range", |key| key.kind.range().unwrap_or_default()),
        ("meaning", |key| key.doc.to_owned()),
    ];
    // A column without anything in it says nothing.
    let columns = columns
        .iter()
        .filter(|(_, cell)| keys.iter().any(|key| !cell(key).is_empty()));
    let columns: Vec<_> = columns.collect();
    let mut table = row(columns.iter().map(|(name, _)| (*name).to_owned()));
    table += &row(columns.iter().map(|_| "---".to_owned()));
    for key in keys {
        table += &row(columns.iter().map(|(_, cell)| cell(key)));
    }
    table
}

fn default(preset: &Preset) -> String {
    match preset {
        Preset::Required(_) => "required".to_owned(),
        Preset::Said(words) => (*words).to_owned(),
        Preset::Text("") => "empty".to_owned(),
        value => value
            .toml()
            .map_or_else(String::new, |toml| format!("`{toml}`")),
    }
}

fn row(cells: impl Iterator<Item = String>) -> String {
    let mut row = "|".to_owned();
    for cell in cells {
        if !cell.is_empty() {
            row.push(' ');
            row += &cell.replace('|', "\\|");
        }
        row += " |";
    }
    row + "\n"
}
