//! Which keys are being asked for, so that one request asks and the others wait; and two bounded memories of keys.
//!
//! Hits never come here: only requests that go to the origin, or wait for one that did, take the locks in this file.

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

/// How long requests for a key do not wait for each other after an answer that was not to be shared. The first answer
/// that may be stored ends this, so a long time costs nothing. A short time costs requests that then wait for a leader
/// in vain.
pub(crate) const UNSHARED_FOR: Duration = Duration::from_secs(600);
/// How long a key is not refreshed again after a refresh in the background brought nothing.
pub(crate) const REFRESHED_FOR: Duration = Duration::from_secs(10);
/// Keys remembered of each kind, in each of two generations.
const REMEMBERED_MAX: usize = 1 << 15;

/// The fills in progress, by key.
#[derive(Debug, Default)]
pub(crate) struct Fills(Mutex<Table>);

type Table = HashMap<Box<[u8]>, Arc<Fill>>;

/// The role of a request after a miss.
pub(crate) enum Role {
    /// It asks the origin.
    Leads(Lent),
    /// It waits and reads.
    Joins(Reader),
}

/// A fill with its leader, and its key while others can find it.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) fill: Arc<Fill>,
    pub(crate) key: Option<Box<[u8]>>,
    /// Whether no request can join it.
    pub(crate) is_alone: bool,
    /// The late fill in whose place it asks.
    relieves: Option<Late>,
}

/// A fill whose leader is late.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) fill: Arc<Fill>,
    /// The key by which requests find it.
    pub(crate) key: Box<[u8]>,
}

impl Lent {
    pub(crate) fn late(&self) -> Option<&Late> {
        self.relieves.as_ref()
    }
}

impl Fills {
    /// Joins the fill for `key`, or begins one if there is none.
    pub(crate) fn enter(&self, key: &[u8]) -> Role {
        match lock(&self.0).entry(key.into()) {
            Entry::Occupied(fill) => Role::Joins(Reader::new(fill.get())),
            Entry::Vacant(vacant) => {
                let fill = Arc::<Fill>::default();
                vacant.insert(Arc::clone(&fill));
                Role::Leads(Lent {
                    fill,
                    key: Some(key.into()),
                    is_alone: false,
                    relieves: None,
                })
            }
        }
    }

    /// A fill for `key` that no request joins. Whatever ends fills in progress still finds it.
    pub(crate) fn alone(&self, key: &[u8]) -> Lent {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        // No other fill has two NULs after its key.
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

    /// A fill for `key` in place of `late`. No request joins it before it has an answer.
    pub(crate) fn instead_of(&self, late: Late, key: &[u8]) -> Lent {
        Lent {
            relieves: Some(late),
            ..self.alone(key)
        }
    }

    /// The fill has this answer. If it was begun in place of a late one, those that wait for the late one now go by
    /// this one.
    pub(crate) fn take_over(&self, lent: &mut Lent, answer: &Outcome) {
        let Some(Late { fill: late, key }) = lent.relieves.take() else {
            return;
        };
        if let Outcome::Stale(..) = answer {
            // The origin may still answer the late one, for later requests.
            late.release_waiting(answer.clone(), &lent.fill);
            return;
        }
        let mut table = lock(&self.0);
        // The late one keeps an entry here, so that a purge still finds it.
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

    /// Whether anything covered by `scope` is being asked for.
    pub(super) fn holds(&self, scope: &PurgeScope) -> bool {
        let table = lock(&self.0);
        table.iter().any(|(key, fill)| is_covered(key, fill, scope))
    }

    /// Hides the fills that a purge covers: they were asked for before it.
    pub(super) fn cut_off(&self, scope: &PurgeScope) {
        lock(&self.0).retain(|key, fill| !is_covered(key, fill, scope));
    }

    /// Hides the fill from further requests.
    pub(crate) fn hide(&self, lent: &mut Lent) {
        if let Some(key) = lent.key.take() {
            let mut table = lock(&self.0);
            let is_own = |fill: &Arc<Fill>| Arc::ptr_eq(fill, &lent.fill);
            if table.get(&key).is_some_and(is_own) {
                table.remove(&key);
            } else if lent.fill.relieved().is_some() {
                // It may be under the key of the late one that it took over from.
                table.retain(|_, fill| !is_own(fill));
            }
        }
    }

    /// Tells all that wait how it ended.
    pub(crate) fn end(&self, lent: &mut Lent, outcome: Outcome) {
        // If this one has nothing for them, those that wait for a late leader wait on.
        if let Outcome::Whole(_) | Outcome::Stale(..) = &outcome {
            self.take_over(lent, &outcome);
        }
        // A request that looks from now on finds what was stored before this.
        self.hide(lent);
        lent.fill.end(outcome);
    }

    /// The leader has gone before there was an answer.
    pub(crate) fn abandon(&self, lent: &mut Lent) {
        self.end(lent, Outcome::Failed(Failure::ClientGone));
    }
}

/// Whether a purge of `scope` may cover what the fill brings.
fn is_covered(fill_key: &[u8], fill: &Fill, scope: &PurgeScope) -> bool {
    // A NUL, which no key contains, separates the key from what tells variants apart.
    let key = fill_key.split(|&b| b == 0).next().unwrap_or_default();
    match scope {
        PurgeScope::Tag(tag) => fill.may_have_tag(tag),
        _ => scope.names(key),
    }
}

/// Hashes of keys, each with a number. Two keys with one hash count as the same, which only costs an optimisation. An
/// entry is forgotten if it is not used while a generation's worth of others comes; one that is used stays.
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

    /// Counts a use of the key, and returns how many there were.
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
    fn counts_of_used_keys_survive_a_scan_of_others() {
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
        // An entry that is not used meanwhile is forgotten.
        others(10 * REMEMBERED_MAX);
        others(11 * REMEMBERED_MAX);
        assert_eq!(uses.count(b"k"), 1);
    }
}
