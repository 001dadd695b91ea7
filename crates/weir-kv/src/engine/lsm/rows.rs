//! Cells in memory, in front of the tree.
//!
//! A thread that has read the tree may put in what is no longer the newest: between the two, a write may have come and gone
//! out of memory again. So each part of the keys has a stamp that changes with each write, and a row that was read comes in
//! only if it has not.

use std::sync::atomic::{AtomicU64, Ordering};

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

    /// Puts in what was read, unless something was written since `stamp`.
    pub(super) fn fill(&self, key: &Bytes, cell: &Cell, stamp: u64) {
        let guarded = self
            .cache
            .get_value_or_guard(key, Some(std::time::Duration::ZERO));
        if let GuardResult::Guard(guard) = guarded
            && self.stamp(key) == stamp
        {
            // It fails if a write has put in something meanwhile, which is newer.
            let _ = guard.insert(cell.clone());
        }
    }

    /// Puts in what was written. The tree has it already.
    pub(super) fn put(&self, key: Bytes, cell: Cell) {
        self.stamp_of(&key).fetch_add(1, Ordering::AcqRel);
        self.cache.insert(key, cell);
    }

    #[cfg(test)]
    pub(super) fn forget(&self, key: &[u8]) {
        self.cache.remove(key);
    }

    fn stamp_of(&self, key: &[u8]) -> &AtomicU64 {
        &self.stamps[xxh3_64(key) as usize % STAMPS]
    }
}
