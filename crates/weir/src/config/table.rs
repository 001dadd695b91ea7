//! `[table.NAME]`, and the `collect` of routes.

use std::collections::BTreeMap;

use weir_gateway::settings::Serve;
use weir_kv::activities::{BatchSettings, TableSettings};

use super::declared::file::TABLE;
use super::declared::table as declared;
use super::engine;
use super::entries::Entries;
use super::entry::Entry;
use super::in_process::{InProcess, Service};
use super::suggest::{did_you_mean, nearest, one_of};

/// Reads every `[table.NAME]`.
pub(super) fn all(root: &mut Entries) -> BTreeMap<String, TableSettings> {
    let mut tables = BTreeMap::new();
    for (name, value) in root.named(&TABLE) {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(is_name_char) {
            value.wrong("expected a name of letters, digits, \"-\" and \"_\"");
        }
        let Some(mut table) = value.table() else {
            continue;
        };
        let engine = table.required(&declared::ENGINE);
        let engine = engine.and_then(|value| engine::engine(value.table()?, name));
        let batch = table.optional(&declared::BATCH);
        let batch = batch.and_then(|value| batch_of(&value));
        table.finish();
        // A table with a mistake is one all the same: a route that names it is not wrong too.
        let settings = TableSettings {
            engine: engine.unwrap_or_else(engine::nowhere),
            batch: batch.unwrap_or_else(|| at_once(declared::BATCH.preset.integer())),
        };
        tables.insert(name.to_owned(), settings);
    }
    tables
}

fn batch_of(value: &Entry) -> Option<BatchSettings> {
    if !value.is_table() {
        let events = value.as_integer();
        if events.is_none() {
            value.unexpected();
        }
        return events.map(at_once);
    }
    let mut table = value.table()?;
    let events = table.integer(&declared::EVENTS_AT_ONCE);
    let wait = table.duration(&declared::WAIT);
    table.finish();
    let usual = at_once(declared::EVENTS_AT_ONCE.preset.integer());
    Some(BatchSettings {
        events_max: events.map_or(usual.events_max, |events| events as usize),
        wait: wait.unwrap_or(usual.wait),
    })
}

fn at_once(events: u64) -> BatchSettings {
    BatchSettings {
        events_max: events as usize,
        wait: declared::WAIT.preset.duration(),
    }
}

impl InProcess {
    /// Reads what stands at `collect`, and says which service does it.
    pub(super) fn collect(&mut self, value: &Entry) -> Option<Serve> {
        let mut table = value.table()?;
        let named = table.required(&declared::OF_TABLE);
        table.finish();
        let name = named.and_then(|named| self.known_table(&named))?;
        let service = format!("{name} (activities)");
        let timeout = engine::timeout(&self.tables.get(&name)?.engine);
        self.services
            .insert(service.clone(), Service::Collect(name));
        Some(Serve {
            service,
            timeout,
            delivery: None,
        })
    }

    /// The name of a table that there is.
    fn known_table(&self, value: &Entry) -> Option<String> {
        let names = || self.tables.keys().map(String::as_str);
        value.parsed(|name| {
            if names().any(|known| known == name) {
                return Ok(name.to_owned());
            }
            let help = match nearest(name, names()) {
                Some(meant) => did_you_mean(Some(meant)),
                None if self.tables.is_empty() => {
                    format!("; add `[table.{name}]` with its \"engine\"")
                }
                None => format!("; expected {}", one_of(names())),
            };
            Err(format!("there is no table of this name{help}"))
        })
    }
}
