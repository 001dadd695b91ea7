//! The endpoints at which places are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_policy::limit::concurrency::Limiter;

use crate::state::gate::Gate;
use crate::time;

/// How many places of a gate are taken by requests to one endpoint.
#[derive(Debug)]
pub(crate) struct Places {
    gate: Arc<Gate>,
    held: AtomicU32,
    /// In the lower half, how many of them have not been given up; in the upper half, how often places were given up.
    kept: AtomicU64,
    /// The ejection of the endpoint for which they were last given up, counted from 1.
    given_up_for: AtomicU64,
}

/// A place at an endpoint, counted among the endpoint's places. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct At {
    places: Arc<Places>,
    /// How often places had been given up when it was taken.
    given_up: u64,
}

const KEPT_BITS: u32 = 32;

impl Places {
    pub(crate) fn new(gate: &Arc<Gate>) -> Arc<Self> {
        Arc::new(Self {
            gate: Arc::clone(gate),
            held: AtomicU32::new(0),
            kept: AtomicU64::new(0),
            given_up_for: AtomicU64::new(0),
        })
    }

    /// Whether they are places of this gate.
    pub(crate) fn are_of(&self, gate: &Arc<Gate>) -> bool {
        Arc::ptr_eq(&self.gate, gate)
    }

    /// How many are taken.
    pub(crate) fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// How many of them have not been given up.
    pub(crate) fn kept(&self) -> u32 {
        self.kept.load(Ordering::Relaxed) as u32
    }

    /// Takes one more place, unless the endpoint has `most`.
    pub(crate) fn take(self: &Arc<Self>, most: u32) -> Option<At> {
        let one_more = |held: u32| (held < most).then_some(held + 1);
        let is_taken = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        is_taken.ok()?;
        let kept = self.kept.fetch_add(1, Ordering::Relaxed);
        Some(At {
            places: Arc::clone(self),
            given_up: kept >> KEPT_BITS,
        })
    }

    /// The endpoint was ejected; `ejection` counts its ejections. Its places go to others, although its requests go on;
    /// this happens once for each ejection. If each endpoint has places of its own, they stay taken.
    pub(crate) fn give_up(&self, ejection: u64) {
        let before = self.given_up_for.swap(ejection, Ordering::Relaxed);
        if before == ejection || self.gate.is_per_endpoint() {
            return;
        }
        let none_kept = |kept: u64| Some(((kept >> KEPT_BITS) + 1) << KEPT_BITS);
        // The limiter is locked meanwhile: whoever sees that its place was given up comes after this.
        self.gate.change(time::now(), |limiter| {
            let before = self
                .kept
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, none_kept);
            limiter.lose(before.unwrap_or_else(|kept| kept) as u32);
        });
    }
}

impl At {
    /// The places that it is one of.
    pub(super) fn places(&self) -> Arc<Places> {
        Arc::clone(&self.places)
    }

    pub(crate) fn was_given_up(&self) -> bool {
        self.places.kept.load(Ordering::Relaxed) >> KEPT_BITS != self.given_up
    }
}

impl Drop for At {
    fn drop(&mut self) {
        let places = &self.places;
        places.held.fetch_sub(1, Ordering::Relaxed);
        let one_less = |kept: u64| (kept >> KEPT_BITS == self.given_up).then(|| kept - 1);
        let was_kept = places
            .kept
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        if was_kept.is_err() {
            places.gate.change(time::now(), Limiter::recover);
        }
    }
}
