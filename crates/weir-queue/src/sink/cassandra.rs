//! A table of Cassandra that messages are inserted into, a row for each.
//!
//! Rows are inserted one by one, many at a time, each straight at a node that has it: batches over several partitions cost the
//! cluster more. Rows of one key go one after the other. What is written again replaces itself when the id is in the primary key.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::{ColumnType, NativeType};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlTimestamp, CqlValue};

use super::columns::{rfc3339, uuid};
use super::row::{Row, Value};
use super::{Cassandra, Column, Item, LATER, Origin, Trouble, all_columns};

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    settings: Cassandra,
    origin: Origin,
    columns: Vec<Column>,
    open: Option<Open>,
}

/// A session, and the statement that inserts a row.
#[derive(Debug)]
struct Open {
    session: Session,
    insert: Arc<PreparedStatement>,
}

/// The values of a row; nothing where a message says nothing.
type Values = Vec<Option<CqlValue>>;

impl Table {
    pub(super) fn new(settings: Cassandra, origin: Origin) -> Self {
        let columns = all_columns(&settings.columns);
        Self {
            settings,
            origin,
            columns,
            open: None,
        }
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) async fn write(&mut self, items: &[Item]) -> Result<(), Trouble> {
        if self.open.is_none() {
            self.open = Some(self.connect().await.map_err(Trouble::Away)?);
        }
        let Some(open) = &self.open else {
            return Err(Trouble::Away("it is not connected".to_owned()));
        };
        let mut rows = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let row = self.row(&open.insert, item);
            rows.push(row.map_err(|why| Trouble::Refused { at: Some(at), why })?);
        }
        let chains = chains(items).into_iter().map(|chain| {
            let rows = &rows;
            async move {
                for at in chain {
                    let inserted = open.session.execute_unpaged(&open.insert, &rows[at]).await;
                    if let Err(error) = inserted {
                        return Err(open.trouble(at, &error).await);
                    }
                }
                Ok(())
            }
        });
        let mut inserting =
            stream::iter(chains).buffer_unordered(self.settings.concurrency.max(1) as usize);
        let mut refused = None;
        while let Some(inserted) = inserting.next().await {
            match inserted {
                Ok(()) => {}
                // The others go on: they are not lost with it.
                Err(Trouble::Refused { at, why }) => refused = Some(Trouble::Refused { at, why }),
                Err(away) => return Err(away),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    async fn connect(&self) -> Result<Open, String> {
        let nodes = &self.settings.nodes;
        let mut builder = SessionBuilder::new().known_nodes(nodes);
        if let Some((name, password)) = &self.settings.user {
            builder = builder.user(name, password);
        }
        let session = builder.build().await.map_err(|error| error.to_string())?;
        let table = format!(
            "{}.{}",
            quoted(&self.settings.keyspace),
            quoted(&self.settings.table)
        );
        if self.settings.columns.is_empty() {
            let creation = format!(
                "CREATE TABLE IF NOT EXISTS {table} (id uuid PRIMARY KEY, received timestamp, key text, method text, path text, body blob)"
            );
            let created = session.query_unpaged(creation, &[]).await;
            created.map_err(|error| error.to_string())?;
        }
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|column| quoted(&column.name))
            .collect();
        let places = vec!["?"; names.len()].join(", ");
        let insert = format!(
            "INSERT INTO {table} ({}) VALUES ({places})",
            names.join(", ")
        );
        let insert = session
            .prepare(insert)
            .await
            .map_err(|error| error.to_string())?;
        for (column, spec) in self
            .columns
            .iter()
            .zip(insert.get_variable_col_specs().iter())
        {
            if native(spec.typ()).is_none() {
                let name = &column.name;
                return Err(format!(
                    "the column {name:?} has a type that weir does not write"
                ));
            }
        }
        let insert = Arc::new(insert);
        Ok(Open { session, insert })
    }

    fn row(&self, insert: &PreparedStatement, item: &Item) -> Result<Values, String> {
        let row = Row::of(&self.origin, item).ok_or(LATER)?;
        let specs = insert.get_variable_col_specs();
        let columns = self.columns.iter().zip(specs.iter());
        let values = columns.map(|(column, spec)| {
            let value = row.value(&column.source)?;
            let of_type = native(spec.typ()).ok_or("it has a type that weir does not write")?;
            let told = |why| format!("{:?}: {why}", column.name);
            cql(value, &of_type).map_err(told)
        });
        values.collect()
    }
}

/// Messages by their keys, in their order; those without one alone.
fn chains(items: &[Item]) -> Vec<Vec<usize>> {
    let mut chains: Vec<Vec<usize>> = Vec::new();
    let mut by_key: HashMap<Vec<u8>, usize> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        let key = item.message().and_then(|message| message.key);
        if let Some(&chain) = key.and_then(|key| by_key.get(key)) {
            chains[chain].push(at);
            continue;
        }
        if let Some(key) = key {
            by_key.insert(key.to_vec(), chains.len());
        }
        chains.push(vec![at]);
    }
    chains
}

fn native(of_type: &ColumnType<'_>) -> Option<NativeType> {
    match of_type {
        ColumnType::Native(native) => match native {
            NativeType::Counter
            | NativeType::Date
            | NativeType::Decimal
            | NativeType::Duration
            | NativeType::Time
            | NativeType::Varint => None,
            native => Some(native.clone()),
        },
        _ => None,
    }
}

/// A value as a column of this type has it.
fn cql(value: Value<'_>, of_type: &NativeType) -> Result<Option<CqlValue>, String> {
    let text = match value {
        Value::Nothing => return Ok(None),
        Value::Bytes(bytes) if *of_type == NativeType::Blob => {
            return Ok(Some(CqlValue::Blob(bytes.to_vec())));
        }
        Value::Time(time_ms) => {
            let signed_ms = time_ms.cast_signed();
            return Ok(Some(match of_type {
                NativeType::Timestamp => CqlValue::Timestamp(CqlTimestamp(signed_ms)),
                NativeType::BigInt => CqlValue::BigInt(signed_ms),
                _ => CqlValue::Text(rfc3339(time_ms)),
            }));
        }
        Value::Uuid(id) => uuid(id),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.into_owned(),
        Value::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes);
            text.map_err(|_| "its content is no text")?.to_owned()
        }
        Value::Json(part) => part.to_owned(),
    };
    let wrong = || format!("{text:?} is no {of_type:?}");
    let read = match of_type {
        NativeType::Ascii => CqlValue::Ascii(text.clone()),
        NativeType::Text => CqlValue::Text(text.clone()),
        NativeType::Blob => CqlValue::Blob(text.clone().into_bytes()),
        NativeType::Boolean => CqlValue::Boolean(text.parse().map_err(|_| wrong())?),
        NativeType::Double => CqlValue::Double(text.parse().map_err(|_| wrong())?),
        NativeType::Float => CqlValue::Float(text.parse().map_err(|_| wrong())?),
        NativeType::Int => CqlValue::Int(text.parse().map_err(|_| wrong())?),
        NativeType::BigInt => CqlValue::BigInt(text.parse().map_err(|_| wrong())?),
        NativeType::SmallInt => CqlValue::SmallInt(text.parse().map_err(|_| wrong())?),
        NativeType::TinyInt => CqlValue::TinyInt(text.parse().map_err(|_| wrong())?),
        NativeType::Inet => CqlValue::Inet(text.parse().map_err(|_| wrong())?),
        NativeType::Uuid => CqlValue::Uuid(text.parse().map_err(|_| wrong())?),
        NativeType::Timeuuid => CqlValue::Timeuuid(text.parse().map_err(|_| wrong())?),
        NativeType::Timestamp => {
            let time = text.parse::<jiff::Timestamp>().ok();
            let time_ms = time.map(jiff::Timestamp::as_millisecond);
            let time_ms = time_ms.or_else(|| text.parse().ok()).ok_or_else(wrong)?;
            CqlValue::Timestamp(CqlTimestamp(time_ms))
        }
        _ => return Err(wrong()),
    };
    Ok(Some(read))
}

impl Open {
    /// What an error says: about a row, or about the cluster.
    async fn trouble(&self, at: usize, error: &ExecutionError) -> Trouble {
        let why = error.to_string();
        let is_of_row = match error {
            ExecutionError::BadQuery(_)
            | ExecutionError::LastAttemptError(RequestAttemptError::SerializationError(_)) => true,
            // The same is said when the table is not there any more.
            ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, _)) => {
                self.session
                    .prepare(self.insert.get_statement())
                    .await
                    .is_ok()
            }
            _ => false,
        };
        if is_of_row {
            Trouble::Refused { at: Some(at), why }
        } else {
            Trouble::Away(why)
        }
    }
}

/// A name as it is written in a statement.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
