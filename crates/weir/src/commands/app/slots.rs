//! A service that can do only so much at once. It works on requests in the order in which they came, however long that
//! takes, and even if their clients have left.
//!
//! Pure: a request books its time when it arrives, so its schedule is fixed and a client that leaves cannot change it.
//! Time is an argument.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// When each slot has done all its bookings.
#[derive(Debug)]
pub(super) struct Slots(BinaryHeap<Reverse<Instant>>);

impl Slots {
    pub(super) fn new(count: usize, now: Instant) -> Self {
        Self(std::iter::repeat_n(Reverse(now), count).collect())
    }

    /// Books `time` with the slot that is free first, and returns when that will be over.
    pub(super) fn book(&mut self, now: Instant, time: Duration) -> Instant {
        let Reverse(free_at) = self.0.pop().unwrap_or(Reverse(now));
        let over_at = free_at.max(now) + time;
        self.0.push(Reverse(over_at));
        over_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_a_slot_wait_their_turn_and_idle_time_is_lost() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut slots = Slots::new(2, start);
        let time = Duration::from_millis(20);
        for (arrives, over) in [(0, 20), (5, 25), (6, 40), (7, 45), (7, 60), (100, 120)] {
            assert_eq!(slots.book(at(arrives), time), at(over), "at {arrives}");
        }
    }
}
