//! The tree itself: how it is opened and read, and what is kept in it besides cells.

use std::path::Path;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _};

use crate::cell::Cell;
use crate::engine::{Each, EngineError};
use crate::version::Version;

/// Threads that flush and compact. With one, a long compaction would hold up every flush; and it may wait for itself for ever, where
/// the orders that it has not carried out are too many for one more (`fjall` 3.1).
const WORKERS: usize = 2;
const FORMAT: &[u8] = b"1";
const META: &str = "meta";
const CELLS: &str = "cells";
pub(super) const META_FORMAT: &str = "format";
pub(super) const META_NODE: &str = crate::engine::OWNER;
const META_RUN: &str = "run";
pub(super) const META_NEWEST: &str = "newest";

/// An open tree.
#[derive(Clone)]
pub(super) struct Tree {
    pub(super) database: Database,
    pub(super) cells: Keyspace,
    pub(super) meta: Keyspace,
}

impl Tree {
    pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<Self, String> {
        let database = Database::builder(path)
            .cache_size(cache_bytes)
            .worker_threads(WORKERS)
            .manual_journal_persist(true)
            .open()
            .map_err(|error| match error {
                fjall::Error::Locked => "another process has this directory open".to_owned(),
                other => other.to_string(),
            })?;
        let keyspace = |name| {
            let made = database.keyspace(name, KeyspaceCreateOptions::default);
            made.map_err(|error| error.to_string())
        };
        Ok(Self {
            cells: keyspace(CELLS)?,
            meta: keyspace(META)?,
            database,
        })
    }

    /// The newest version there is, and the number of this run, which is kept before anything is written in it.
    pub(super) fn begin_run(&self) -> Result<(Version, u16), String> {
        let read = |name| self.meta.get(name).map_err(|error| error.to_string());
        if let Some(format) = read(META_FORMAT)?
            && &*format != FORMAT
        {
            let format = String::from_utf8_lossy(&format).into_owned();
            return Err(format!(
                "its format is {format}, and this version of weir knows {}",
                String::from_utf8_lossy(FORMAT)
            ));
        }
        let run = read(META_RUN)?.and_then(|run| (*run).try_into().ok());
        let run = run.map_or(0, u16::from_be_bytes).wrapping_add(1);
        let newest = match read(META_NEWEST)? {
            Some(bytes) => Cell::version_of(&bytes).map_err(|_| "its newest version is damaged")?,
            None => Version::default(),
        };
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        batch.insert(&self.meta, META_FORMAT, FORMAT);
        batch.insert(&self.meta, META_RUN, run.to_be_bytes());
        batch.commit().map_err(|error| error.to_string())?;
        Ok((newest, run))
    }

    pub(super) fn read(&self, key: &[u8]) -> Result<Option<Cell>, EngineError> {
        let found = self.cells.get(key).map_err(failed)?;
        found.map(|bytes| decoded(key, &bytes)).transpose()
    }

    /// Goes through a range, as it is at this moment.
    pub(super) fn scan(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        each: &mut Each,
    ) -> Result<(), EngineError> {
        let snapshot = self.database.snapshot();
        let entries = match to {
            Some(to) if to <= from => return Ok(()),
            Some(to) => snapshot.range(&self.cells, from..to),
            None => snapshot.range(&self.cells, from..),
        };
        for entry in entries {
            let (key, bytes) = entry.into_inner().map_err(failed)?;
            let cell = decoded(&key, &bytes)?;
            if !each(&key, cell) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn decoded(key: &[u8], bytes: &[u8]) -> Result<Cell, EngineError> {
    // Copied once: a slice of the tree would hold a whole block of it in memory.
    let cell = Cell::decode(&Bytes::copy_from_slice(bytes));
    cell.map_err(|error| {
        let key = String::from_utf8_lossy(key);
        EngineError::Failed(format!("what is kept of {key:?} is damaged: {error:?}"))
    })
}

pub(super) fn failed(error: fjall::Error) -> EngineError {
    EngineError::Failed(match error {
        fjall::Error::Poisoned => {
            "a write to the disk has failed before; start again when that is mended".to_owned()
        }
        other => other.to_string(),
    })
}
