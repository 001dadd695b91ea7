//! Which keys are being asked for, so that one request asks and the others wait; and two bounded memories of keys.
//!
//! Hits never come here: every lock in this file is taken by requests that go to the origin, or wait for one that did.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_cache::Timestamp;
use weir_cache::store::PurgeScope;

use super::fill::{Fill, Outcome, Reader};
use crate::failure::Failure;

/// How long requests of a key go on their own after one answer was not to be shared.
const UNSHARED_FOR: Duration = Duration::from_secs(10);
/// Keys remembered of each kind; the memory is emptied when it is full.
const REMEMBERED_MAX: usize = 1 << 16;

/// The fills under way, by key.
#[derive(Debug, Default)]
pub(super) struct Fills(Mutex<Table>);

type Table = HashMap<Box<[u8]>, Arc<Fill>>;

/// What a request that misses does.
pub(super) enum Place {
    /// It asks.
    Leads(Lent),
    /// It waits.
    Joins(Reader),
}

/// A fill that is led, and its key while it can be found.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) fill: Arc<Fill>,
    pub(super) key: Option<Box<[u8]>>,
    /// Whether nobody can join it.
    pub(super) is_alone: bool,
}

impl Fills {
    /// Whether somebody asks for `key` already.
    pub(super) fn place(&self, key: &[u8]) -> Place {
        match lock(&self.0).entry(key.into()) {
            Entry::Occupied(fill) => Place::Joins(Reader::new(fill.get())),
            Entry::Vacant(vacant) => {
                let fill = Arc::<Fill>::default();
                vacant.insert(Arc::clone(&fill));
                Place::Leads(Lent {
                    fill,
                    key: Some(key.into()),
                    is_alone: false,
                })
            }
        }
    }

    /// A fill of `key` that nobody joins. Whoever ends what is under way finds it all the same.
    pub(super) fn alone(&self, key: &[u8]) -> Lent {
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
        }
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
    pub(super) fn hide(&self, lent: &mut Lent) {
        if let Some(key) = lent.key.take() {
            let mut table = lock(&self.0);
            if table
                .get(&key)
                .is_some_and(|fill| Arc::ptr_eq(fill, &lent.fill))
            {
                table.remove(&key);
            }
        }
    }

    /// Tells everybody who waits how it ended.
    pub(super) fn end(&self, lent: &mut Lent, outcome: Outcome) {
        // Whoever looks from now on finds what was stored before this.
        self.hide(lent);
        lent.fill.end(outcome);
    }

    /// The leader is gone before there was an answer.
    pub(super) fn abandon(&self, lent: &mut Lent) {
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
#[derive(Debug, Default)]
pub(super) struct Remembered {
    hasher: RandomState,
    table: Mutex<HashMap<u64, u64>>,
}

impl Remembered {
    /// Whether the key was noted less than [`UNSHARED_FOR`] ago.
    pub(super) fn holds(&self, key: &[u8], now: Timestamp) -> bool {
        let noted = lock(&self.table).get(&self.hasher.hash_one(key)).copied();
        noted.is_some_and(|at| now.since(Timestamp::from_ms(at)) < UNSHARED_FOR)
    }

    pub(super) fn note(&self, key: &[u8], now: Timestamp) {
        *self.number(key, &mut lock(&self.table)) = now.ms();
    }

    pub(super) fn forget(&self, key: &[u8]) {
        lock(&self.table).remove(&self.hasher.hash_one(key));
    }

    /// Counts a use of the key and says how many there were.
    pub(super) fn count(&self, key: &[u8]) -> u64 {
        let mut table = lock(&self.table);
        let count = self.number(key, &mut table);
        *count += 1;
        *count
    }

    fn number<'t>(&self, key: &[u8], table: &'t mut HashMap<u64, u64>) -> &'t mut u64 {
        if table.len() >= REMEMBERED_MAX {
            table.clear();
        }
        table.entry(self.hasher.hash_one(key)).or_default()
    }
}

/// Every critical section here leaves its values whole, so a thread that panicked in one has broken nothing.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
