//! Rows in a log-structured merge tree on the disk of this machine.
//!
//! ```text
//!  0       n  n+1                 n+9              0        1
//! +-----------+----+-------------------+--------  +--------+-----------
//! | user      | 0  | time              | id ...   | 1      | data ...
//! +-----------+----+-------------------+--------  +--------+-----------
//!  key: of n + 9 bytes and the id                  value
//! ```
//!
//! No user has a NUL, and times are big-endian, so the rows of a user stand together in the order of their times. One thread writes
//! all that waits as one batch, synced as the durability says; two read.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _};
use tokio::time::Instant;

use super::BatchSettings;
use super::query::Query;
use super::rows::{Answered, Read, Row, Rows, Waiting, Write, answer, too_late};
use crate::database::inbox::{Batch, Inbox, Most};
use crate::database::thread::{Thread, Work};
use crate::engine::lsm::LsmSettings;
use crate::engine::{Durability, EngineError};
use crate::seldom::Seldom;

/// How long rows that were posted may take to be written. Their client waits for five seconds.
const POST: Duration = Duration::from_secs(2);
/// Bytes of rows that are written at once.
const WRITE_BYTES_MAX: usize = 8 << 20;
const READERS: usize = 2;
const READS_AT_ONCE: Most = Most {
    items: 16,
    weight: 16,
};
/// Threads that flush and compact. With one, a long compaction would hold up every flush.
const WORKERS: usize = 2;

const VALUE_FORMAT: u8 = 1;
const META: &str = "meta";
const META_FORMAT: &str = "format";
const FORMAT: &[u8] = b"activities 1";
const ROWS: &str = "rows";

#[derive(Clone)]
struct Tree {
    database: Database,
    rows: Keyspace,
}

/// Opens the table in a directory.
///
/// # Errors
/// Another process has the directory, it is of something else, or the disk refuses.
pub(super) fn open(settings: &LsmSettings, batch: BatchSettings) -> Result<Rows, String> {
    let tree = Tree::open(settings);
    let tree = tree.map_err(|why| format!("{}: {why}", settings.path.display()))?;
    let waiting = Waiting::new();
    let writer = Writer {
        tree: tree.clone(),
        durability: settings.durability,
        batch,
        told: Seldom::default(),
    };
    let mut threads = vec![spawn("table write", {
        let writes = Arc::clone(&waiting.writes);
        move || Box::pin(writer.run(writes))
    })?];
    for _ in 0..READERS {
        let (tree, reads) = (tree.clone(), Arc::clone(&waiting.reads));
        threads.push(spawn("table read", move || {
            Box::pin(read_all(tree, reads))
        })?);
    }
    Ok(waiting.taken_by(threads))
}

fn spawn(name: &str, work: impl FnOnce() -> Work + Send + 'static) -> Result<Thread, String> {
    let started = Thread::start(name, async move || Ok(((), work())));
    let thread = started.map(|(thread, ())| thread);
    thread.map_err(|error| error.why)
}
impl Tree {
    fn open(settings: &LsmSettings) -> Result<Self, String> {
        std::fs::create_dir_all(&settings.path).map_err(|error| error.to_string())?;
        let database = Database::builder(&settings.path)
            .cache_size(settings.memory_bytes)
            .worker_threads(WORKERS)
            .manual_journal_persist(true)
            .open();
        let database = database.map_err(|error| match error {
            fjall::Error::Locked => "another process has this directory open".to_owned(),
            other => other.to_string(),
        })?;
        let keyspace = |name| {
            let made = database.keyspace(name, KeyspaceCreateOptions::default);
            made.map_err(|error| error.to_string())
        };
        // Before anything is made in the directory of something else.
        let meta = keyspace(META)?;
        match meta.get(META_FORMAT).map_err(|error| error.to_string())? {
            None => {
                let mut batch = database.batch().durability(Some(PersistMode::SyncAll));
                batch.insert(&meta, META_FORMAT, FORMAT);
                batch.commit().map_err(|error| error.to_string())?;
            }
            Some(format) if &*format == FORMAT => {}
            Some(format) => {
                let format = String::from_utf8_lossy(&format).into_owned();
                return Err(format!(
                    "it is no table of activities: its format is {format}"
                ));
            }
        }
        let rows = keyspace(ROWS)?;
        Ok(Self { database, rows })
    }

    /// The rows that are wanted, the newest first.
    fn read(&self, query: &Query) -> Result<Vec<Row>, EngineError> {
        let (from, to) = (
            key(&query.user, query.from_ms, ""),
            key(&query.user, query.to_ms, ""),
        );
        if from >= to {
            return Ok(Vec::new());
        }
        let snapshot = self.database.snapshot();
        let newest = snapshot.range(&self.rows, from..to).rev();
        let mut found = Answered::default();
        for entry in newest.take(query.limit as usize) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            let row = row_of(&query.user, &key, &value);
            found.push(row.ok_or_else(|| EngineError::Failed("a row is damaged".to_owned()))?)?;
        }
        Ok(found.rows())
    }
}

fn key(user: &str, time_ms: u64, id: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(user.len() + 9 + id.len());
    key.extend(user.as_bytes());
    key.push(0);
    key.extend(time_ms.to_be_bytes());
    key.extend(id.as_bytes());
    key
}

fn row_of(user: &str, key: &[u8], value: &[u8]) -> Option<Row> {
    let (time, id) = key.get(user.len() + 1..)?.split_first_chunk()?;
    let (&format, data) = value.split_first()?;
    if format != VALUE_FORMAT {
        return None;
    }
    Some(Row {
        user: user.to_owned(),
        time_ms: u64::from_be_bytes(*time),
        id: std::str::from_utf8(id).ok()?.to_owned(),
        data: std::str::from_utf8(data).ok()?.to_owned(),
        is_named: false,
    })
}

/// What writes.
struct Writer {
    tree: Tree,
    durability: Durability,
    batch: BatchSettings,
    told: Seldom,
}

impl Writer {
    async fn run(self, inbox: Arc<Inbox<Write>>) {
        let events_max = match self.durability {
            Durability::Each => 1,
            _ => self.batch.events_max,
        };
        let most = Most {
            items: events_max,
            weight: WRITE_BYTES_MAX,
        };
        loop {
            if !self.batch.wait.is_zero() {
                inbox.gather(events_max, self.batch.wait).await;
            }
            let Some(Batch {
                items,
                late,
                weight,
            }) = inbox.take(most).await
            else {
                break;
            };
            answer(
                late.into_iter()
                    .map(|write| (write.then)(Err(EngineError::Busy))),
            );
            let rows = items.iter().flat_map(|write| &write.rows);
            let rows: Vec<&Row> = rows.collect();
            let written = self.commit_all(&rows, events_max);
            if let Err(error) = &written {
                self.told
                    .tell(format_args!("activities: not all is written: {error}"));
            }
            answer(items.into_iter().map(|write| (write.then)(written.clone())));
            inbox.done(weight);
        }
        // What was acknowledged is as durable as was said. The rest of it comes for nothing.
        let _ = self.tree.database.persist(PersistMode::SyncAll);
    }

    /// Commits rows, so many at once, as long as there is time.
    fn commit_all(&self, rows: &[&Row], events_max: usize) -> Result<(), EngineError> {
        let until = Instant::now() + POST;
        for rows in rows.chunks(events_max) {
            if Instant::now() >= until {
                return Err(too_late(POST));
            }
            self.commit(rows)?;
        }
        Ok(())
    }

    fn commit(&self, rows: &[&Row]) -> Result<(), EngineError> {
        let mode = match self.durability {
            Durability::Memory => None,
            Durability::Os => Some(PersistMode::Buffer),
            Durability::Group | Durability::Each => Some(PersistMode::SyncData),
        };
        let mut batch = self.tree.database.batch().durability(mode);
        let mut named = HashSet::new();
        for row in rows {
            let key = key(&row.user, row.time_ms, &row.id);
            // The first stays. An id that was given here is nobody's else.
            if row.is_named
                && (self.tree.rows.contains_key(&key).map_err(failed)?
                    || !named.insert(key.clone()))
            {
                continue;
            }
            let mut value = Vec::with_capacity(1 + row.data.len());
            value.push(VALUE_FORMAT);
            value.extend(row.data.as_bytes());
            batch.insert(&self.tree.rows, key, value);
        }
        batch.commit().map_err(failed)
    }
}

async fn read_all(tree: Tree, inbox: Arc<Inbox<Read>>) {
    while let Some(Batch {
        items,
        late,
        weight,
    }) = inbox.take(READS_AT_ONCE).await
    {
        answer(
            late.into_iter()
                .map(|read| (read.then)(Err(EngineError::Busy))),
        );
        let answers = items.into_iter().map(|read| {
            let found = tree.read(&read.query);
            (read.then)(found)
        });
        answer(answers);
        inbox.done(weight);
    }
}

fn failed(error: fjall::Error) -> EngineError {
    EngineError::Failed(match error {
        fjall::Error::Poisoned => {
            "a write to the disk has failed before; start again when that is mended".to_owned()
        }
        other => other.to_string(),
    })
}
