//! Which keys are being asked for, so that one request asks and the others wait; and two bounded memories of keys.
//!
//! Hits never come here: every lock in this file is taken by requests that go to the origin, or wait for one that did.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_cache::Timestamp;
use weir_cache::store::PurgeScope;

use crate::failure::Failure;
use crate::lock::lock;
use crate::state::fill::{Fill, Outcome, Reader};

/// How long requests of a key go on their own after an answer that said it was not to be shared. The first answer that may be
/// stored ends it, so it costs nothing to be long; to be short costs those who then wait for a leader in vain.
pub(crate) const UNSHARED_FOR: Duration = Duration::from_secs(600);
/// How long what came to nothing in the background is not asked for there again.
pub(crate) const REFRESHED_FOR: Duration = Duration::from_secs(10);
/// Keys remembered of each kind, in each of two generations.
const REMEMBERED_MAX: usize = 1 << 15;

/// The fills under way, by key.
#[derive(Debug, Default)]
pub(crate) struct Fills(Mutex<Table>);

type Table = HashMap<Box<[u8]>, Arc<Fill>>;

/// What a request that misses does.
pub(crate) enum Place {
    /// It asks.
    Leads(Lent),
    /// It waits.
    Joins(Reader),
}

/// A fill that is led, and its key while it can be found.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) fill: Arc<Fill>,
    pub(crate) key: Option<Box<[u8]>>,
    /// Whether nobody can join it.
    pub(crate) is_alone: bool,
    /// The one in whose place it is asked for.
    relieves: Option<Late>,
}

/// A fill whose leader is late.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) fill: Arc<Fill>,
    /// By which requests find it.
    pub(crate) key: Box<[u8]>,
}

impl Lent {
    pub(crate) fn late(&self) -> Option<&Late> {
        self.relieves.as_ref()
    }
}

impl Fills {
    /// Whether somebody asks for `key` already.
    pub(crate) fn place(&self, key: &[u8]) -> Place {
        match lock(&self.0).entry(key.into()) {
            Entry::Occupied(fill) => Place::Joins(Reader::new(fill.get())),
            Entry::Vacant(vacant) => {
                let fill = Arc::<Fill>::default();
                vacant.insert(Arc::clone(&fill));
                Place::Leads(Lent {
                    fill,
                    key: Some(key.into()),
                    is_alone: false,
                    relieves: None,
                })
            }
        }
    }

    /// A fill of `key` that nobody joins. Whoever ends what is under way finds it all the same.
    pub(crate) fn alone(&self, key: &[u8]) -> Lent {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        // No other fill has two NULs behind its key.
        let own: Box<[u8]> = [key, &[0, 0], &number].concat().into();
        let fill = Arc::<Fill>::default();
        lock(&self.0).insert(own.clone(), Arc::clone(&fill));
        Lent {
            fill,
            key: Some(own),
            is_alone: true,
            relieves: None,
        }
    }

    /// A fill of `key` in the place of `late`. Nobody joins it before it has an answer.
    pub(crate) fn instead_of(&self, late: Late, key: &[u8]) -> Lent {
        Lent {
            relieves: Some(late),
            ..self.alone(key)
        }
    }

    /// The fill has this answer. If it was asked for in the place of one that is late, whoever waits for that one goes by
    /// this one from here on.
    pub(crate) fn take_over(&self, lent: &mut Lent, answer: &Outcome) {
        let Some(Late { fill: late, key }) = lent.relieves.take() else {
            return;
        };
        if let Outcome::Stale(..) = answer {
            // The origin may answer the late one, for those who come later.
            late.release_waiting(answer.clone(), &lent.fill);
            return;
        }
        let mut table = lock(&self.0);
        // The late one keeps a place here, so that a purge still finds what is asked for.
        if let Some(own) = lent.key.as_deref()
            && table.get(&key).is_some_and(|fill| Arc::ptr_eq(fill, &late))
            && let Some(place) = table.get_mut(own)
        {
            *place = Arc::clone(&late);
            table.insert(key.clone(), Arc::clone(&lent.fill));
            lent.key = Some(key);
            lent.is_alone = false;
        }
        late.release_waiting(answer.clone(), &lent.fill);
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Whether anything that `scope` covers is asked for.
    pub(super) fn holds(&self, scope: &PurgeScope) -> bool {
        let table = lock(&self.0);
        table.iter().any(|(key, fill)| is_covered(key, fill, scope))
    }

    /// No further request finds the fills that a purge covers: what they bring was asked for before it.
    pub(super) fn cut_off(&self, scope: &PurgeScope) {
        lock(&self.0).retain(|key, fill| !is_covered(key, fill, scope));
    }

    /// No further request finds the fill.
    pub(crate) fn hide(&self, lent: &mut Lent) {
        if let Some(key) = lent.key.take() {
            let mut table = lock(&self.0);
            let is_own = |fill: &Arc<Fill>| Arc::ptr_eq(fill, &lent.fill);
            if table.get(&key).is_some_and(is_own) {
                table.remove(&key);
            } else if lent.fill.relieved().is_some() {
                // Under the key of the one that took over from it.
                table.retain(|_, fill| !is_own(fill));
            }
        }
    }

    /// Tells everybody who waits how it ended.
    pub(crate) fn end(&self, lent: &mut Lent, outcome: Outcome) {
        // Others wait on for a leader that is late where this one has nothing for them.
        if let Outcome::Whole(_) | Outcome::Stale(..) = &outcome {
            self.take_over(lent, &outcome);
        }
        // Whoever looks from now on finds what was stored before this.
        self.hide(lent);
        lent.fill.end(outcome);
    }

    /// The leader is gone before there was an answer.
    pub(crate) fn abandon(&self, lent: &mut Lent) {
        self.end(lent, Outcome::Failed(Failure::ClientGone));
    }
}

/// Whether a purge of `scope` may cover what the fill brings.
fn is_covered(fill_key: &[u8], fill: &Fill, scope: &PurgeScope) -> bool {
    // Behind a NUL, which no key has, stands what tells variants apart.
    let key = fill_key.split(|&b| b == 0).next().unwrap_or_default();
    match scope {
        PurgeScope::Tag(tag) => fill.may_have_tag(tag),
        _ => scope.names(key),
    }
}

/// Hashes of keys, with a number each. Two keys with one hash pass for the same, which costs an optimisation and no more.
/// What has not been used while as many others came as a generation holds is forgotten; what is used stays.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    hasher: RandomState,
    tables: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u64, u64>,
    old: HashMap<u64, u64>,
}

impl Generations {
    fn number(&mut self, hash: u64) -> &mut u64 {
        if !self.young.contains_key(&hash) && self.young.len() >= REMEMBERED_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        let before = self.old.remove(&hash).unwrap_or_default();
        self.young.entry(hash).or_insert(before)
    }
}

impl Remembered {
    /// Whether the key was noted less than `span` ago.
    pub(crate) fn holds(&self, key: &[u8], now: Timestamp, span: Duration) -> bool {
        let hash = self.hasher.hash_one(key);
        let tables = lock(&self.tables);
        let noted = tables.young.get(&hash).or_else(|| tables.old.get(&hash));
        let noted = noted.copied();
        drop(tables);
        noted.is_some_and(|at| now.since(Timestamp::from_ms(at)) < span)
    }

    pub(crate) fn note(&self, key: &[u8], now: Timestamp) {
        *lock(&self.tables).number(self.hasher.hash_one(key)) = now.ms();
    }

    pub(crate) fn forget(&self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        let mut tables = lock(&self.tables);
        tables.young.remove(&hash);
        tables.old.remove(&hash);
    }

    /// Counts a use of the key and says how many there were.
    pub(crate) fn count(&self, key: &[u8]) -> u64 {
        let mut tables = lock(&self.tables);
        let count = tables.number(self.hasher.hash_one(key));
        *count += 1;
        *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_counted_on_through_a_scan_of_others() {
        let uses = Remembered::default();
        let others = |from: usize| {
            for number in from..from + REMEMBERED_MAX - 1 {
                uses.count(&number.to_le_bytes());
            }
        };
        for count in 1..6 {
            assert_eq!(uses.count(b"k"), count);
            others(count as usize * REMEMBERED_MAX);
        }
        // What is not used meanwhile is forgotten.
        others(10 * REMEMBERED_MAX);
        others(11 * REMEMBERED_MAX);
        assert_eq!(uses.count(b"k"), 1);
    }
}
