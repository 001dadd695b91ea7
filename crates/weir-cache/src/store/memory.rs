//! The RAM tier: entries by primary key within a budget of bytes.
//!
//! A hit takes the read side of a sharded lock, in a cache line of its own thread, and clones one `Arc`. Everything
//! that changes the store takes one mutex of writers, for which no hit ever waits. The budget covers what is stored.
//! Objects that are still being sent after their eviction count in [`Transient`]. While that is overdrawn nothing is
//! stored, so both together stay within both budgets.
//!
//! Admission and eviction are those of `quick_cache` (S3-FIFO with ghosts), with one more rule for objects larger than
//! the average: see `memory/admission.rs`. `docs/decisions/0004-cache-stores.md` has the measurements behind both.

mod admission;
mod config;
mod inserted;
mod queues;
mod striped;
#[cfg(test)]
mod tests;
mod writers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quick_cache::OptionsBuilder;
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use self::admission::Admission;
use self::queues::{EntryWeight, Evicted, Seeded};
use self::striped::Striped;
use self::writers::Writers;
use super::job::lock;
use super::object::{Entry, Object};
use super::purge::{PurgeKind, PurgeScope, Purges, Verdict};
use super::share::Share;
use super::transient::Transient;
use super::walk::Key;

pub use config::{MemoryConfig, MemoryStats};
pub use inserted::{Inserted, Refusal};

/// Keys that a purge checks before it lets other writers use the store.
const PURGE_KEYS: usize = 256;
/// Entries of a share to which one insert gives another round.
const SPARED_MAX: usize = 64;

/// The RAM tier.
#[derive(Debug)]
pub struct MemoryStore {
    entries: Cache<Arc<[u8]>, Arc<Entry>, EntryWeight, Seeded, Evicted>,
    config: MemoryConfig,
    purges: Arc<Purges>,
    transient: Arc<Transient>,
    /// Locked by code that changes the store. While it is locked, its contents and the entries agree.
    writers: Mutex<Writers>,
    counts: Counts,
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
    /// An empty store; clients may hold any amount beside it.
    pub fn new(config: MemoryConfig, purges: Arc<Purges>) -> Self {
        Self::beside(Transient::new(u64::MAX), config, purges)
    }

    /// An empty store that takes nothing while `transient` is overdrawn.
    pub fn beside(transient: Arc<Transient>, config: MemoryConfig, purges: Arc<Purges>) -> Self {
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
        let writers = Mutex::new(Writers::new(Admission::new(items)));
        Self {
            entries,
            config,
            purges,
            transient,
            writers,
            counts: Counts::default(),
        }
    }

    /// The entry of a primary key. [`Entry::variant`] picks one of its variants.
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

    /// The object with exactly this variant, without counting as a use.
    pub(super) fn variant(&self, key: &[u8], variant: &[u8]) -> Option<Arc<Object>> {
        let entry = self.peek(key)?;
        let mut variants = entry.variants().iter();
        variants
            .find(|object| *object.variant == *variant)
            .map(Arc::clone)
    }

    /// Stores an object beside the other variants of its key, and replaces the one with the same variant. If that one
    /// was requested after a purge and this one before it, the stored one stays.
    pub fn insert(&self, key: &[u8], object: Arc<Object>) -> Inserted {
        let (variant, ticket) = (object.variant.clone(), object.ticket);
        if self.transient.is_overdrawn() {
            return self.refuse(Refusal::Crowded);
        }
        self.insert_unless(key, object, &[], |entry| {
            let newer = entry.variant(&variant);
            newer.is_some_and(|newer| newer.ticket > ticket)
        })
    }

    /// The same for an object that had other tags before: a purge of one of those covers it too.
    pub(super) fn insert_renewed(
        &self,
        key: &[u8],
        object: Arc<Object>,
        former_tags: &[Box<str>],
    ) -> Inserted {
        self.insert_unless(key, object, former_tags, |_| false)
    }

    /// Stores an object that was read from disk, unless one with the same variant is stored.
    pub(super) fn insert_absent(&self, key: &[u8], object: Arc<Object>) -> Inserted {
        let variant = object.variant.clone();
        if self.transient.is_overdrawn() {
            return self.refuse(Refusal::Crowded);
        }
        self.insert_unless(key, object, &[], |entry| {
            let mut variants = entry.variants().iter();
            variants.any(|other| other.variant == variant)
        })
    }

    fn insert_unless(
        &self,
        key: &[u8],
        object: Arc<Object>,
        former_tags: &[Box<str>],
        is_superseded: impl FnOnce(&Entry) -> bool,
    ) -> Inserted {
        let share_bytes = object.share().map_or(u64::MAX, |share| share.bytes_max);
        let largest = self.object_bytes_max().min(share_bytes);
        if object.disk().is_some() || object.weight() + key.len() as u64 > largest {
            return self.refuse(Refusal::TooLarge);
        }
        let mut writers = lock(&self.writers);
        for tags in [&object.tags, former_tags] {
            match self.purges.verdict(object.ticket, key, tags) {
                Verdict::Keep => {}
                Verdict::MarkStale => object.mark_stale(),
                Verdict::Drop => return self.refuse(Refusal::Purged),
            }
        }
        let old = self.entries.peek(key);
        if old.as_deref().is_some_and(is_superseded) {
            return self.refuse(Refusal::Superseded);
        }
        if old.is_none() && !self.is_admitted(&mut writers, key, object.weight()) {
            return self.refuse(Refusal::TooRare);
        }
        let entry = self.with_variant(key, old.as_deref(), object, largest, writers.serial());
        let evicted = self.put(&mut writers, entry, old.as_deref());
        self.counts.inserted.fetch_add(1, Ordering::Relaxed);
        Inserted::Stored(evicted)
    }

    fn refuse(&self, why: Refusal) -> Inserted {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        Inserted::Refused(why)
    }

    /// Whether lookups find this object.
    pub fn holds(&self, key: &[u8], object: &Arc<Object>) -> bool {
        self.peek(key)
            .is_some_and(|entry| entry.variants().iter().any(|own| Arc::ptr_eq(own, object)))
    }

    /// Updates the weight of an object that has grown, and returns what had to make room, without other variants of its
    /// key. An object that is not stored any more is not brought back.
    pub fn reweigh(&self, key: &[u8], object: &Arc<Object>) -> Vec<Arc<Entry>> {
        let mut writers = lock(&self.writers);
        let Some(old) = self.entries.peek(key) else {
            return Vec::new();
        };
        if !old.variants().iter().any(|own| Arc::ptr_eq(own, object)) {
            return Vec::new();
        }
        let (mut bytes, largest) = (key.len() as u64, self.object_bytes_max());
        let mut variants = old.variants().to_vec();
        variants.retain(|own| {
            bytes += own.weight();
            bytes <= largest || Arc::ptr_eq(own, object)
        });
        let entry = Entry::new(Arc::clone(&old.key), variants, writers.serial());
        self.put(&mut writers, entry, Some(&old))
    }

    /// Replaces the `old` entry of a key, and returns what had to make room.
    fn put(&self, writers: &mut Writers, entry: Entry, old: Option<&Entry>) -> Vec<Arc<Entry>> {
        let entry = Arc::new(entry);
        // It comes before the old one leaves, so that what both share never counts as left.
        entry.enter();
        if let Some(old) = old {
            writers.leave(old);
            old.leave();
        }
        writers.enter(&entry);
        let mut evicted = Vec::new();
        self.entries.insert_with_lifecycle(
            Arc::clone(&entry.key),
            Arc::clone(&entry),
            &mut evicted,
        );
        // The replaced entry is reported like an evicted one, but it has left already.
        evicted.retain(|gone| *gone.key != *entry.key || Arc::ptr_eq(gone, &entry));
        for gone in &evicted {
            writers.leave(gone);
            gone.leave();
        }
        if let Some(share) = entry.share() {
            self.keep_within(share, writers, &mut evicted);
        }
        self.counts
            .evicted
            .fetch_add(evicted.len() as u64, Ordering::Relaxed);
        evicted
    }

    /// Removes all variants of a primary key. Returns whether there were any.
    pub fn remove(&self, key: &[u8]) -> bool {
        self.remove_entry(&mut lock(&self.writers), key).is_some()
    }

    /// Removes one object, if it is still there.
    pub(super) fn remove_object(&self, key: &[u8], object: &Arc<Object>) {
        let mut writers = lock(&self.writers);
        let Some(entry) = self.entries.peek(key) else {
            return;
        };
        let others: Vec<_> = entry
            .variants()
            .iter()
            .filter(|other| !Arc::ptr_eq(other, object))
            .map(Arc::clone)
            .collect();
        if others.len() < entry.variants().len() {
            let rest = Entry::new(Arc::clone(&entry.key), others, writers.serial());
            rest.enter();
            self.remove_entry(&mut writers, key);
            if !rest.variants().is_empty() {
                let rest = Arc::new(rest);
                writers.enter(&rest);
                self.entries.insert(Arc::clone(&rest.key), rest);
            }
        }
    }

    /// Removes or marks what a purge covers, and returns the number of entries. The purge must be in the log of purges.
    /// When this returns, no lookup finds a covered object as it was. If one variant has the tag, the entry is removed
    /// with all its variants.
    pub fn sweep(&self, scope: &PurgeScope, kind: PurgeKind) -> u64 {
        let (mut after, mut covered) = (None::<Key>, 0);
        loop {
            // What is stored between two steps has asked the log.
            let mut writers = lock(&self.writers);
            let (keys, last) = writers.step(scope, after.as_deref(), PURGE_KEYS);
            // Freed outside the lock.
            let mut removed = Vec::new();
            for key in &keys {
                match kind {
                    PurgeKind::Hard => removed.extend(self.remove_entry(&mut writers, key)),
                    PurgeKind::Soft => self.mark_entry(key, scope),
                }
            }
            drop(writers);
            covered += keys.len() as u64;
            after = last;
            if after.is_none() {
                return covered;
            }
        }
    }

    /// The entries that `scope` covers among the next `keys_max` keys after `after`, sorted, without counting as a use;
    /// and the key after which to go on. For tools.
    pub fn step(
        &self,
        scope: &PurgeScope,
        after: Option<&[u8]>,
        keys_max: usize,
    ) -> (Vec<Arc<Entry>>, Option<Key>) {
        let (keys, last) = lock(&self.writers).step(scope, after, keys_max);
        let entries = keys.iter().filter_map(|key| self.peek(key)).collect();
        (entries, last)
    }

    /// Calls `visit` with each entry, in no particular order, without counting as a use. Entries that come or go
    /// meanwhile may be missed.
    pub fn for_each(&self, mut visit: impl FnMut(&Entry)) {
        for (_, entry) in self.entries.iter() {
            visit(&entry);
        }
    }

    /// What is held for clients beside it.
    pub(super) fn transient(&self) -> &Arc<Transient> {
        &self.transient
    }

    /// What the store holds and has counted.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            bytes: self.entries.weight(),
            bytes_max: self.config.bytes_max,
            entries: self.entries.len() as u64,
            inserted: self.counts.inserted.load(Ordering::Relaxed),
            evicted: self.counts.evicted.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            hits: self.counts.hits.sum(),
            misses: self.counts.misses.sum(),
        }
    }

    /// The largest object that is admitted.
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

    /// The entry with `object` first. The oldest variants are dropped if there are too many or they are too large
    /// together.
    fn with_variant(
        &self,
        key: &[u8],
        old: Option<&Entry>,
        object: Arc<Object>,
        bytes_max: u64,
        serial: u64,
    ) -> Entry {
        let variants_max = object
            .share()
            .map_or(self.config.variants_max, |share| share.variants_max);
        let mut bytes = object.weight() + key.len() as u64;
        let mut variants = vec![object];
        for other in old.map(Entry::variants).unwrap_or_default() {
            bytes += other.weight();
            if other.variant == variants[0].variant {
                bytes -= other.weight();
                continue;
            }
            if variants.len() >= variants_max || bytes > bytes_max {
                break;
            }
            variants.push(Arc::clone(other));
        }
        let key = old.map_or_else(|| key.into(), |old| Arc::clone(&old.key));
        Entry::new(key, variants, serial)
    }

    /// Evicts entries of a share until it is within its limit.
    fn keep_within(&self, share: &Share, writers: &mut Writers, evicted: &mut Vec<Arc<Entry>>) {
        let mut spared = 0;
        while let Some(key) = share.next_to_leave()
            && let Some(entry) = self.entries.peek(&key)
        {
            if spared < SPARED_MAX && entry.take_recent_use() {
                share.spare(&entry, writers.serial());
                spared += 1;
                continue;
            }
            self.remove_entry(writers, &entry.key);
            evicted.push(entry);
        }
    }

    fn remove_entry(&self, writers: &mut Writers, key: &[u8]) -> Option<Arc<Entry>> {
        let (_, entry) = self.entries.remove(key)?;
        writers.leave(&entry);
        entry.leave();
        Some(entry)
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
