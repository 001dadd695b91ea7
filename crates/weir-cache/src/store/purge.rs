//! What a purge covers, and why a fill in progress cannot undo it.
//!
//! A purge sweeps what is stored. The log here covers what is on its way into a store at that moment (a fill, a
//! promotion, a demotion, the rebuilding of the disk index). That carries a [`Ticket`] from before its contents were
//! read, and before it is stored, [`Purges::verdict`] is asked. The memory and the disk tier share one log.
//!
//! RAM is swept in a moment, but the disk takes time. So a lookup on disk asks the log as well. A purge takes effect
//! for every request as soon as it is in the log and RAM was swept.
//!
//! The log is bounded (`purge/log.rs`). A ticket older than the log counts as purged: a cached object may always be
//! dropped, but must not come back after a purge was answered.

mod log;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use self::log::Log;
use super::job::lock;
use crate::key;

/// Which objects a purge covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PurgeScope {
    /// Every object.
    All,
    /// All variants of one primary key.
    Key(Box<[u8]>),
    /// All whose primary key has this first line: everything stored for one URL.
    FirstLine(Box<[u8]>),
    /// All whose primary key begins with these bytes.
    Prefix(Box<[u8]>),
    /// All whose path begins with these bytes, on any host.
    Path(Box<[u8]>),
    /// All that carry this tag.
    Tag(Box<str>),
}

impl PurgeScope {
    /// Whether an object with this primary key and these tags is covered.
    pub fn covers(&self, key: &[u8], tags: &[Box<str>]) -> bool {
        match self {
            Self::Tag(tag) => tags.contains(tag),
            _ => self.names(key),
        }
    }

    /// Whether an object with this primary key is covered, whatever its tags.
    pub fn names(&self, key: &[u8]) -> bool {
        match self {
            Self::All | Self::Tag(_) => true,
            Self::Key(wanted) => **wanted == *key,
            Self::FirstLine(line) => key::is_of_url(key, line),
            Self::Prefix(prefix) => key.starts_with(prefix),
            Self::Path(prefix) => key::target_of(key).starts_with(prefix),
        }
    }

    /// Whether the keys that it names follow one another in sorted order.
    pub(super) fn is_range(&self) -> bool {
        matches!(self, Self::Key(_) | Self::FirstLine(_) | Self::Prefix(_))
    }

    /// No key that sorts before this one is covered.
    pub(super) fn first(&self) -> &[u8] {
        match self {
            Self::Key(first) | Self::FirstLine(first) | Self::Prefix(first) => first,
            Self::All | Self::Path(_) | Self::Tag(_) => &[],
        }
    }
}

/// What happens to the objects that a purge covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PurgeKind {
    /// They are removed.
    Hard,
    /// They stay, but must be validated before use.
    Soft,
}

/// A point in time between two purges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What the purges since a ticket mean for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No purge covers it.
    Keep,
    /// It may be stored, marked as stale.
    MarkStale,
    /// It must not be stored.
    Drop,
}

/// The log of recent purges.
#[derive(Debug, Default)]
pub struct Purges {
    generation: AtomicU64,
    /// The generation up to which all sweeps of RAM are done.
    settled: AtomicU64,
    /// The generation up to which all sweeps are done.
    settled_on_disk: AtomicU64,
    log: Mutex<Log>,
}

impl Purges {
    /// A ticket for something that is read from the origin, or from a store, after this call.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.generation.load(Ordering::Acquire))
    }

    /// A ticket for something that RAM holds now or held a moment ago. A purge whose sweep may have missed it is not
    /// older than the ticket. It takes no lock.
    pub fn settled(&self) -> Ticket {
        Ticket(self.settled.load(Ordering::Acquire))
    }

    /// The same for something on disk.
    pub fn settled_on_disk(&self) -> Ticket {
        Ticket(self.settled_on_disk.load(Ordering::Acquire))
    }

    /// Announces a purge: from now on every verdict respects it. Its sweeps follow: of RAM, then
    /// [`Purges::swept_memory`], and of the disk, then [`Purges::finish`].
    pub fn begin(&self, scope: &PurgeScope, kind: PurgeKind) -> Ticket {
        let mut log = lock(&self.log);
        let generation = self.generation.load(Ordering::Acquire) + 1;
        log.remember(generation, scope, kind);
        log.forget(self.settled_on_disk.load(Ordering::Acquire));
        log.sweeping_memory.insert(generation);
        log.sweeping.insert(generation);
        self.generation.store(generation, Ordering::Release);
        Ticket(generation)
    }

    /// The purge with this ticket has swept all of RAM.
    pub fn swept_memory(&self, purge: Ticket) {
        let mut log = lock(&self.log);
        log.sweeping_memory.remove(&purge.0);
        let settled = self.settled_before(log.sweeping_memory.first());
        self.settled.store(settled, Ordering::Release);
    }

    /// The purge with this ticket has swept all stores.
    pub fn finish(&self, purge: Ticket) {
        self.swept_memory(purge);
        let mut log = lock(&self.log);
        log.sweeping.remove(&purge.0);
        let settled = self.settled_before(log.sweeping.first());
        self.settled_on_disk.store(settled, Ordering::Release);
    }

    /// Must be called while the log is locked.
    fn settled_before(&self, first_sweeping: Option<&u64>) -> u64 {
        let generation = || self.generation.load(Ordering::Acquire);
        first_sweeping.map_or_else(generation, |first| first - 1)
    }

    /// What the purges since `ticket` mean for an object. When the object is then stored, no sweep of that store may
    /// run between the verdict and the storing.
    pub fn verdict(&self, ticket: Ticket, key: &[u8], tags: &[Box<str>]) -> Verdict {
        if ticket == self.ticket() {
            return Verdict::Keep;
        }
        lock(&self.log).verdict(ticket, key, tags)
    }
}

/// A purge whose sweep is in progress, even if its caller has stopped waiting. When it is dropped, the sweep is done in
/// all stores.
#[derive(Debug)]
pub struct Sweep {
    purges: Arc<Purges>,
    ticket: Ticket,
}

impl Sweep {
    /// Announces a purge, like [`Purges::begin`].
    pub fn begin(purges: &Arc<Purges>, scope: &PurgeScope, kind: PurgeKind) -> Self {
        let ticket = purges.begin(scope, kind);
        let purges = Arc::clone(purges);
        Self { purges, ticket }
    }

    /// RAM has been swept.
    pub fn swept_memory(&self) {
        self.purges.swept_memory(self.ticket);
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.purges.finish(self.ticket);
    }
}
