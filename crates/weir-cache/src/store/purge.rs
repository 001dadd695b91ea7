//! What a purge covers, and why a fill that was under way cannot undo it.
//!
//! A purge sweeps what is stored. What is on its way into a store at that moment (a fill, a promotion, a demotion, the
//! rebuilding of the disk index) is met by the log here: it carries a [`Ticket`] from before it read what it brings, and
//! whoever stores it asks [`Purges::verdict`] first. The memory and the disk tier share one log.
//!
//! The log never grows without bound: a scope that is purged again moves instead of being added, and beyond
//! `REMEMBERED_MAX` the oldest are forgotten; those that a sweep under way makes matter to every ticket, only beyond
//! `DURING_SWEEP_MAX`. A ticket older than what it remembers is treated as purged: something that is merely cached may be
//! dropped, but must not come back after a purge was answered.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::answer::lock;
use crate::key;

/// Purges that are remembered.
const REMEMBERED_MAX: usize = 1 << 13;
/// Purges that are remembered while the sweep of an older one is under way.
const DURING_SWEEP_MAX: usize = 1 << 15;

/// Which objects a purge covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PurgeScope {
    /// Every object.
    All,
    /// All variants of one primary key.
    Key(Box<[u8]>),
    /// All whose primary key has this first line: all that is stored of one URL.
    FirstLine(Box<[u8]>),
    /// All whose primary key begins with these bytes.
    Prefix(Box<[u8]>),
    /// All whose path begins with these bytes, on whichever host.
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

    /// Whether an object with this primary key is covered, whatever its tags are.
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

    /// No key before this one is named.
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
    /// They stay, but must be validated before they are used as fresh.
    Soft,
}

/// A moment between two purges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What the purges since a ticket ask of an object.
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
    /// The highest generation before which no sweep is under way.
    settled: AtomicU64,
    log: Mutex<Log>,
}

type Purge = (PurgeScope, PurgeKind);

#[derive(Debug, Default)]
struct Log {
    /// By generation.
    recent: BTreeMap<u64, Arc<Purge>>,
    /// The generation that each of `recent` has.
    generations: HashMap<Arc<Purge>, u64>,
    /// Generations of purges whose sweep is not done yet.
    sweeping: Vec<u64>,
    /// The highest generation that is no longer in `recent`.
    forgotten: u64,
}

impl Log {
    /// Whatever an older purge of the same kind and scope meets, this one meets as well.
    fn remember(&mut self, generation: u64, purge: Purge) {
        let purge = Arc::new(purge);
        if let Some(older) = self.generations.insert(Arc::clone(&purge), generation) {
            self.recent.remove(&older);
        }
        self.recent.insert(generation, purge);
    }

    /// Forgets the oldest that are too many. Nothing that is stored from now on has a ticket older than `settled`.
    fn forget(&mut self, settled: u64) {
        while self.recent.len() > REMEMBERED_MAX
            && let Some(oldest) = self.recent.first_entry()
            && (*oldest.key() <= settled || self.generations.len() > DURING_SWEEP_MAX)
        {
            let (generation, purge) = oldest.remove_entry();
            self.generations.remove(&purge);
            self.forgotten = generation;
        }
    }
}

impl Purges {
    /// A ticket for something that is read from the origin, or from a store, after this call.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.generation.load(Ordering::Acquire))
    }

    /// A ticket for something that a store holds now or held a moment ago: a purge whose sweep may have missed it is not
    /// older than the ticket. Takes no lock.
    pub fn settled(&self) -> Ticket {
        Ticket(self.settled.load(Ordering::Acquire))
    }

    /// Announces a purge: from now on it is answered for by every verdict. Its sweep follows, then [`Purges::finish`].
    pub fn begin(&self, scope: PurgeScope, kind: PurgeKind) -> Ticket {
        let mut log = lock(&self.log);
        let generation = self.generation.load(Ordering::Acquire) + 1;
        log.remember(generation, (scope, kind));
        log.forget(self.settled.load(Ordering::Acquire));
        log.sweeping.push(generation);
        self.generation.store(generation, Ordering::Release);
        Ticket(generation)
    }

    /// The sweep of the purge that got this ticket is done in all stores.
    pub fn finish(&self, purge: Ticket) {
        let mut log = lock(&self.log);
        log.sweeping.retain(|generation| *generation != purge.0);
        let first_sweeping = log.sweeping.iter().min().map(|generation| generation - 1);
        let settled = first_sweeping.unwrap_or_else(|| self.generation.load(Ordering::Acquire));
        self.settled.store(settled, Ordering::Release);
    }

    /// What the purges since `ticket` ask of an object. Whoever stores it calls this while no sweep of that store can run
    /// between the verdict and the storing.
    pub fn verdict(&self, ticket: Ticket, key: &[u8], tags: &[Box<str>]) -> Verdict {
        if ticket == self.ticket() {
            return Verdict::Keep;
        }
        let log = lock(&self.log);
        if ticket.0 < log.forgotten {
            return Verdict::Drop;
        }
        let since = log.recent.range(ticket.0 + 1..).map(|(_, purge)| purge);
        let mut verdict = Verdict::Keep;
        for purge in since.filter(|purge| purge.0.covers(key, tags)) {
            match purge.1 {
                PurgeKind::Hard => return Verdict::Drop,
                PurgeKind::Soft => verdict = Verdict::MarkStale,
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(tag: &str) -> PurgeScope {
        PurgeScope::Tag(tag.into())
    }

    #[test]
    fn a_purge_covers_what_it_names() {
        let tags: [Box<str>; 1] = ["news".into()];
        let covers = |scope: PurgeScope| scope.covers(b"example.com/a/b", &tags);
        assert!(covers(PurgeScope::All));
        assert!(covers(PurgeScope::Prefix((*b"example.com/a/").into())));
        assert!(!covers(PurgeScope::Prefix((*b"example.com/b").into())));
        assert!(covers(PurgeScope::Key((*b"example.com/a/b").into())));
        assert!(!covers(PurgeScope::Key((*b"example.com/a").into())));
        let path = |path: &str| PurgeScope::Path(path.as_bytes().into());
        let on_any_host = path("/a/").covers(b"http://example.com/a/b?c\nheader d:e", &[]);
        assert!(on_any_host && path("/a/b?c").covers(b"http:///a/b?c", &[]));
        assert!(!path("/b").covers(b"http://a/a/b?c=/b", &[]));
        assert!(covers(tag("news")));
        assert!(!covers(tag("new")));
    }

    #[test]
    fn a_fill_from_before_a_purge_is_met_by_it_and_one_from_after_is_not() {
        let purges = Purges::default();
        let tags: [Box<str>; 1] = ["news".into()];
        let before = purges.ticket();
        purges.finish(purges.begin(tag("news"), PurgeKind::Soft));
        let between = purges.ticket();
        assert_eq!(purges.verdict(before, b"k", &tags), Verdict::MarkStale);
        assert_eq!(purges.verdict(before, b"k", &[]), Verdict::Keep);
        purges.finish(purges.begin(PurgeScope::Key((*b"k").into()), PurgeKind::Hard));
        assert_eq!(purges.verdict(before, b"k", &tags), Verdict::Drop);
        assert_eq!(purges.verdict(between, b"other", &tags), Verdict::Keep);
        assert_eq!(purges.verdict(purges.ticket(), b"k", &tags), Verdict::Keep);
    }

    #[test]
    fn what_left_a_store_during_a_sweep_is_still_met_by_that_purge() {
        let purges = Purges::default();
        let purge = purges.begin(PurgeScope::All, PurgeKind::Hard);
        let during = purges.settled();
        purges.finish(purge);
        assert_eq!(purges.verdict(during, b"k", &[]), Verdict::Drop);
        assert_eq!(purges.verdict(purges.settled(), b"k", &[]), Verdict::Keep);
    }

    #[test]
    fn the_oldest_sweep_decides_what_is_settled() {
        let purges = Purges::default();
        let first = purges.begin(PurgeScope::Key((*b"a").into()), PurgeKind::Hard);
        let second = purges.begin(PurgeScope::Key((*b"b").into()), PurgeKind::Hard);
        purges.finish(second);
        let during = purges.settled();
        purges.finish(first);
        assert_eq!(purges.verdict(during, b"a", &[]), Verdict::Drop);
        assert_eq!(purges.settled(), second);
    }

    #[test]
    fn a_scope_that_is_purged_again_takes_no_room_and_is_not_lost() {
        let purges = Purges::default();
        let old = purges.ticket();
        purges.finish(purges.begin(tag("once"), PurgeKind::Hard));
        for _ in 0..=REMEMBERED_MAX {
            purges.finish(purges.begin(tag("x"), PurgeKind::Soft));
        }
        assert_eq!(purges.verdict(old, b"k", &[]), Verdict::Keep);
        assert_eq!(purges.verdict(old, b"k", &["x".into()]), Verdict::MarkStale);
        assert_eq!(purges.verdict(old, b"k", &["once".into()]), Verdict::Drop);
        purges.finish(purges.begin(tag("once"), PurgeKind::Soft));
        assert_eq!(purges.verdict(old, b"k", &["once".into()]), Verdict::Drop);
    }

    #[test]
    fn while_a_sweep_is_under_way_what_is_newer_is_remembered_up_to_a_bound() {
        let purges = Purges::default();
        let slow = purges.begin(tag("slow"), PurgeKind::Hard);
        let purge = |number: usize| {
            purges.finish(purges.begin(tag(&number.to_string()), PurgeKind::Soft));
        };
        (0..2 * REMEMBERED_MAX).for_each(purge);
        assert_eq!(purges.verdict(purges.settled(), b"k", &[]), Verdict::Keep);
        (0..=DURING_SWEEP_MAX).for_each(purge);
        assert_eq!(purges.verdict(purges.settled(), b"k", &[]), Verdict::Drop);
        purges.finish(slow);
        assert_eq!(purges.verdict(purges.settled(), b"k", &[]), Verdict::Keep);
    }

    #[test]
    fn a_ticket_older_than_the_log_counts_as_purged() {
        let purges = Purges::default();
        let old = purges.ticket();
        for number in 0..=REMEMBERED_MAX {
            purges.finish(purges.begin(tag(&number.to_string()), PurgeKind::Soft));
        }
        assert_eq!(purges.verdict(old, b"k", &[]), Verdict::Drop);
    }
}
