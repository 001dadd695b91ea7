//! `engine`: where the data of `[kv]` and of a `[table.NAME]` is.

use std::path::PathBuf;
use std::time::Duration;

use weir_kv::database::{CassandraSettings, PostgresSettings};
use weir_kv::engine::lsm::LsmSettings;
use weir_kv::engine::{Durability, EngineSettings};
use weir_queue::Cassandra;

use super::declared::{Key, engine as declared, sink as declared_sink};
use super::entries::Entries;
use super::entry::Entry;
use super::sink;
use super::suggest::one_of;

/// How long a client waits for an engine at most.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The same when the data is in a database: what waits for it is answered before that, whatever becomes of it.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(10);
/// The keyspace of tables that nothing else is said of.
const KEYSPACE: &str = "weir";

/// Reads where data is, in a table of this name unless another one is named.
pub(super) fn engine(mut table: Entries, usual: &str) -> Option<EngineSettings> {
    let targets = declared::TARGETS.iter();
    let mut chosen: Vec<(&'static Key, Entry)> = targets
        .filter_map(|key| Some((*key, table.optional(key)?)))
        .collect();
    let names = || one_of(declared::TARGETS.iter().map(|key| key.name));
    let embedded = embedded(&mut table, chosen.first().map(|(key, _)| *key));
    if chosen.len() > 1 {
        let (_, second) = chosen.remove(1);
        second.wrong(format!(
            "found beside \"{}\", expected exactly {}",
            chosen[0].0.name,
            names()
        ));
    } else if chosen.is_empty() {
        table.wrong_as_a_whole(format!("found no place for the data, expected {}", names()));
    }
    table.finish();
    let (key, value) = chosen.into_iter().next()?;
    match () {
        () if key.is(&declared::POSTGRES) => postgres(&value, usual).map(EngineSettings::Postgres),
        () if key.is(&declared::CASSANDRA) => {
            cassandra(&value, usual).map(EngineSettings::Cassandra)
        }
        () => {
            let path = value.parsed(super::queue::directory)?;
            Some(EngineSettings::Embedded(LsmSettings { path, ..embedded }))
        }
    }
}

/// An engine for data of which nothing sound is said.
pub(super) fn nowhere() -> EngineSettings {
    EngineSettings::Embedded(LsmSettings {
        path: PathBuf::new(),
        durability: Durability::Group,
        memory_bytes: declared::MEMORY.preset.bytes(),
    })
}

/// How long a client waits for an engine at most.
pub(super) fn timeout(engine: &EngineSettings) -> Duration {
    match engine {
        EngineSettings::Embedded(_) => TIMEOUT,
        EngineSettings::Postgres(_) | EngineSettings::Cassandra(_) => DATABASE_TIMEOUT,
    }
}

/// What is said of an embedded engine, beside the key that says where the data is.
fn embedded(table: &mut Entries, beside: Option<&Key>) -> LsmSettings {
    let durability_value = table.optional(&declared::DURABILITY);
    let memory_value = table.optional(&declared::MEMORY);
    if let Some(key) = beside.filter(|key| !key.is(&declared::PATH)) {
        for value in [&durability_value, &memory_value].into_iter().flatten() {
            value.wrong(format!(
                "has no meaning with \"{}\", expected it only with \"path\"",
                key.name
            ));
        }
    }
    let durability = durability_value.and_then(|value| value.choice(declared::DURABILITIES));
    let memory_bytes = memory_value.and_then(|value| value.size_bytes());
    LsmSettings {
        path: PathBuf::new(),
        durability: durability.unwrap_or(Durability::Group),
        memory_bytes: memory_bytes.unwrap_or(declared::MEMORY.preset.bytes()),
    }
}

fn postgres(value: &Entry, usual: &str) -> Option<PostgresSettings> {
    if !value.is_table() {
        let url = value.parsed(sink::postgres_url)?;
        let table = usual.to_owned();
        return Some(PostgresSettings { url, table });
    }
    let mut table = value.table()?;
    let url = table.required(&declared_sink::POSTGRES_URL);
    let url = url.and_then(|url| url.parsed(sink::postgres_url));
    let named = table.optional(&declared::TABLE);
    let named = named.map_or(Some(usual.to_owned()), |value| {
        value.parsed(sink::table_name)
    });
    table.finish();
    Some(PostgresSettings {
        url: url?,
        table: named?,
    })
}

fn cassandra(value: &Entry, usual: &str) -> Option<CassandraSettings> {
    if let Err(why) = Cassandra::check() {
        value.wrong(why);
    }
    let usual = (KEYSPACE.to_owned(), usual.to_owned());
    if !value.is_table() {
        let (keyspace, table) = usual;
        return Some(CassandraSettings {
            nodes: sink::all_servers(value)?,
            keyspace,
            table,
            user: None,
        });
    }
    let mut table = value.table()?;
    let nodes = sink::servers(&mut table, &declared_sink::NODES);
    let named = table.optional(&declared::IN_KEYSPACE);
    let named = named.map_or(Some(usual), |value| value.parsed(sink::keyspace_and_table));
    let user = sink::user(&mut table);
    table.finish();
    let (keyspace, table) = named?;
    Some(CassandraSettings {
        nodes: nodes?,
        keyspace,
        table,
        user,
    })
}
