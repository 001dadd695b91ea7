//! The remembered purges, by name: a verdict costs the same however many there are.
//!
//! A scope that is purged again moves instead of being added. Beyond [`REMEMBERED_MAX`] the oldest are forgotten.
//! Purges that every ticket needs because of a sweep in progress are forgotten only beyond [`DURING_SWEEP_MAX`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{PurgeKind, PurgeScope, Ticket, Verdict};
use crate::key;

/// How many purges are remembered.
pub(super) const REMEMBERED_MAX: usize = 1 << 13;
/// How many purges are remembered while the sweep of an older one is in progress.
pub(super) const DURING_SWEEP_MAX: usize = 1 << 15;

#[derive(Debug, Default)]
pub(super) struct Log {
    /// By generation.
    recent: BTreeMap<u64, Purge>,
    named: [Named; SORTS],
    /// Generations of purges that have not swept all of RAM yet.
    pub(super) sweeping_memory: BTreeSet<u64>,
    /// Generations of purges whose sweep is not done yet.
    pub(super) sweeping: BTreeSet<u64>,
    /// The highest generation that is not in `recent` any more.
    forgotten: u64,
}

type Purge = (Sort, Arc<[u8]>, PurgeKind);

/// The sorts of scopes; each names objects by bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    All,
    Key,
    FirstLine,
    Prefix,
    Path,
    Tag,
}

const SORTS: usize = Sort::Tag as usize + 1;

/// The purges of one sort.
#[derive(Debug, Default)]
struct Named {
    latest: HashMap<Arc<[u8]>, Latest>,
    /// How many names have each length. A name that is a prefix is looked for with each of these lengths.
    lengths: BTreeMap<usize, usize>,
}

/// The generations of the latest purges of a name, 0 for none. The latest purge covers everything that an older one of
/// the same kind covers.
#[derive(Debug, Default, Clone, Copy)]
struct Latest {
    hard: u64,
    soft: u64,
}

impl Log {
    pub(super) fn remember(&mut self, generation: u64, scope: &PurgeScope, kind: PurgeKind) {
        let (sort, name) = name_of(scope);
        let named = &mut self.named[sort as usize];
        let name = match named.latest.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => named.add(name.into()),
        };
        if let Some(latest) = named.latest.get_mut(&name) {
            let older = std::mem::replace(latest.of(kind), generation);
            self.recent.remove(&older);
        }
        self.recent.insert(generation, (sort, name, kind));
    }

    /// Forgets the oldest if there are too many. Nothing stored from now on has a ticket older than `settled`.
    pub(super) fn forget(&mut self, settled: u64) {
        while self.recent.len() > REMEMBERED_MAX
            && let Some(oldest) = self.recent.keys().next().copied()
            && (oldest <= settled || self.recent.len() > DURING_SWEEP_MAX)
            && let Some((generation, (sort, name, kind))) = self.recent.pop_first()
        {
            self.named[sort as usize].forget(&name, kind);
            self.forgotten = generation;
        }
    }

    pub(super) fn verdict(&self, ticket: Ticket, key: &[u8], tags: &[Box<str>]) -> Verdict {
        if ticket.0 < self.forgotten {
            return Verdict::Drop;
        }
        let mut met = Latest::default();
        let mut is_named = |sort: Sort, name: &[u8]| {
            if let Some(latest) = self.named[sort as usize].latest.get(name) {
                met.hard = met.hard.max(latest.hard);
                met.soft = met.soft.max(latest.soft);
            }
        };
        is_named(Sort::All, b"");
        is_named(Sort::Key, key);
        is_named(Sort::FirstLine, key::url_of(key));
        for tag in tags {
            is_named(Sort::Tag, tag.as_bytes());
        }
        for (sort, text) in [(Sort::Prefix, key), (Sort::Path, key::target_of(key))] {
            let lengths = self.named[sort as usize].lengths.range(..=text.len());
            for (length, _) in lengths {
                is_named(sort, &text[..*length]);
            }
        }
        if met.hard > ticket.0 {
            Verdict::Drop
        } else if met.soft > ticket.0 {
            Verdict::MarkStale
        } else {
            Verdict::Keep
        }
    }
}

impl Named {
    fn add(&mut self, name: Arc<[u8]>) -> Arc<[u8]> {
        *self.lengths.entry(name.len()).or_default() += 1;
        self.latest.insert(Arc::clone(&name), Latest::default());
        name
    }

    fn forget(&mut self, name: &[u8], kind: PurgeKind) {
        let Some(latest) = self.latest.get_mut(name) else {
            return;
        };
        *latest.of(kind) = 0;
        if latest.hard.max(latest.soft) > 0 {
            return;
        }
        self.latest.remove(name);
        if let Some(count) = self.lengths.get_mut(&name.len()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&name.len());
            }
        }
    }
}

impl Latest {
    fn of(&mut self, kind: PurgeKind) -> &mut u64 {
        match kind {
            PurgeKind::Hard => &mut self.hard,
            PurgeKind::Soft => &mut self.soft,
        }
    }
}

fn name_of(scope: &PurgeScope) -> (Sort, &[u8]) {
    match scope {
        PurgeScope::All => (Sort::All, b""),
        PurgeScope::Key(key) => (Sort::Key, key),
        PurgeScope::FirstLine(line) => (Sort::FirstLine, line),
        PurgeScope::Prefix(prefix) => (Sort::Prefix, prefix),
        PurgeScope::Path(prefix) => (Sort::Path, prefix),
        PurgeScope::Tag(tag) => (Sort::Tag, tag.as_bytes()),
    }
}
