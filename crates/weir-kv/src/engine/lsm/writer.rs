//! The thread that writes: all that waits becomes one batch of the tree, and is answered together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fjall::PersistMode;
use tokio::time::Instant;

use super::answer;
use super::lane::Lane;
use super::rows::Rows;
use super::tree::{META_NEWEST, Tree, failed};
use super::writeback::Writeback;
use crate::cell::Cell;
use crate::engine::{Durability, EngineError, Then};
use crate::seldom::Seldom;
use crate::version::Version;
use crate::wall::unix_ms;

/// Bytes of a write besides its key and value, about.
const WRITE_BYTES: usize = 128;
/// Writes of one batch.
const BATCH_MAX: usize = 1024;

/// A write that waits.
pub(super) struct Write {
    pub(super) key: Bytes,
    pub(super) cell: Cell,
    pub(super) how: How,
    pub(super) then: Then<Option<Version>>,
}

impl Write {
    pub(super) fn bytes(&self) -> usize {
        let value = self.cell.value.as_ref().map_or(0, Bytes::len);
        WRITE_BYTES + self.key.len() + value
    }
}

/// How a cell is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Over what is not newer than itself.
    Newer,
    /// Over what is not newer than this.
    Over(Version),
    /// It is taken away, if it has this version and no value any more.
    Forget,
    /// It is taken away, if it has this version.
    Remove,
}

impl How {
    /// Whether nothing is left of the key.
    fn takes(self) -> bool {
        matches!(self, Self::Forget | Self::Remove)
    }
}

/// How long the batch has been under way that is committed. It does not go by the wall clock, which may be put forward or back.
#[derive(Debug)]
pub(super) struct BatchClock {
    opened: Instant,
    /// Milliseconds since then, and [`BEGIN_MS`]; 0 when there is none.
    began_ms: AtomicU64,
}

/// It opens at this time, so that there is one before.
const BEGIN_MS: u64 = 3_600_000;

impl Default for BatchClock {
    fn default() -> Self {
        Self {
            opened: Instant::now(),
            began_ms: AtomicU64::new(0),
        }
    }
}

impl BatchClock {
    fn now_ms(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64 + BEGIN_MS
    }

    pub(super) fn begin(&self) {
        self.began_ms.store(self.now_ms(), Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.began_ms.store(0, Ordering::Release);
    }

    pub(super) fn under_way(&self) -> Duration {
        match self.began_ms.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            began_ms => Duration::from_millis(self.now_ms().saturating_sub(began_ms)),
        }
    }

    /// As if a batch had been under way for so long.
    #[cfg(test)]
    pub(super) fn begin_before(&self, ago: Duration) {
        let began_ms = self.now_ms() - ago.as_millis() as u64;
        self.began_ms.store(began_ms, Ordering::Release);
    }
}

/// Why no commit has been made since the first one that has failed.
#[derive(Debug, Default)]
pub(super) struct Failing(Mutex<Option<String>>);

impl Failing {
    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn why(&self) -> Option<String> {
        self.lock().clone()
    }
}

/// The thread.
pub(super) struct Writer {
    pub(super) tree: Tree,
    pub(super) rows: Arc<Rows>,
    pub(super) lane: Arc<Lane<Write>>,
    pub(super) durability: Durability,
    pub(super) writeback: Writeback,
    /// The newest version of all that was ever written here.
    pub(super) newest: Version,
    pub(super) batch: Arc<BatchClock>,
    pub(super) failing: Arc<Failing>,
    pub(super) told: Seldom,
}

impl Writer {
    /// Writes until nothing comes any more.
    pub(super) fn run(mut self) {
        let most = match self.durability {
            Durability::Each => 1,
            _ => BATCH_MAX,
        };
        while let Some(writes) = self.lane.take(most) {
            let bytes = writes.iter().map(Write::bytes).sum();
            self.batch.begin();
            self.write(writes.into());
            self.batch.end();
            self.writeback.grow(bytes);
            self.lane.done(bytes);
        }
    }

    fn write(&mut self, writes: Vec<Write>) {
        // What each write finds: the version of a newer cell, or nothing.
        let mut found: Vec<Result<Option<Version>, EngineError>> = Vec::with_capacity(writes.len());
        // The newest cell of each key in this batch.
        let mut last: HashMap<&[u8], usize> = HashMap::with_capacity(writes.len());
        let mut newest = self.newest;
        for (index, write) in writes.iter().enumerate() {
            let before = last
                .get(&write.key[..])
                .map(|&index| writes[index].cell.version);
            let newer = self.newer(write, before);
            if newer == Ok(None) {
                last.insert(&write.key, index);
                newest = newest.max(write.cell.version);
            }
            found.push(newer);
        }
        self.rows.begin(last.keys().copied());
        let committed = self.commit(&writes, last.values().copied(), newest);
        match &committed {
            // The disk has not been asked.
            Ok(()) if last.is_empty() => {}
            Ok(()) => {
                self.newest = newest;
                *self.failing.lock() = None;
            }
            Err(error) => {
                // The first one has the cause: after that, nothing is tried.
                let mut failing = self.failing.lock();
                failing.get_or_insert_with(|| error.to_string());
                drop(failing);
                self.told
                    .tell(format_args!("kv: nothing is written: {error}"));
            }
        }
        let rows = last.values().map(|&index| {
            let Write { key, cell, how, .. } = &writes[index];
            let is_kept = committed.is_ok() && !how.takes();
            (key.clone(), is_kept.then(|| cell.clone()))
        });
        self.rows.end(rows.collect());
        let ends = writes.into_iter().zip(found).map(|(write, found)| {
            let result = committed.clone().and(found);
            (write.then)(result)
        });
        answer(ends);
    }

    /// The version of a cell that keeps `write` from being made, if there is one. `before` is what this batch writes of its key.
    fn newer(
        &self,
        write: &Write,
        before: Option<Version>,
    ) -> Result<Option<Version>, EngineError> {
        let version = write.cell.version;
        let most = match write.how {
            // It is newer than all that there is, as it mostly is: nothing has to be looked up.
            How::Newer if before.is_none() && version > self.newest => return Ok(None),
            How::Newer => version,
            How::Over(over) => over,
            How::Forget | How::Remove if before.is_some() => return Ok(before),
            How::Forget | How::Remove => {
                let kept = self.tree.read(&write.key)?;
                let now_ms = unix_ms();
                let goes = |kept: &Cell| {
                    let is_dead = || kept.at(now_ms).is_none();
                    kept.version == version && (write.how == How::Remove || is_dead())
                };
                return Ok(kept.filter(|kept| !goes(kept)).map(|kept| kept.version));
            }
        };
        let kept = match before {
            Some(before) => Some(before),
            None => self.kept(&write.key)?,
        };
        Ok(kept.filter(|kept| *kept > most))
    }

    /// The version of what is kept of a key.
    fn kept(&self, key: &[u8]) -> Result<Option<Version>, EngineError> {
        if let Some(cell) = self.rows.find(key) {
            return Ok(Some(cell.version));
        }
        Ok(self.tree.read(key)?.map(|cell| cell.version))
    }

    fn commit(
        &self,
        writes: &[Write],
        last: impl Iterator<Item = usize>,
        newest: Version,
    ) -> Result<(), EngineError> {
        let mode = match self.durability {
            Durability::Memory => None,
            Durability::Os => Some(PersistMode::Buffer),
            Durability::Group | Durability::Each => Some(PersistMode::SyncData),
        };
        let mut batch = self.tree.database.batch().durability(mode);
        for index in last {
            let Write { key, cell, how, .. } = &writes[index];
            if how.takes() {
                batch.remove(&self.tree.cells, &key[..]);
                continue;
            }
            let mut bytes = Vec::with_capacity(32 + cell.value.as_ref().map_or(0, Bytes::len));
            cell.encode(&mut bytes);
            batch.insert(&self.tree.cells, &key[..], bytes);
        }
        if newest > self.newest {
            let mut bytes = Vec::new();
            let newest = Cell {
                version: newest,
                expires_ms: None,
                value: None,
            };
            newest.encode(&mut bytes);
            batch.insert(&self.tree.meta, META_NEWEST, bytes);
        }
        batch.commit().map_err(failed)
    }
}
