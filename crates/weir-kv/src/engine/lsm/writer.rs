//! The thread that writes: all that waits becomes one batch of the tree, and is answered together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fjall::PersistMode;

use super::lane::Lane;
use super::rows::Rows;
use super::{META_NEWEST, Tree, answer, failed};
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
    /// It is written over what is not newer than this; or than itself.
    pub(super) over: Option<Version>,
    pub(super) then: Then<Option<Version>>,
}

impl Write {
    pub(super) fn bytes(&self) -> usize {
        let value = self.cell.value.as_ref().map_or(0, Bytes::len);
        WRITE_BYTES + self.key.len() + value
    }
}

/// The thread.
pub(super) struct Writer {
    pub(super) tree: Tree,
    pub(super) rows: Arc<Rows>,
    pub(super) lane: Arc<Lane<Write>>,
    pub(super) durability: Durability,
    /// The newest version of all that was ever written here.
    pub(super) newest: Version,
    pub(super) batch_began_ms: Arc<AtomicU64>,
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
            self.batch_began_ms.store(unix_ms(), Ordering::Release);
            self.write(writes.into());
            self.batch_began_ms.store(0, Ordering::Release);
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
            let version = write.cell.version;
            let before = last.get(&write.key[..]);
            let newer = match before {
                Some(&before) => Ok(Some(writes[before].cell.version)),
                // It is newer than all that there is, as it mostly is: nothing has to be looked up.
                None if version > self.newest && write.over.is_none() => Ok(None),
                None => self.kept(&write.key),
            };
            let most = write.over.unwrap_or(version);
            let newer = newer.map(|kept| kept.filter(|kept| *kept > most));
            if newer == Ok(None) {
                last.insert(&write.key, index);
                newest = newest.max(version);
            }
            found.push(newer);
        }
        self.rows.begin(last.keys().copied());
        let committed = self.commit(&writes, last.values().copied(), newest);
        match &committed {
            Ok(()) => self.newest = newest,
            Err(error) => self
                .told
                .tell(format_args!("kv: nothing is written: {error}")),
        }
        let rows = last.values().map(|&index| {
            let Write { key, cell, .. } = &writes[index];
            (key.clone(), committed.is_ok().then(|| cell.clone()))
        });
        self.rows.end(rows.collect());
        let ends = writes.into_iter().zip(found).map(|(write, found)| {
            let result = committed.clone().and(found);
            (write.then)(result)
        });
        answer(ends);
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
            let Write { key, cell, .. } = &writes[index];
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
