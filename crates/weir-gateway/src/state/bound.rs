//! A bound on how many of a kind there may be at once, over all workers. Whatever finds no slot is given
//! up, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Bound(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    taken: AtomicUsize,
    max: usize,
    refused: AtomicU64,
}

/// One of them. When this is dropped, the next finds room.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Counts>);

impl Bound {
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(Counts {
            taken: AtomicUsize::new(0),
            max,
            refused: AtomicU64::new(0),
        }))
    }

    /// Takes a slot, if one is free.
    pub(crate) fn take(&self) -> Option<Slot> {
        let counts = &self.0;
        let next = |taken| (taken < counts.max).then_some(taken + 1);
        let relaxed = Ordering::Relaxed;
        if counts.taken.fetch_update(relaxed, relaxed, next).is_err() {
            counts.refused.fetch_add(1, relaxed);
            return None;
        }
        Some(Slot(Arc::clone(counts)))
    }

    /// How many slots are taken.
    pub(crate) fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed) as u64
    }

    /// How many were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_and_one_that_ends_makes_room() {
        let bound = Bound::new(2);
        let (first, second) = (bound.take(), bound.take());
        assert!(first.is_some() && second.is_some());
        assert!(bound.take().is_none());
        drop(first);
        assert!(bound.take().is_some());
        assert_eq!((bound.taken(), bound.refused()), (1, 1));
    }
}
