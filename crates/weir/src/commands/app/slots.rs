//! A service that can do only so much at once: what waits is worked on in the order in which it came, however long that
//! takes, and whether or not anybody is still there to take the answer.
//!
//! Pure: a request books its time as it arrives, so what is to be done is settled before it is done and no client that
//! leaves can change it. Time comes in as an argument.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// When each slot has done all that is booked with it.
#[derive(Debug)]
pub(super) struct Slots(BinaryHeap<Reverse<Instant>>);

impl Slots {
    pub(super) fn new(count: usize, now: Instant) -> Self {
        Self(std::iter::repeat_n(Reverse(now), count).collect())
    }

    /// Books `time` with the slot that is free first, and says when that will be over.
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
    fn what_finds_no_slot_waits_for_its_turn_and_idle_time_is_lost() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut slots = Slots::new(2, start);
        let time = Duration::from_millis(20);
        for (arrives, over) in [(0, 20), (5, 25), (6, 40), (7, 45), (7, 60), (100, 120)] {
            assert_eq!(slots.book(at(arrives), time), at(over), "at {arrives}");
        }
    }
}
