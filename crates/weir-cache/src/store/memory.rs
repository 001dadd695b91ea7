//! The RAM tier: entries by primary key within a budget of bytes.
//!
//! A hit takes the read side of a sharded lock, in a cache line of its own thread, and clones one `Arc`. Everything that
//! changes the store takes one mutex of writers, which no hit ever waits for. The budget covers what is stored; an object
//! that is still being sent after its eviction is no longer counted.
//!
//! Admission and eviction are those of `quick_cache` (S3-FIFO with ghosts), with one rule added for objects larger than
//! the average: see [`admission`]. `docs/decisions/0004-cache-stores.md` has the measurements behind both.

mod admission;
mod striped;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use self::admission::Admission;
use self::striped::Striped;
use super::answer::lock;
use super::object::{Entry, Object};
use super::purge::{PurgeKind, PurgeScope, Purges, Verdict};
use super::tags::TagIndex;

/// Limits of the RAM tier.
#[derive(Debug, Clone, Copy)]
pub struct MemoryConfig {
    /// Bytes of everything stored, bookkeeping included.
    pub bytes_max: u64,
    /// Bytes of one object; a larger one is refused.
    pub object_bytes_max: u64,
    /// About how large an object is; decides how many evicted keys are remembered. A factor of ten either way costs about a
    /// point of hit ratio.
    pub object_bytes_mean: u64,
    /// Variants kept for one primary key; the oldest go first.
    pub variants_max: usize,
    /// Seed of the hash of keys, so that nobody outside can choose keys that collide.
    pub seed: u64,
}

impl MemoryConfig {
    /// Usual limits within a budget, with a random seed.
    pub fn with_budget(bytes_max: u64) -> Self {
        let (object_bytes_max, object_bytes_mean) =
            (bytes_max / 8, (16 << 10).min(bytes_max / 64).max(1));
        let seed = fastrand::Rng::new().u64(..);
        Self {
            bytes_max,
            object_bytes_max,
            object_bytes_mean,
            variants_max: 16,
            seed,
        }
    }
}

/// Counts since the store was made, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes stored.
    pub bytes: u64,
    /// Primary keys stored.
    pub entries: u64,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Objects stored.
    pub inserted: u64,
    /// Entries that had to make room.
    pub evicted: u64,
    /// Objects that were not admitted.
    pub refused: u64,
}

/// What became of an insert.
#[derive(Debug)]
pub enum Inserted {
    /// It is stored. The entries that made room for it are handed back, with the objects that variants of the same key
    /// replaced or pushed out left out.
    Stored(Vec<Arc<Entry>>),
    /// It is not stored, and why.
    Refused(Refusal),
}

/// Why an object is not in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is larger than one object may be.
    TooLarge,
    /// The store is full, and an object of its size has to be asked for more often first.
    TooRare,
    /// It was purged while it was on its way.
    Purged,
}

/// The RAM tier.
#[derive(Debug)]
pub struct MemoryStore {
    entries: Cache<Arc<[u8]>, Arc<Entry>, EntryWeight, Seeded, Evicted>,
    config: MemoryConfig,
    purges: Arc<Purges>,
    /// Taken by whoever changes the store. While it is held, tags and entries agree.
    writers: Mutex<Writers>,
    counts: Counts,
}

#[derive(Debug)]
struct Writers {
    tags: TagIndex,
    admission: Admission,
}

#[derive(Debug, Default)]
struct Counts {
    hits: Striped,
    misses: Striped,
    inserted: AtomicU64,
    evicted: AtomicU64,
    refused: AtomicU64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(config: MemoryConfig, purges: Arc<Purges>) -> Self {
        let items = usize::try_from(config.bytes_max / config.object_bytes_mean.max(1))
            .unwrap_or(usize::MAX);
        let largest = config.object_bytes_max.max(1);
        let shards = [8, 4, 2]
            .into_iter()
            .find(|shards| config.bytes_max / shards >= 2 * largest);
        let options = OptionsBuilder::new()
            .weight_capacity(config.bytes_max)
            .estimated_items_capacity(items.clamp(64, 1 << 28))
            .shards(shards.unwrap_or(1) as usize)
            .hot_allocation(0.97)
            .ghost_allocation(0.2)
            .build()
            .expect("both capacities are given");
        let entries = Cache::with_options(options, EntryWeight, Seeded(config.seed), Evicted);
        let admission = Admission::new(items);
        let writers = Mutex::new(Writers {
            tags: TagIndex::default(),
            admission,
        });
        Self {
            entries,
            config,
            purges,
            writers,
            counts: Counts::default(),
        }
    }

    /// The entry of a primary key. Its variants are chosen from with [`Entry::variant`].
    pub fn get(&self, key: &[u8]) -> Option<Arc<Entry>> {
        let found = self.entries.get(key);
        let count = if found.is_some() {
            &self.counts.hits
        } else {
            &self.counts.misses
        };
        count.add_one();
        found
    }

    /// The entry of a primary key, without counting as a use. For tools.
    pub fn peek(&self, key: &[u8]) -> Option<Arc<Entry>> {
        self.entries.peek(key)
    }

    /// Stores an object beside the other variants of its key, in place of the one with the same variant.
    pub fn insert(&self, key: &[u8], object: Arc<Object>) -> Inserted {
        let refused = |why| {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            Inserted::Refused(why)
        };
        let largest = self
            .config
            .object_bytes_max
            .min(self.entries.shard_capacity() * 9 / 10);
        if object.weight() + key.len() as u64 > largest {
            return refused(Refusal::TooLarge);
        }
        let mut writers = lock(&self.writers);
        match self.purges.verdict(object.ticket, key, &object.tags) {
            Verdict::Keep => {}
            Verdict::MarkStale => object.mark_stale(),
            Verdict::Drop => return refused(Refusal::Purged),
        }
        let old = self.entries.peek(key);
        if old.is_none() && !self.is_admitted(&mut writers, key, object.weight()) {
            return refused(Refusal::TooRare);
        }
        let entry = self.with_variant(key, old.as_deref(), object, largest);
        let evicted = self.put(&mut writers, entry, old.as_deref());
        self.counts.inserted.fetch_add(1, Ordering::Relaxed);
        Inserted::Stored(evicted)
    }

    /// Counts anew what an object weighs that has grown, and hands back what had to make room for it. An object that is not
    /// stored any more is not brought back.
    pub fn reweigh(&self, key: &[u8], object: &Arc<Object>) -> Vec<Arc<Entry>> {
        let mut writers = lock(&self.writers);
        let Some(old) = self.entries.peek(key) else {
            return Vec::new();
        };
        if !old.variants().iter().any(|own| Arc::ptr_eq(own, object)) {
            return Vec::new();
        }
        let entry = Entry::new(Arc::clone(&old.key), old.variants().to_vec());
        self.put(&mut writers, entry, Some(&old))
    }

    /// Puts an entry in the place of the `old` one of its key, and hands back what made room.
    fn put(
        &self,
        writers: &mut Writers,
        entry: Entry,
        old: Option<&Entry>,
    ) -> Vec<Arc<Entry>> {
        let entry = Arc::new(entry);
        if let Some(old) = old {
            writers.tags.remove(&old.key, old.tags());
        }
        writers.tags.add(&entry.key, entry.tags());
        let mut evicted = Vec::new();
        self.entries.insert_with_lifecycle(
            Arc::clone(&entry.key),
            Arc::clone(&entry),
            &mut evicted,
        );
        // What it replaced is reported like what made room, but its tags have gone already.
        evicted.retain(|gone| *gone.key != *entry.key || Arc::ptr_eq(gone, &entry));
        for gone in &evicted {
            writers.tags.remove(&gone.key, gone.tags());
        }
        self.counts
            .evicted
            .fetch_add(evicted.len() as u64, Ordering::Relaxed);
        evicted
    }

    /// Removes all variants of a primary key; says whether there were any.
    pub fn remove(&self, key: &[u8]) -> bool {
        self.remove_entry(&mut lock(&self.writers), key)
    }

    /// Removes or marks what a purge covers, and says how many entries that were. The purge has been announced in the log
    /// of purges. When this returns, no lookup finds a covered object as it was. An entry is removed with all its variants
    /// when one of them carries the tag.
    pub fn sweep(&self, scope: &PurgeScope, kind: PurgeKind) -> u64 {
        let mut writers = lock(&self.writers);
        let covered = self.covered(&writers, scope);
        for key in &covered {
            match kind {
                PurgeKind::Hard => _ = self.remove_entry(&mut writers, key),
                PurgeKind::Soft => self.mark_entry(key, scope),
            }
        }
        covered.len() as u64
    }

    /// Calls `visit` with each entry, in no particular order, without counting as a use. Entries that come or go
    /// meanwhile may be missed.
    pub fn for_each(&self, mut visit: impl FnMut(&Entry)) {
        for (_, entry) in self.entries.iter() {
            visit(&entry);
        }
    }

    /// What the store holds and has counted.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            bytes: self.entries.weight(),
            entries: self.entries.len() as u64,
            inserted: self.counts.inserted.load(Ordering::Relaxed),
            evicted: self.counts.evicted.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            hits: self.counts.hits.sum(),
            misses: self.counts.misses.sum(),
        }
    }

    /// The largest object that is ever admitted.
    pub fn object_bytes_max(&self) -> u64 {
        self.config
            .object_bytes_max
            .min(self.entries.shard_capacity() * 9 / 10)
    }

    fn is_admitted(&self, writers: &mut Writers, key: &[u8], weight: u64) -> bool {
        let (bytes, entries) = (self.entries.weight(), self.entries.len() as u64);
        let is_full = bytes > self.config.bytes_max / 20 * 19;
        let hash = xxh3_64_with_seed(key, self.config.seed ^ 1);
        !is_full
            || writers
                .admission
                .admits(hash, weight, bytes / entries.max(1))
    }

    /// The entry with `object` first; the oldest variants go when there are too many or they are too large together.
    fn with_variant(
        &self,
        key: &[u8],
        old: Option<&Entry>,
        object: Arc<Object>,
        bytes_max: u64,
    ) -> Entry {
        let mut bytes = object.weight() + key.len() as u64;
        let mut variants = vec![object];
        for other in old.map(Entry::variants).unwrap_or_default() {
            bytes += other.weight();
            if variants.len() >= self.config.variants_max || bytes > bytes_max {
                break;
            }
            if other.variant == variants[0].variant {
                bytes -= other.weight();
            } else {
                variants.push(Arc::clone(other));
            }
        }
        Entry::new(
            old.map_or_else(|| key.into(), |old| Arc::clone(&old.key)),
            variants,
        )
    }

    fn covered(&self, writers: &Writers, scope: &PurgeScope) -> Vec<Arc<[u8]>> {
        match scope {
            PurgeScope::Key(key) => self
                .entries
                .peek(&**key)
                .map(|entry| Arc::clone(&entry.key))
                .into_iter()
                .collect(),
            PurgeScope::Tag(tag) => writers.tags.keys(tag),
            PurgeScope::All | PurgeScope::Prefix(_) => self
                .entries
                .iter()
                .map(|(key, _)| key)
                .filter(|key| scope.covers(key, &[]))
                .collect(),
        }
    }

    fn remove_entry(&self, writers: &mut Writers, key: &[u8]) -> bool {
        let removed = self.entries.remove(key);
        if let Some((_, entry)) = &removed {
            writers.tags.remove(key, entry.tags());
        }
        removed.is_some()
    }

    fn mark_entry(&self, key: &[u8], scope: &PurgeScope) {
        if let Some(entry) = self.entries.peek(key) {
            entry
                .variants()
                .iter()
                .filter(|object| scope.covers(key, &object.tags))
                .for_each(|object| object.mark_stale());
        }
    }
}

#[derive(Debug, Clone)]
struct EntryWeight;

impl Weighter<Arc<[u8]>, Arc<Entry>> for EntryWeight {
    fn weight(&self, _: &Arc<[u8]>, entry: &Arc<Entry>) -> u64 {
        entry.weight()
    }
}

/// Collects what makes room, so that it is handed back and dropped outside of every lock.
#[derive(Debug, Clone)]
struct Evicted;

impl Lifecycle<Arc<[u8]>, Arc<Entry>> for Evicted {
    type RequestState = Vec<Arc<Entry>>;

    fn on_evict(&self, evicted: &mut Self::RequestState, _: Arc<[u8]>, entry: Arc<Entry>) {
        evicted.push(entry);
    }
}

#[derive(Debug, Clone)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

/// Hashes the one slice that a key is.
#[derive(Debug)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_usize(&mut self, _: usize) {}
}
