//! `[queue.NAME.sink.NAME]`, and what of it a queue in Kafka has too.

use std::path::PathBuf;

use weir_queue::{
    Cassandra, Column, Destination, File, Kafka, KafkaQueue, Lines, Postgres, Sasl, Settings,
    SinkSettings, Source,
};

use super::declared::sink as declared;
use super::declared::{Key, Preset};
use super::entries::Entries;
use super::entry::Entry;
use super::headers::is_token;
use super::suggest::one_of;

/// What a column may have.
pub(super) const SOURCE_EXPECTED: &str = r#"one of "id", "offset", "time", "queue", "route", "key", "method", "path", "client", "body", "header:NAME", "json:/POINTER" (RFC 6901)"#;

/// Reads every sink of a queue.
pub(super) fn all(of: &str, table: &mut Entries, files: &mut Vec<PathBuf>) -> Vec<SinkSettings> {
    let mut sinks = Vec::new();
    for (name, value) in table.named(&declared::SINKS) {
        super::queue::check_name(name, &value);
        if name == Settings::TOPIC {
            value.wrong("expected another name: this is the sink of a queue that lives in Kafka");
        }
        let Some(mut table) = value.table() else {
            continue;
        };
        let destination = destination(of, &mut table, files);
        let number = table.integer(&declared::BATCH);
        let batch = number.unwrap_or(declared::BATCH.preset.integer()) as u32;
        let rate = table.optional(&declared::RATE);
        let timeout = table.duration(&declared::TIMEOUT);
        table.finish();
        // A queue with a mistake in a sink has one all the same: a route that needs one is not wrong too.
        sinks.push(SinkSettings {
            name: name.to_owned(),
            destination: destination.unwrap_or_else(nowhere),
            batch,
            rate: rate.and_then(|value| value.number()),
            timeout: timeout.unwrap_or(declared::TIMEOUT.preset.duration()),
        });
    }
    sinks
}

fn nowhere() -> Destination {
    Destination::File(File {
        path: PathBuf::new(),
        lines: Lines::Messages,
    })
}

/// What a sink writes to.
fn destination(of: &str, table: &mut Entries, files: &mut Vec<PathBuf>) -> Option<Destination> {
    let targets = declared::TARGETS.iter();
    let mut chosen: Vec<(&'static Key, Entry)> = targets
        .filter_map(|key| Some((*key, table.optional(key)?)))
        .collect();
    let names = || one_of(declared::TARGETS.iter().map(|key| key.name));
    if chosen.len() > 1 {
        let (_, second) = chosen.remove(1);
        second.wrong(format!(
            "found beside \"{}\", expected exactly {}",
            chosen[0].0.name,
            names()
        ));
        return None;
    }
    let Some((key, value)) = chosen.pop() else {
        table.wrong_as_a_whole(format!("found no target, expected {}", names()));
        return None;
    };
    match () {
        () if key.is(&declared::FILE) => file(&value, files).map(Destination::File),
        () if key.is(&declared::POSTGRES) => postgres(of, &value).map(Destination::Postgres),
        () if key.is(&declared::CASSANDRA) => cassandra(&value).map(Destination::Cassandra),
        () => {
            let mut table = value.table()?;
            let topic = topic(of, &mut table);
            table.finish();
            topic.map(Destination::Kafka)
        }
    }
}

fn file(value: &Entry, files: &mut Vec<PathBuf>) -> Option<File> {
    let (path, lines) = if value.is_table() {
        let mut table = value.table()?;
        let path = table.required(&declared::FILE_PATH);
        let path = path.and_then(|path| path.parsed(file_path));
        let lines = table.optional(&declared::LINES);
        let lines = lines.and_then(|value| value.choice(declared::FORMS));
        table.finish();
        (path?, lines.unwrap_or(Lines::Messages))
    } else {
        (value.parsed(file_path)?, Lines::Messages)
    };
    let plain = super::queue::plain(&path);
    if files.contains(&plain) {
        value.wrong("another sink writes to this file, expected one of its own");
    }
    files.push(plain);
    Some(File { path, lines })
}

fn file_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') || text.ends_with('/') {
        return Err(format!("expected {}", declared::FILE_EXPECTED));
    }
    Ok(PathBuf::from(text))
}

fn postgres(of: &str, value: &Entry) -> Option<Postgres> {
    if !value.is_table() {
        return Some(Postgres {
            url: value.parsed(postgres_url)?,
            table: of.to_owned(),
            columns: Vec::new(),
        });
    }
    let mut table = value.table()?;
    let url = table.required(&declared::POSTGRES_URL);
    let url = url.and_then(|url| url.parsed(postgres_url));
    let named = table.optional(&declared::TABLE);
    let named = named.map_or(Some(of.to_owned()), |value| value.parsed(table_name));
    let columns = columns(&mut table);
    table.finish();
    Some(Postgres {
        url: url?,
        table: named?,
        columns,
    })
}

pub(super) fn table_name(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 2 || !parts.iter().all(|part| is_name(part)) {
        return Err(format!("expected {}", declared::TABLE_EXPECTED));
    }
    Ok(text.to_owned())
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && !part.contains('\0')
}

pub(super) fn postgres_url(text: &str) -> Result<String, String> {
    let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
    if !is_url {
        return Err(format!("expected {}", declared::URL_EXPECTED));
    }
    let checked = Postgres::check_url(text);
    checked.map_err(|why| format!("expected {}: {why}", declared::URL_EXPECTED))?;
    Ok(text.to_owned())
}

fn cassandra(value: &Entry) -> Option<Cassandra> {
    let mut table = value.table()?;
    let nodes = servers(&mut table, &declared::NODES);
    let named = table.required(&declared::KEYSPACE_TABLE);
    let named = named.and_then(|value| value.parsed(keyspace_and_table));
    let columns = columns(&mut table);
    let user = user(&mut table);
    let concurrency = table.integer(&declared::CONCURRENCY);
    let concurrency = concurrency.unwrap_or(declared::CONCURRENCY.preset.integer());
    table.finish();
    if let Err(why) = Cassandra::check() {
        value.wrong(why);
    }
    let (keyspace, name) = named?;
    Some(Cassandra {
        nodes: nodes?,
        keyspace,
        table: name,
        columns,
        user,
        concurrency: concurrency as u32,
    })
}

/// Name and password, if they are said.
pub(super) fn user(table: &mut Entries) -> Option<(String, String)> {
    let user = table.optional(&declared::USER);
    let password = table.optional(&declared::PASSWORD);
    if let (Some(user), None) = (&user, &password) {
        user.wrong("expected a \"password\" beside it");
    }
    let text = |value: Option<Entry>| Some(value?.text()?.to_owned());
    text(user).zip(text(password))
}

pub(super) fn keyspace_and_table(text: &str) -> Result<(String, String), String> {
    match text.split_once('.') {
        Some((keyspace, table)) if is_name(keyspace) && is_name(table) && !table.contains('.') => {
            Ok((keyspace.to_owned(), table.to_owned()))
        }
        _ => Err(format!("expected {}", declared::KEYSPACE_EXPECTED)),
    }
}

/// Reads the topic in which a queue lives, and the sink that produces to it.
pub(super) fn lives(of: &str, table: &mut Entries) -> Option<(KafkaQueue, SinkSettings)> {
    let mut table = table.section(&declared::LIVES)?;
    let group = table.optional(&declared::GROUP);
    let group = group.and_then(|value| Some(value.text()?.to_owned()));
    let topic = topic(of, &mut table);
    table.finish();
    let topic = topic?;
    let sink = SinkSettings {
        name: Settings::TOPIC.to_owned(),
        destination: Destination::Kafka(topic.clone()),
        batch: declared::BATCH.preset.integer() as u32,
        rate: None,
        timeout: declared::TIMEOUT.preset.duration(),
    };
    let group = group.unwrap_or_else(|| format!("weir-{of}"));
    Some((KafkaQueue { topic, group }, sink))
}

/// Reads a topic of Kafka.
pub(super) fn topic(of: &str, table: &mut Entries) -> Option<Kafka> {
    let brokers = servers(table, &declared::BROKERS);
    let topic = table.optional(&declared::TOPIC);
    let topic = topic.map_or(Some(of.to_owned()), |value| value.parsed(topic_name));
    let acks = table.optional(&declared::ACKS);
    let acks = acks.and_then(|value| value.choice(declared::ACKS_NAMES));
    let compression = table.optional(&declared::COMPRESSION);
    let compression = compression.and_then(|value| value.choice(declared::COMPRESSIONS));
    let tls = table.optional(&declared::TLS);
    let with_tls = tls.as_ref().and_then(Entry::boolean).unwrap_or(false);
    let sasl = table.optional(&declared::SASL);
    let as_whom = sasl.as_ref().and_then(self::sasl);
    let mut options = Vec::new();
    for (name, value) in table.named(&declared::OPTIONS) {
        if let Some(text) = value.text() {
            options.push((name.to_owned(), text.to_owned()));
        }
    }
    let kafka = Kafka {
        brokers: brokers?,
        topic: topic?,
        acks_of_all: acks.unwrap_or(true),
        compression: compression.unwrap_or("lz4"),
        with_tls,
        sasl: as_whom,
        options,
    };
    if let Err(why) = kafka.check() {
        table.wrong_as_a_whole(why);
        return None;
    }
    Some(kafka)
}

fn topic_name(text: &str) -> Result<String, String> {
    let is_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name = (1..=249).contains(&text.len()) && text.chars().all(is_char);
    if !is_name || matches!(text, "." | "..") {
        return Err(format!("expected {}", declared::TOPIC_EXPECTED));
    }
    Ok(text.to_owned())
}

fn sasl(value: &Entry) -> Option<Sasl> {
    let mut table = value.table()?;
    let mechanism = table.optional(&declared::MECHANISM);
    let mechanism = mechanism.and_then(|value| value.choice(declared::MECHANISMS));
    let user = table.required(&declared::SASL_USER);
    let password = table.required(&declared::SASL_PASSWORD);
    table.finish();
    Some(Sasl {
        mechanism: mechanism.unwrap_or("PLAIN"),
        user: user?.text()?.to_owned(),
        password: password?.text()?.to_owned(),
    })
}

/// Reads a list of servers that must be there.
pub(super) fn servers(table: &mut Entries, key: &'static Key) -> Option<Vec<String>> {
    let value = table.required(key)?;
    let list = value.list()?;
    if let (Preset::Required(expected), []) = (&key.preset, list.as_slice()) {
        value.wrong(format!("found none, expected {expected}"));
        return None;
    }
    all_of(&list)
}

/// Reads a list of servers that may have been another value.
pub(super) fn all_servers(value: &Entry) -> Option<Vec<String>> {
    let list = value.as_list();
    let list = list.filter(|list| !list.is_empty());
    if list.is_none() {
        value.unexpected();
    }
    all_of(&list?)
}

fn all_of(list: &[Entry]) -> Option<Vec<String>> {
    let servers: Vec<_> = list.iter().map(|value| value.parsed(server)).collect();
    servers.into_iter().collect()
}

fn server(text: &str) -> Result<String, String> {
    let is_server = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains([',', '/'])
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_server {
        Ok(text.to_owned())
    } else {
        Err(format!("expected {}", declared::SERVER_EXPECTED))
    }
}

/// Reads the columns, if there are any, in the order of the file.
fn columns(table: &mut Entries) -> Vec<Column> {
    let mut columns = Vec::new();
    for (name, source) in table.named(&declared::COLUMNS) {
        if !is_name(name) {
            source.wrong("expected the name of a column");
        }
        if let Some(source) = source.parsed(self::source) {
            let name = name.to_owned();
            columns.push(Column { name, source });
        }
    }
    columns
}

fn source(text: &str) -> Result<Source, String> {
    Ok(match text {
        "id" => Source::Id,
        "offset" => Source::Offset,
        "time" => Source::Time,
        "queue" => Source::Queue,
        "route" => Source::Route,
        "key" => Source::Key,
        "method" => Source::Method,
        "path" => Source::Path,
        "client" => Source::Client,
        "body" => Source::Body,
        _ => match text.split_once(':') {
            Some(("header", name)) if is_token(name) => Source::Field(name.to_ascii_lowercase()),
            Some(("json", pointer)) if pointer.starts_with('/') => {
                Source::Pointer(pointer.to_owned())
            }
            _ => return Err(format!("expected {SOURCE_EXPECTED}")),
        },
    })
}
