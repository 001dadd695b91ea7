//! The rows of the table: what Postgres is told and asked, and what it says.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio_postgres::{Error, Row};

use super::batch::{Outcome, Write};
use crate::cell::Cell;
use crate::database::first_run;
use crate::database::postgres::{Open, Table, named};
use crate::engine::EngineError;
use crate::version::Version;

/// The last millisecond of the year 9999. What expires later is kept as this.
const EXPIRES_MS_MAX: u64 = 253_402_300_799_999;

/// The sequence begins anywhere: weirs that were there before a table that is made again have numbers of their own.
pub(super) fn creation(table: &str) -> String {
    let (name, runs) = (named(table, ""), named(table, RUNS));
    // An index is in the schema of its table.
    let ends = named(table.rsplit('.').next().unwrap_or(table), ENDS);
    let first = first_run();
    format!(
        "CREATE TABLE IF NOT EXISTS {name} (key bytea PRIMARY KEY, value bytea, expires timestamptz, \
         version_time bigint NOT NULL, version_node integer NOT NULL, version_run integer NOT NULL); \
         CREATE INDEX IF NOT EXISTS {ends} ON {name} (expires) WHERE expires IS NOT NULL; \
         CREATE SEQUENCE IF NOT EXISTS {runs} MINVALUE 1 MAXVALUE 65535 START {first} CYCLE"
    )
}

/// What the names of the sequence and of the index have behind that of the table.
const RUNS: &str = "_runs";
const ENDS: &str = "_expires";

/// Gives the number of a run that no other process has.
pub(super) fn next_run(table: &str) -> String {
    let runs = named(table, RUNS).replace('\'', "''");
    format!("SELECT nextval('{runs}')")
}

pub(super) const COLUMNS: &str = "key, value, expires, version_time, version_node, version_run";

/// A value of more bytes is asked for by itself, so that a batch of reads has a bound.
const READ_TOGETHER: u32 = 64 << 10;

/// The rows of some keys, without values that are to be asked for by themselves, and whether one is left out.
pub(super) fn select(table: &Table) -> String {
    format!(
        "SELECT key, CASE WHEN octet_length(value) <= {READ_TOGETHER} THEN value END, expires, \
         version_time, version_node, version_run, coalesce(octet_length(value) > {READ_TOGETHER}, false) \
         FROM {} WHERE key = ANY($1)",
        table.name
    )
}

/// The row of a key.
pub(super) fn select_one(table: &Table) -> String {
    format!("SELECT {COLUMNS} FROM {} WHERE key = $1", table.name)
}

/// Takes away so many rows that have been nothing for a day, by the clock here and that of the database. It waits for no lock, and without
/// the index it takes none away: it would read the whole table.
pub(super) fn forget(table: &Table) -> String {
    let (name, ends) = (&table.name, table.named(ENDS).replace('\'', "''"));
    format!(
        "WITH over AS MATERIALIZED (SELECT key FROM {name} WHERE expires < LEAST($1, now() - interval '1 day') \
         AND to_regclass('{ends}') IS NOT NULL ORDER BY expires LIMIT {FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED) \
         DELETE FROM {name} AS kept USING over WHERE kept.key = over.key"
    )
}

/// Rows that are taken away at once.
pub(super) const FORGOTTEN_AT_ONCE: u64 = 1000;
/// What has been nothing for so long is taken away. A write that comes later than this may win over a deletion that it is older than.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Takes rows away; how many.
pub(super) async fn forget_some(open: &Open, now_ms: u64) -> Result<u64, Error> {
    let before = time(now_ms).checked_sub(REMEMBERED).unwrap_or(UNIX_EPOCH);
    open.client.execute(&open.statements[0], &[&before]).await
}

/// Writes what goes over what is there, and gives the keys of it.
pub(super) fn insert(table: &Table) -> String {
    format!(
        "INSERT INTO {} AS kept ({COLUMNS}) \
         SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::timestamptz[], $4::bigint[], $5::integer[], $6::integer[]) \
         ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, expires = EXCLUDED.expires, \
         version_time = EXCLUDED.version_time, version_node = EXCLUDED.version_node, version_run = EXCLUDED.version_run \
         WHERE (kept.version_time, kept.version_node, kept.version_run) <= (SELECT most.time, most.node, most.run \
         FROM unnest($1::bytea[], $7::bigint[], $8::integer[], $9::integer[]) AS most (key, time, node, run) \
         WHERE most.key = kept.key) \
         RETURNING kept.key",
        table.name
    )
}

pub(super) fn select_versions(table: &Table) -> String {
    format!(
        "SELECT key, version_time, version_node, version_run FROM {} WHERE key = ANY($1)",
        table.name
    )
}

/// Writes rows, each of another key, and says what became of them.
pub(super) async fn insert_all(open: &Open, writes: &[&Write]) -> Result<Vec<Outcome>, Error> {
    let cells: Vec<&Cell> = writes.iter().map(|write| &write.cell).collect();
    let keys: Vec<&[u8]> = writes.iter().map(|write| &write.key[..]).collect();
    let values: Vec<Option<&[u8]>> = cells.iter().map(|cell| cell.value.as_deref()).collect();
    let expires: Vec<Option<SystemTime>> = cells.iter().map(|cell| ends(cell)).collect();
    let (times, nodes, runs) = columns(cells.iter().map(|cell| cell.version));
    let most = columns(writes.iter().map(|write| write.most()));
    let [insert, select_versions] = &open.statements[..] else {
        return Ok(vec![Outcome::Open; writes.len()]);
    };
    let written = open
        .client
        .query(
            insert,
            &[
                &keys, &values, &expires, &times, &nodes, &runs, &most.0, &most.1, &most.2,
            ],
        )
        .await?;
    if written.len() == keys.len() {
        return Ok(vec![Outcome::Written; writes.len()]);
    }
    let mut outcomes: HashMap<&[u8], Outcome> = written
        .iter()
        .map(|row| (row.get(0), Outcome::Written))
        .collect();
    let refused = keys.iter().filter(|key| !outcomes.contains_key(*key));
    let refused: Vec<&[u8]> = refused.copied().collect();
    let rows = open.client.query(select_versions, &[&refused]).await?;
    for row in &rows {
        outcomes.insert(row.try_get(0)?, Outcome::Kept(version_of(row, 1)?));
    }
    let outcomes = writes
        .iter()
        .map(|write| match outcomes.get(&write.key[..]) {
            // Somebody else may have taken the row away that was in the way.
            Some(Outcome::Kept(kept)) if *kept <= write.most() => Outcome::Open,
            Some(outcome) => outcome.clone(),
            None => Outcome::Open,
        });
    Ok(outcomes.collect())
}

/// Since when there is nothing: for a deletion, from the beginning.
fn ends(cell: &Cell) -> Option<SystemTime> {
    let deleted_ms = cell.value.is_none().then(|| cell.version.unix_ms());
    cell.expires_ms.or(deleted_ms).map(time)
}

/// Versions, each part in a column of its own.
fn columns(versions: impl Iterator<Item = Version>) -> (Vec<i64>, Vec<i32>, Vec<i32>) {
    let parts = versions.map(|version| {
        let (node, run) = (i32::from(version.node), i32::from(version.run));
        (version.time.cast_signed(), node, run)
    });
    parts.collect()
}

fn time(expires_ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(expires_ms.min(EXPIRES_MS_MAX))
}

/// The key and the cell in a row of [`COLUMNS`].
pub(super) fn cell_of(row: &Row) -> Result<(Vec<u8>, Cell), EngineError> {
    let read = || -> Result<(Vec<u8>, Cell), Error> {
        let value: Option<&[u8]> = row.try_get(1)?;
        let expires: Option<SystemTime> = row.try_get(2)?;
        // What has expired before 1970 has expired.
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let expires = expires.filter(|_| value.is_some());
        let cell = Cell {
            version: version_of(row, 3)?,
            expires_ms: expires.map(|time| since(time).as_millis() as u64),
            value: value.map(Bytes::copy_from_slice),
        };
        Ok((row.try_get(0)?, cell))
    };
    read().map_err(|error| damaged(&error))
}

/// The same of a row of [`select`]; no cell where its value is left out.
pub(super) fn small_cell_of(row: &Row) -> Result<(Vec<u8>, Option<Cell>), EngineError> {
    let (key, cell) = cell_of(row)?;
    let is_left_out: bool = row.try_get(6).map_err(|error| damaged(&error))?;
    Ok((key, (!is_left_out).then_some(cell)))
}

fn damaged(error: &Error) -> EngineError {
    EngineError::Failed(format!("Postgres: a row is damaged: {error}"))
}

/// The version in three columns.
fn version_of(row: &Row, first: usize) -> Result<Version, Error> {
    Ok(Version {
        time: row.try_get::<_, i64>(first)?.cast_unsigned(),
        node: row.try_get::<_, i32>(first + 1)? as u16,
        run: row.try_get::<_, i32>(first + 2)? as u16,
    })
}
