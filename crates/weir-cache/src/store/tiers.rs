//! RAM and disk as one store: what goes where, and when it moves.
//!
//! - A new object goes to RAM. What does not get in there (too large, too rare while RAM is full) goes to disk.
//! - What is evicted from RAM goes to disk if it was used there and is not on disk already, unless the disk is busy.
//! - What is found on disk for the second time and fits goes back to RAM; its file stays, so that it need not be written
//!   again.
//! - A newer object supersedes what the other tier has under the same key and variant.
//!
//! An object too large to be held whole is written to disk while it arrives, by [`DiskStore::write`], and read from there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::StoreError;
use super::answer::Answer;
use super::disk::{DiskName, DiskStore, Stored};
use super::memory::{Inserted, MemoryStore, Refusal};
use super::object::{Entry, Object};
use crate::StoredHead;

use super::purge::{PurgeKind, PurgeScope, Purges, Ticket};

/// Finds of an object on disk after which it goes to RAM.
const USES_FOR_PROMOTION: u8 = 2;

/// Both tiers, or RAM alone.
#[derive(Debug)]
pub struct Tiers {
    memory: Arc<MemoryStore>,
    disk: Option<DiskStore>,
    purges: Arc<Purges>,
    /// Objects that have left RAM and are not in the index of the disk yet.
    demotions: Arc<AtomicUsize>,
}

/// Where a new object is.
#[derive(Debug)]
pub enum Placed {
    /// In RAM.
    Memory,
    /// On its way to disk.
    Disk(Answer<()>),
    /// Nowhere.
    Nowhere(Refusal),
}

/// What a purge met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// Entries in RAM.
    pub in_memory: u64,
    /// Objects on disk.
    pub on_disk: u64,
}

impl Tiers {
    /// Joins the tiers, which share the log of purges.
    pub fn new(memory: MemoryStore, disk: Option<DiskStore>, purges: Arc<Purges>) -> Self {
        Self {
            memory: Arc::new(memory),
            disk,
            purges,
            demotions: Arc::default(),
        }
    }

    /// A ticket for a fill; to be taken before its request is sent.
    pub fn ticket(&self) -> Ticket {
        self.purges.ticket()
    }

    /// What RAM has of a primary key: the way of nearly every hit.
    pub fn find(&self, key: &[u8]) -> Option<Arc<Entry>> {
        self.memory.get(key)
    }

    /// What the disk has of a primary key, when RAM has nothing that fits. The one that is chosen is then loaded, if
    /// [`Tiers::is_worth_promoting`], or opened and sent from disk.
    pub fn find_on_disk(&self, key: &[u8]) -> Vec<Stored> {
        self.disk
            .as_ref()
            .map(|disk| disk.find(key))
            .unwrap_or_default()
    }

    /// Whether this use of an object on disk should bring it to RAM.
    pub fn is_worth_promoting(&self, stored: &Stored) -> bool {
        stored.uses + 1 >= USES_FOR_PROMOTION
            && stored.body_bytes < self.memory.object_bytes_max() / 2
    }

    /// Reads an object from disk and puts it in RAM. It is handed back even where RAM does not admit it.
    pub async fn promote(&self, key: &[u8], variant: &[u8]) -> Result<Arc<Object>, StoreError> {
        let disk = self.disk.as_ref().ok_or(StoreError::Gone)?;
        let object = Arc::new(disk.load(key, variant).await?);
        let left = self.purges.settled();
        if let Inserted::Stored(evicted) = self.memory.insert(key, Arc::clone(&object)) {
            self.demote(&evicted, left);
        }
        Ok(object)
    }

    /// Stores a response that has arrived whole.
    pub fn insert(&self, key: &[u8], object: &Arc<Object>) -> Placed {
        let left = self.purges.settled();
        match (self.memory.insert(key, Arc::clone(object)), &self.disk) {
            (Inserted::Stored(evicted), _) => {
                self.demote(&evicted, left);
                self.supersede_on_disk(key, object);
                Placed::Memory
            }
            (Inserted::Refused(Refusal::TooLarge | Refusal::TooRare), Some(disk)) => {
                Placed::Disk(disk.store(key, object, object.ticket, || true))
            }
            (Inserted::Refused(why), _) => Placed::Nowhere(why),
        }
    }

    /// Counts anew what an object in RAM weighs, after it was given a compressed form.
    pub fn reweigh(&self, key: &[u8], object: &Arc<Object>) {
        let left = self.purges.settled();
        let evicted = self.memory.reweigh(key, object);
        self.demote(&evicted, left);
    }

    /// Stores the same body with another head and other metadata, as after a validation, in every tier that has it.
    pub fn renew(
        &self,
        key: &[u8],
        old: &Object,
        ticket: Ticket,
        metadata: Bytes,
        head: Bytes,
    ) -> Arc<Object> {
        let renewed = old.renewed(ticket, metadata, head);
        self.insert_renewed(key, old, renewed, ticket)
    }

    /// The same with a head that the rules have made.
    pub fn renew_head(
        &self,
        key: &[u8],
        old: &Object,
        head: Arc<StoredHead>,
        ticket: Ticket,
    ) -> Arc<Object> {
        self.insert_renewed(key, old, old.renewed_head(head, ticket), ticket)
    }

    fn insert_renewed(
        &self,
        key: &[u8],
        old: &Object,
        renewed: Object,
        ticket: Ticket,
    ) -> Arc<Object> {
        let identity = old.disk_identity();
        if let (Some(disk), Some(identity)) = (&self.disk, identity)
            && renewed.variant == old.variant
            && disk.identity(key, &old.variant) == Some(identity)
        {
            renewed.mark_on_disk(identity);
            let (metadata, head) = renewed.bytes_for_disk();
            // Nobody waits for it: where it fails, the object is gone from disk.
            drop(disk.renew(
                DiskName {
                    key,
                    variant: &old.variant,
                    identity,
                },
                ticket,
                metadata,
                head,
            ));
        }
        let renewed = Arc::new(renewed);
        let left = self.purges.settled();
        if let Inserted::Stored(evicted) = self.memory.insert(key, Arc::clone(&renewed)) {
            self.demote(&evicted, left);
            self.supersede_on_disk(key, &renewed);
        }
        renewed
    }

    /// Purges, and returns when no worker finds a covered object as it was and no fill under way can bring one back.
    pub async fn purge(&self, scope: PurgeScope, kind: PurgeKind) -> Result<Purged, StoreError> {
        let ticket = self.purges.begin(scope.clone(), kind);
        let _sweep = Sweep {
            purges: &self.purges,
            ticket,
        };
        let in_memory = self.memory.sweep(&scope, kind);
        let on_disk = match &self.disk {
            Some(disk) => disk.sweep(scope, kind).await?,
            None => 0,
        };
        Ok(Purged { in_memory, on_disk })
    }

    /// Whether objects are on their way from RAM to disk.
    pub fn has_demotions(&self) -> bool {
        self.demotions.load(Ordering::Acquire) > 0
    }

    /// The RAM tier.
    pub fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// The disk tier.
    pub fn disk(&self) -> Option<&DiskStore> {
        self.disk.as_ref()
    }

    /// Gives what had to leave RAM a place on disk, where that is worth a write. `left` is from before it left: a purge
    /// whose sweep came too late for it is not older.
    fn demote(&self, evicted: &[Arc<Entry>], left: Ticket) {
        let Some(disk) = &self.disk else { return };
        for entry in evicted {
            for object in entry
                .variants()
                .iter()
                .filter(|object| object.was_used() && !object.is_marked_stale())
            {
                let identity = object.disk_identity();
                if identity.is_some() && disk.identity(&entry.key, &object.variant) == identity {
                    continue;
                }
                let under_way = UnderWay::new(&self.demotions);
                let (memory, key, this) = (
                    Arc::clone(&self.memory),
                    Arc::clone(&entry.key),
                    Arc::clone(object),
                );
                let is_wanted = move || {
                    // Counted until the disk thread drops this, which is after the index has the object.
                    let _counted = &under_way;
                    let now = memory.peek(&key);
                    let mut others = now.iter().flat_map(|entry| entry.variants());
                    !others.any(|other| other.variant == this.variant && !Arc::ptr_eq(other, &this))
                };
                drop(disk.store(&entry.key, object, left, is_wanted));
            }
        }
    }

    fn supersede_on_disk(&self, key: &[u8], object: &Object) {
        let Some(disk) = &self.disk else { return };
        let on_disk = disk.identity(key, &object.variant);
        let is_the_same = on_disk.is_some() && on_disk == object.disk_identity();
        if !is_the_same && (on_disk.is_some() || self.demotions.load(Ordering::Acquire) > 0) {
            disk.remove(key, &object.variant);
        }
    }
}

/// A sweep that is over when this is dropped, also when whoever purged has stopped waiting. The disk thread may still be
/// at it then; what left a store before is older than the purge and met by it.
struct Sweep<'a> {
    purges: &'a Purges,
    ticket: Ticket,
}

impl Drop for Sweep<'_> {
    fn drop(&mut self) {
        self.purges.finish(self.ticket);
    }
}

/// Counts a demotion until it is in the index or has been given up.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn new(demotions: &Arc<AtomicUsize>) -> Self {
        demotions.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(demotions))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
