//! Cells in memory, in front of the tree.
//!
//! A row is what the tree has, or there is none. Two things could make it older: a thread that has read the tree puts in what is
//! no longer the newest, and a commit is seen by those who read the tree before its row is changed. So while a batch is
//! committed, its keys have no rows and get none. Each part of the keys has a stamp that says so, odd while it is written to; a
//! row that was read comes in only if the stamp is even and has not changed since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::{Cache, GuardResult};
use xxhash_rust::xxh3::xxh3_64;

use crate::cell::Cell;

const STAMPS: usize = 4096;
/// Bytes of a row besides its key and value, about.
const ROW_BYTES: u64 = 128;
/// The size of a row, to estimate how many there will be.
const TYPICAL_BYTES: u64 = 1024;

/// The rows in memory.
#[derive(Debug)]
pub(super) struct Rows {
    cache: Cache<Bytes, Cell, Weight>,
    stamps: Box<[AtomicU64]>,
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<Bytes, Cell> for Weight {
    fn weight(&self, key: &Bytes, cell: &Cell) -> u64 {
        let value = cell.value.as_ref().map_or(0, Bytes::len);
        ROW_BYTES + (key.len() + value) as u64
    }
}

impl Rows {
    pub(super) fn new(bytes_max: u64) -> Self {
        let typical = (bytes_max / TYPICAL_BYTES) as usize;
        Self {
            cache: Cache::with_weighter(typical, bytes_max, Weight),
            stamps: (0..STAMPS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<Cell> {
        self.cache.get(key)
    }

    /// The stamp of a key, to be taken before the tree is read.
    pub(super) fn stamp(&self, key: &[u8]) -> u64 {
        self.stamp_of(key).load(Ordering::Acquire)
    }

    /// Puts in what was read, unless something was written since `stamp`, or is.
    pub(super) fn fill(&self, key: &Bytes, cell: &Cell, stamp: u64) {
        let is_written = stamp % 2 == 1;
        let guarded = self.cache.get_value_or_guard(key, Some(Duration::ZERO));
        if let GuardResult::Guard(guard) = guarded
            && !is_written
            && self.stamp(key) == stamp
        {
            // It fails if a batch has begun meanwhile: that removes what is to come in as well.
            let _ = guard.insert(cell.clone());
        }
    }

    /// A batch with these keys is about to be committed. One thread commits.
    pub(super) fn begin<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        for key in keys {
            self.stamp_of(key).fetch_or(1, Ordering::AcqRel);
            self.cache.remove(key);
        }
    }

    /// The batch is in the tree, and these are its rows; if it has failed, they have none.
    pub(super) fn end(&self, rows: Vec<(Bytes, Option<Cell>)>) {
        for (key, row) in &rows {
            if let Some(cell) = row {
                self.cache.insert(key.clone(), cell.clone());
            }
        }
        for (key, _) in rows {
            let stamp = self.stamp_of(&key);
            if stamp.load(Ordering::Acquire) % 2 == 1 {
                stamp.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn forget(&self, key: &[u8]) {
        self.cache.remove(key);
    }

    fn stamp_of(&self, key: &[u8]) -> &AtomicU64 {
        &self.stamps[xxh3_64(key) as usize % STAMPS]
    }
}
