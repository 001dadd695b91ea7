//! RAM and disk as one store: what goes where, and when it moves.
//!
//! - A new object goes to RAM. If RAM does not accept it (too large, too rare while RAM is full), it goes to disk.
//! - An object evicted from RAM goes to disk if it was used and is not on disk already, unless the disk is busy.
//! - An object found on disk for the second time goes back to RAM if it fits. Its file stays, so that it need not be
//!   written again. Any other object larger than a block is sent from its file.
//! - A newer object replaces the one with the same key and variant in the other tier.
//!
//! An object too large for RAM is written to disk while it arrives ([`large`]).

mod fetch;
mod inspect;
pub mod large;
mod moving;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::StoreError;
use super::disk::{DiskName, DiskStore, Stored};
use super::job::Answer;
use super::memory::{Inserted, MemoryStore, Refusal};
use super::object::{Entry, Object};
use crate::StoredHead;

use super::purge::{PurgeKind, PurgeScope, Purges, Sweep, Ticket, Verdict};
use super::transient::Grant;

use self::moving::Moving;

pub use inspect::Held;

/// Both tiers, or RAM alone.
#[derive(Debug)]
pub struct Tiers {
    memory: Arc<MemoryStore>,
    disk: Option<DiskStore>,
    purges: Arc<Purges>,
    moving: Arc<Moving>,
    /// Keys of which an object is being loaded into RAM: only one request does that.
    promoting: Mutex<HashSet<Box<[u8]>>>,
}

/// Where a new object went.
#[derive(Debug)]
pub enum Placed {
    /// In RAM.
    Memory,
    /// On its way to disk.
    Disk(Answer<()>),
    /// Nowhere.
    Nowhere(Refusal),
}

/// What a purge covered.
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
            moving: Arc::default(),
            promoting: Mutex::default(),
        }
    }

    /// A ticket for a request. It must be taken before the request looks for stored responses or asks the origin.
    pub fn ticket(&self) -> Ticket {
        self.purges.settled()
    }

    /// What the purges since `ticket` mean for an object that was found after it.
    pub fn verdict(&self, ticket: Ticket, key: &[u8], tags: &[Box<str>]) -> Verdict {
        self.purges.verdict(ticket, key, tags)
    }

    /// What RAM has for a primary key: the path of nearly every hit.
    pub fn find(&self, key: &[u8]) -> Option<Arc<Entry>> {
        self.memory.get(key)
    }

    /// What the disk has for a primary key, when RAM has nothing that fits. The chosen one is then fetched.
    pub fn find_on_disk(&self, key: &[u8]) -> Vec<Stored> {
        self.disk
            .as_ref()
            .map(|disk| disk.find(key))
            .unwrap_or_default()
    }

    /// Stores a response that has arrived completely.
    pub fn insert(&self, key: &[u8], object: &Arc<Object>) -> Placed {
        let left = self.purges.settled();
        let _evicting = self.moving.evicting();
        match (self.memory.insert(key, Arc::clone(object)), &self.disk) {
            (Inserted::Stored(evicted), _) => {
                self.demote(&evicted, left);
                self.supersede_on_disk(key, object);
                Placed::Memory
            }
            (
                Inserted::Refused(Refusal::TooLarge | Refusal::TooRare | Refusal::Crowded),
                Some(disk),
            ) => {
                self.remove_older(key, object);
                let is_wanted = self.is_wanted(key, None, object.variant.clone());
                Placed::Disk(self.write(disk, key, object, object.ticket, is_wanted))
            }
            (Inserted::Refused(Refusal::Crowded), None) => {
                self.remove_older(key, object);
                Placed::Nowhere(Refusal::Crowded)
            }
            (Inserted::Refused(why), _) => Placed::Nowhere(why),
        }
    }

    /// RAM has not accepted `object`, but may have an older one.
    fn remove_older(&self, key: &[u8], object: &Object) {
        if let Some(older) = self.memory.variant(key, &object.variant)
            && older.ticket <= object.ticket
        {
            self.memory.remove_object(key, &older);
        }
    }

    /// Updates the weight of an object in RAM after it got a compressed form.
    pub fn reweigh(&self, key: &[u8], object: &Arc<Object>) {
        let left = self.purges.settled();
        let _evicting = self.moving.evicting();
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

    /// The same with a head from the rules. The answer comes when lookups find it, also if the body is only on disk. A
    /// caller that does not wait may still send the object.
    pub fn renew_head(
        &self,
        key: &[u8],
        old: &Object,
        head: Arc<StoredHead>,
        ticket: Ticket,
    ) -> (Arc<Object>, Answer<()>) {
        let renewed = old.renewed_head(head, ticket);
        if old.disk().is_some() {
            let answer = self.renew_on_disk(key, old, &renewed, ticket);
            (Arc::new(renewed), answer)
        } else {
            let renewed = self.insert_renewed(key, old, renewed, ticket);
            (renewed, Answer::ready(Ok(())))
        }
    }

    fn renew_on_disk(
        &self,
        key: &[u8],
        old: &Object,
        renewed: &Object,
        ticket: Ticket,
    ) -> Answer<()> {
        if let (Some(disk), Some(identity)) = (&self.disk, old.disk_identity()) {
            if renewed.variant == old.variant && renewed.tags == old.tags {
                let (metadata, head) = renewed.bytes_for_disk();
                let variant = &old.variant;
                let name = DiskName {
                    key,
                    variant,
                    identity,
                };
                renewed.mark_on_disk(identity);
                // If it fails, the object is gone from disk; this response can still be sent from the open file.
                return disk.renew(name, ticket, metadata, head);
            }
            // Its file has the name of a variant, or the tags, that it no longer has.
            disk.remove(key, &old.variant);
        }
        Answer::ready(Ok(()))
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
            // The tags of a file never change; a file with other tags is replaced.
            && renewed.tags == old.tags
            && disk.identity(key, &old.variant) == Some(identity)
        {
            renewed.mark_on_disk(identity);
            let (metadata, head) = renewed.bytes_for_disk();
            // Nobody waits for it: if it fails, the object is gone from disk.
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
        let _evicting = self.moving.evicting();
        let inserted = self
            .memory
            .insert_renewed(key, Arc::clone(&renewed), &old.tags);
        if let Inserted::Stored(evicted) = inserted {
            self.demote(&evicted, left);
            self.supersede_on_disk(key, &renewed);
        }
        renewed
    }

    /// Purges. When this returns, no worker finds a covered object as it was, and no fill in progress can bring one
    /// back. `announced` is called when the purge covers everything that is looked up from then on.
    pub async fn purge(
        &self,
        scope: PurgeScope,
        kind: PurgeKind,
        announced: impl FnOnce(),
    ) -> Result<Purged, StoreError> {
        let sweep = Sweep::begin(&self.purges, &scope, kind);
        announced();
        let in_memory = self.sweep_memory(&scope, kind, &sweep);
        let on_disk = match &self.disk {
            Some(disk) => disk.sweep(scope, kind, sweep).await?,
            None => 0,
        };
        Ok(Purged { in_memory, on_disk })
    }

    /// Ends what a request has changed. When this returns, no worker finds what `scope` covers as it was, without
    /// waiting for the disk. The answer comes once no restart can bring it back either.
    pub fn end(&self, scope: PurgeScope, kind: PurgeKind, announced: impl FnOnce()) -> Answer<()> {
        let sweep = Sweep::begin(&self.purges, &scope, kind);
        announced();
        self.sweep_memory(&scope, kind, &sweep);
        match &self.disk {
            // An object on its way to disk may have asked the log before, and be in the index only now.
            Some(disk) if self.moving.has(scope.first()) || disk.may_hold(&scope) => {
                disk.end(scope, kind, sweep)
            }
            _ => Answer::ready(Ok(())),
        }
    }

    fn sweep_memory(&self, scope: &PurgeScope, kind: PurgeKind, sweep: &Sweep) -> u64 {
        let covered = self.memory.sweep(scope, kind);
        sweep.swept_memory();
        covered
    }

    /// Whether anything stored, or on its way, is covered by `scope`, which is a key or a first line.
    pub fn may_hold(&self, scope: &PurgeScope) -> bool {
        // The order is that in which objects move, so that none is missed in between.
        !self.memory.step(scope, None, 1).0.is_empty()
            || self.moving.may_have(scope.first())
            || self.disk.as_ref().is_some_and(|disk| disk.may_hold(scope))
    }

    /// Whether objects are on their way to disk.
    pub fn has_demotions(&self) -> bool {
        self.moving.any()
    }

    /// The RAM tier.
    pub fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// The disk tier.
    pub fn disk(&self) -> Option<&DiskStore> {
        self.disk.as_ref()
    }

    /// Moves objects that left RAM to disk, if that is worth a write. `left` is from before they left: a purge whose
    /// sweep came too late for them is not older.
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
                let (this, variant) = (Some(Arc::clone(object)), object.variant.clone());
                let is_wanted = self.is_wanted(&entry.key, this, variant);
                drop(self.write(disk, &entry.key, object, left, is_wanted));
            }
        }
    }

    /// Writes an object that is not in RAM (any more), unless the disk is busy or no memory is left to hold the object
    /// until it is written.
    fn write(
        &self,
        disk: &DiskStore,
        key: &[u8],
        object: &Arc<Object>,
        ticket: Ticket,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Answer<()> {
        let held = Grant::new(self.memory.transient());
        if !held.try_add(object.body_bytes()) {
            // An older object must not stay in its place either.
            if disk.identity(key, &object.variant).is_some() {
                disk.remove(key, &object.variant);
            }
            return Answer::ready(Err(StoreError::Busy));
        }
        disk.store(key, object, ticket, move || {
            let _until_written = &held;
            is_wanted()
        })
    }

    /// Asked in a disk thread, just before an object could be found on disk: whether RAM has nothing of its variant, or
    /// only what it had before. What comes into RAM later removes the object from disk again, because this counts as a
    /// demotion until it is dropped, after the index has the object.
    fn is_wanted(
        &self,
        key: &[u8],
        before: Option<Arc<Object>>,
        variant: Box<[u8]>,
    ) -> impl Fn() -> bool + Send + 'static {
        let under_way = self.moving.begin(key);
        let (memory, key) = (Arc::clone(&self.memory), Box::<[u8]>::from(key));
        move || {
            let _counted = &under_way;
            let now = memory.variant(&key, &variant);
            now.is_none_or(|now| {
                let mut before = before.iter();
                before.any(|before| Arc::ptr_eq(before, &now))
            })
        }
    }

    fn supersede_on_disk(&self, key: &[u8], object: &Object) {
        let Some(disk) = &self.disk else { return };
        let on_disk = disk.identity(key, &object.variant);
        let is_the_same = on_disk.is_some() && on_disk == object.disk_identity();
        if !is_the_same && (on_disk.is_some() || self.moving.has(key)) {
            disk.remove(key, &object.variant);
        }
    }
}
