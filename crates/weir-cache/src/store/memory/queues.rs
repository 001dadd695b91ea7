//! What the queues of the RAM tier need from us: the weight of an entry, the hash of a key, and a place for evicted
//! entries.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use quick_cache::{Lifecycle, Weighter};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::store::object::Entry;

#[derive(Debug, Clone)]
pub(super) struct EntryWeight;

impl Weighter<Arc<[u8]>, Arc<Entry>> for EntryWeight {
    fn weight(&self, _: &Arc<[u8]>, entry: &Arc<Entry>) -> u64 {
        entry.weight()
    }
}

/// Collects evicted entries, so that they are returned and dropped outside every lock.
#[derive(Debug, Clone)]
pub(super) struct Evicted;

impl Lifecycle<Arc<[u8]>, Arc<Entry>> for Evicted {
    type RequestState = Vec<Arc<Entry>>;

    fn on_evict(&self, evicted: &mut Self::RequestState, _: Arc<[u8]>, entry: Arc<Entry>) {
        evicted.push(entry);
    }
}

#[derive(Debug, Clone)]
pub(super) struct Seeded(pub(super) u64);

impl BuildHasher for Seeded {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

/// Hashes a key, which is one slice.
#[derive(Debug)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_usize(&mut self, _: usize) {}
}
