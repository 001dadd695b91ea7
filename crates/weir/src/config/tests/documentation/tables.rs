//! The tables of keys in the reference, as the declaration has them.

use crate::config::declared::care::{
    self, breaker, fallback, health, rate, retry, upstream as spared,
};
use crate::config::declared::{Key, Preset, cache, clients, compress, route, server, upstream};

/// A table is behind a line `<!-- keys: NAME -->` and has the keys of these groups.
type Table = (&'static str, &'static [&'static [&'static Key]]);

const TABLES: &[Table] = &[
    ("server", server::SERVER.groups),
    ("listener", server::LISTENER.groups),
    ("admin", server::ADMIN.groups),
    ("access_log", server::ACCESS_LOG.groups),
    ("limits", clients::LIMITS.groups),
    ("trusted_proxies", clients::TRUSTED_PROXIES.groups),
    ("timeouts", clients::TIMEOUTS.groups),
    ("cache", cache::STORAGE.groups),
    ("cache.disk", cache::ON_DISK.groups),
    ("dns", server::DNS.groups),
    ("upstream", &[upstream::OF_SERVERS]),
    ("upstream.servers", upstream::SERVER.groups),
    ("route", &[route::OF_ANY]),
    ("route.forward", &[route::FORWARD]),
    ("route.timeout", route::TIMEOUTS.groups),
    ("route.headers", route::EDITS.groups),
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

/// The page with every table as it is declared.
pub(super) fn written(page: &str) -> String {
    let mut text = String::new();
    let mut lines = page.lines().peekable();
    let mut left: Vec<_> = TABLES.iter().map(|(name, _)| *name).collect();
    while let Some(line) = lines.next() {
        text.extend([line, "\n"]);
        let marker = line.strip_prefix("<!-- keys: ");
        let Some(name) = marker.and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let table = TABLES.iter().find(|(known, _)| *known == name);
        let (_, groups) = table.unwrap_or_else(|| panic!("there is no table of {name:?}"));
        left.retain(|known| *known != name);
        while lines.next_if(|line| line.starts_with('|')).is_some() {}
        text.push_str(&table_of(&groups.concat()));
    }
    assert!(left.is_empty(), "the page has no place for {left:?}");
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
