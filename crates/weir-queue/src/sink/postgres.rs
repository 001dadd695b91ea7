//! A table of Postgres that messages are copied to, a row for each.
//!
//! A batch is one `COPY`, which Postgres takes as a whole or not at all. Values go as text, so that each column reads its own as it
//! does from anybody. When a row is there already, because the answer to the last attempt was lost, the batch goes through a temporary
//! table, and what is there is left as it is: each message is in the table once. That takes a column with the id that is unique.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt as _;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use weir_socket::tls::{self, Trust};

use super::columns::{rfc3339, uuid};
use super::row::{Row, Value};
use super::{Column, Item, LATER, Origin, Postgres, Source, Trouble, all_columns};

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    origin: Origin,
    config: Config,
    /// Its name, and those of its columns, as they are written in a statement.
    name: String,
    columns: Vec<Column>,
    is_preset: bool,
    within: Duration,
    open: Option<Open>,
}

/// A connection, and what the columns are.
struct Open {
    client: Client,
    types: Vec<Type>,
    connection: JoinHandle<Result<(), Error>>,
}

impl Drop for Open {
    /// What is still asked for would keep it open, and a place of the server with it.
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}

/// What is wrong with a URL, if something is.
pub(super) fn check_url(url: &str) -> Result<(), String> {
    let config: Config = url.parse().map_err(|error: Error| {
        let why = std::error::Error::source(&error).map(ToString::to_string);
        why.unwrap_or_else(|| error.to_string())
    })?;
    if config.get_hosts().is_empty() {
        return Err("it names no host".to_owned());
    }
    Ok(())
}

impl Table {
    pub(super) fn new(
        settings: &Postgres,
        within: Duration,
        origin: Origin,
    ) -> Result<Self, String> {
        let config: Config = settings
            .url
            .parse()
            .map_err(|error: Error| error.to_string())?;
        let is_preset = settings.columns.is_empty();
        let columns = all_columns(&settings.columns);
        let parts = settings.table.split('.').map(identifier);
        let name = parts.collect::<Vec<_>>().join(".");
        Ok(Self {
            origin,
            config,
            name,
            columns,
            is_preset,
            within,
            open: None,
        })
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) async fn write(&mut self, items: &[Item]) -> Result<(), Trouble> {
        if self
            .open
            .as_ref()
            .is_none_or(|open| open.client.is_closed())
        {
            self.open = Some(self.connect().await.map_err(|error| away(&error))?);
        }
        let Some(open) = &self.open else {
            return Err(Trouble::Away("it is not connected".to_owned()));
        };
        let rows = self.rows(&open.types, items)?;
        let names = self.column_names();
        let copied = copy(
            &open.client,
            &format!("{} ({names})", self.name),
            rows.clone(),
        )
        .await;
        let error = match copied {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let is_there = error.code() == Some(&SqlState::UNIQUE_VIOLATION);
        let ids = self
            .columns
            .iter()
            .find(|column| column.source == Source::Id);
        if let Some(id) = ids.filter(|_| is_there) {
            let merged = self.merge(&open.client, &identifier(&id.name), rows).await;
            return merged.map_err(|error| trouble(&error));
        }
        Err(trouble(&error))
    }

    async fn connect(&self) -> Result<Open, Error> {
        // Without insisting on TLS, a certificate protects from nothing: then any will do, such as that of Debian's server.
        let trust = match self.config.get_ssl_mode() {
            SslMode::Require => Trust::System,
            _ => Trust::Anybody,
        };
        let tls = tls::Client::new("localhost", &trust, &[]);
        let (client, connection) = if let Ok(tls) = tls {
            let tls = MakeRustlsConnect::new((*tls.config).clone());
            let (client, connection) = self.config.connect(tls).await?;
            (client, tokio::spawn(connection))
        } else {
            // Nobody is trusted here: whoever insists on TLS is told by the client of Postgres.
            let (client, connection) = self.config.connect(NoTls).await?;
            (client, tokio::spawn(connection))
        };
        let mut open = Open {
            client,
            types: Vec::new(),
            connection,
        };
        let client = &open.client;
        // A server that waits for a lock does not notice that nobody waits for it.
        let within = format!("SET statement_timeout = {}", self.within.as_millis().max(1));
        client.batch_execute(&within).await?;
        let look = format!("SELECT {} FROM {} LIMIT 0", self.column_names(), self.name);
        let found = match client.prepare(&look).await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) && self.is_preset => {
                client.batch_execute(&self.creation()).await?;
                client.prepare(&look).await?
            }
            found => found?,
        };
        let types = found.columns().iter();
        open.types = types.map(|column| column.type_().clone()).collect();
        Ok(open)
    }

    fn creation(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (id uuid PRIMARY KEY, received timestamptz NOT NULL, \
             key text, method text NOT NULL, path text NOT NULL, body bytea NOT NULL)",
            self.name
        )
    }

    fn column_names(&self) -> String {
        let names = self.columns.iter();
        let names = names.map(|column| identifier(&column.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Writes those that are not there.
    async fn merge(&self, client: &Client, id: &str, rows: Bytes) -> Result<(), Error> {
        let (name, names) = (&self.name, self.column_names());
        let begin = format!(
            "BEGIN; CREATE TEMPORARY TABLE weir_batch ON COMMIT DROP AS SELECT {names} FROM {name} LIMIT 0"
        );
        let take = format!(
            "INSERT INTO {name} ({names}) SELECT {names} FROM weir_batch \
             WHERE NOT EXISTS (SELECT 1 FROM {name} AS there WHERE there.{id} = weir_batch.{id}); COMMIT"
        );
        let merged = async {
            client.batch_execute(&begin).await?;
            copy(client, &format!("weir_batch ({names})"), rows).await?;
            client.batch_execute(&take).await
        };
        let merged = merged.await;
        if merged.is_err() {
            let _ = client.batch_execute("ROLLBACK").await;
        }
        merged
    }

    /// The batch as `COPY` reads it.
    fn rows(&self, types: &[Type], items: &[Item]) -> Result<Bytes, Trouble> {
        let mut rows = String::new();
        for (at, item) in items.iter().enumerate() {
            let appended = self.append(types, item, &mut rows);
            appended.map_err(|why| Trouble::Refused { at: Some(at), why })?;
        }
        Ok(Bytes::from(rows))
    }

    fn append(&self, types: &[Type], item: &Item, rows: &mut String) -> Result<(), String> {
        let row = Row::of(&self.origin, item).ok_or(LATER)?;
        for (at, (column, of_type)) in self.columns.iter().zip(types).enumerate() {
            if at > 0 {
                rows.push('\t');
            }
            let value = row.value(&column.source)?;
            append(value, of_type, rows).map_err(|why| format!("{:?}: {why}", column.name))?;
        }
        rows.push('\n');
        Ok(())
    }
}

/// Appends a value as `COPY` reads it (`PostgreSQL`, "File Formats, Text Format").
fn append(value: Value<'_>, of_type: &Type, rows: &mut String) -> Result<(), String> {
    let is_json = matches!(*of_type, Type::JSON | Type::JSONB);
    let is_number = matches!(
        *of_type,
        Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC
    );
    match value {
        Value::Nothing => rows.push_str("\\N"),
        Value::Uuid(id) => rows.push_str(&uuid(id)),
        Value::Number(number) => {
            let _ = write!(rows, "{number}");
        }
        Value::Time(time_ms) if is_number => {
            let _ = write!(rows, "{time_ms}");
        }
        Value::Time(time_ms) => rows.push_str(&rfc3339(time_ms)),
        Value::Text(text) if is_json => escape(&serde_json::Value::from(text).to_string(), rows),
        Value::Text(text) => escape(&text, rows),
        Value::Bytes(bytes) if *of_type == Type::BYTEA => {
            rows.push_str("\\\\x");
            for byte in bytes {
                let _ = write!(rows, "{byte:02x}");
            }
        }
        Value::Bytes(bytes) => {
            let text =
                std::str::from_utf8(bytes).map_err(|_| "its content is no text".to_owned())?;
            escape(text, rows);
        }
        Value::Json(part) => escape(part, rows),
    }
    Ok(())
}

fn escape(text: &str, rows: &mut String) {
    for character in text.chars() {
        match character {
            '\\' => rows.push_str("\\\\"),
            '\n' => rows.push_str("\\n"),
            '\r' => rows.push_str("\\r"),
            '\t' => rows.push_str("\\t"),
            other => rows.push(other),
        }
    }
}

/// A name as it is written in a statement.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

async fn copy(client: &Client, to: &str, rows: Bytes) -> Result<(), Error> {
    let copying = client.copy_in(&format!("COPY {to} FROM STDIN")).await?;
    let mut copying = std::pin::pin!(copying);
    copying.send(rows).await?;
    copying.finish().await.map(|_| ())
}

/// What an error says: about a row, or about Postgres.
fn trouble(error: &Error) -> Trouble {
    let Some(said) = error.as_db_error() else {
        return away(error);
    };
    // What is wrong with data, breaks a constraint, is more than a limit allows, or is not to a trigger's liking (`PostgreSQL`,
    // appendix A).
    let class = said.code().code().get(..2).unwrap_or_default();
    if !matches!(class, "21" | "22" | "23" | "44" | "54" | "P0") {
        return Trouble::Away(in_words(said));
    }
    let at = said.where_().and_then(line_of);
    let at = at.and_then(|line| line.checked_sub(1));
    let why = in_words(said);
    Trouble::Refused { at, why }
}

fn away(error: &Error) -> Trouble {
    match error.as_db_error() {
        Some(said) => Trouble::Away(in_words(said)),
        None => Trouble::Away(match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }),
    }
}

fn in_words(said: &DbError) -> String {
    let mut words = format!("{} (SQLSTATE {})", said.message(), said.code().code());
    if let Some(detail) = said.detail() {
        let _ = write!(words, "; {detail}");
    }
    words
}

/// The line in `COPY events, line 5, column id: "x"`.
fn line_of(context: &str) -> Option<usize> {
    let mut places = context.lines().filter(|line| line.starts_with("COPY "));
    let (_, behind) = places.next()?.split_once(", line ")?;
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_told_by_its_line() {
        let context = "COPY events, line 5, column user_id: \"x, line 9\"";
        assert_eq!(line_of(context), Some(5));
        assert_eq!(line_of("COPY weir_batch, line 12"), Some(12));
        assert_eq!(line_of("SQL function \"f\""), None);
    }

    #[test]
    fn what_copy_takes_for_its_own_is_escaped() {
        let written = |value, of_type| {
            let mut rows = String::new();
            append(value, &of_type, &mut rows).map(|()| rows)
        };
        let text = |text: &'static str| Value::Text(text.into());
        assert_eq!(
            written(text("a\tb\\N\r\n"), Type::TEXT).unwrap(),
            "a\\tb\\\\N\\r\\n"
        );
        assert_eq!(written(text("a\"b"), Type::JSONB).unwrap(), "\"a\\\\\"b\"");
        assert_eq!(
            written(Value::Bytes(b"\x00\xff"), Type::BYTEA).unwrap(),
            "\\\\x00ff"
        );
        assert!(written(Value::Bytes(b"\xff"), Type::TEXT).is_err());
        assert_eq!(written(Value::Nothing, Type::TEXT).unwrap(), "\\N");
        assert_eq!(
            written(Value::Json("{\"a\":\n1}"), Type::JSONB).unwrap(),
            "{\"a\":\\n1}"
        );
        assert_eq!(written(text("7"), Type::JSONB).unwrap(), "\"7\"");
        assert_eq!(written(Value::Time(0), Type::INT8).unwrap(), "0");
        assert_eq!(
            written(Value::Time(1500), Type::TIMESTAMPTZ).unwrap(),
            "1970-01-01T00:00:01.500Z"
        );
    }
}
