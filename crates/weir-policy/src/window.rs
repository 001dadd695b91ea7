//! A count of events over a sliding time.
//!
//! The time is cut into ten buckets. The count is that of the ten newest buckets, and of the part of the one before
//! that still lies inside, as if its events were spread evenly. So the count is exact for events younger than nine
//! tenths of the length, and forgets everything older than eleven tenths. Its error is at most what happened within a
//! tenth of the length.
//!
//! Every call costs the same, amortised; the size is fixed.

use std::time::{Duration, Instant};

/// Buckets in the length, plus one for the remainder.
const BUCKETS: usize = 10;
const SLOTS: usize = BUCKETS + 1;

/// Events over a sliding time, in `N` kinds.
#[derive(Debug, Clone)]
pub(crate) struct Window<const N: usize> {
    width: Duration,
    slots: [[u32; N]; SLOTS],
    /// The current slot, and when it began.
    current: usize,
    began: Instant,
    /// All slots but the oldest.
    recent: [u32; N],
}

impl<const N: usize> Window<N> {
    /// A window of this length (at least ten milliseconds) with no events in it.
    pub(crate) fn new(length: Duration, now: Instant) -> Self {
        Self {
            width: (length / BUCKETS as u32).max(Duration::from_millis(1)),
            slots: [[0; N]; SLOTS],
            current: 0,
            began: now,
            recent: [0; N],
        }
    }

    pub(crate) fn add(&mut self, now: Instant, kind: usize, count: u32) {
        self.turn(now);
        let slot = &mut self.slots[self.current][kind];
        // A full bucket stays full instead of overflowing.
        let count = count.min(u32::MAX / SLOTS as u32 - *slot);
        *slot += count;
        self.recent[kind] += count;
    }

    /// How many events of each kind are in the window.
    pub(crate) fn counts(&mut self, now: Instant) -> [f64; N] {
        self.turn(now);
        let into = now.saturating_duration_since(self.began).as_secs_f64();
        let inside = (1.0 - into / self.width.as_secs_f64()).clamp(0.0, 1.0);
        let oldest = &self.slots[self.oldest()];
        std::array::from_fn(|kind| f64::from(self.recent[kind]) + inside * f64::from(oldest[kind]))
    }

    /// Whether there are any events of a kind, as of the last call with a time.
    pub(crate) fn has(&self, kind: usize) -> bool {
        self.recent[kind] > 0 || self.slots[self.oldest()][kind] > 0
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, now: Instant) {
        *self = Self::new(self.width * BUCKETS as u32, now);
    }

    fn oldest(&self) -> usize {
        (self.current + 1) % SLOTS
    }

    /// Moves on to the current bucket. If the clock runs backwards, time stands still.
    fn turn(&mut self, now: Instant) {
        if now < self.began + self.width {
            return;
        }
        let elapsed = now.saturating_duration_since(self.began);
        if elapsed >= self.width * (SLOTS as u32) {
            self.clear(now);
            return;
        }
        while now.saturating_duration_since(self.began) >= self.width {
            self.began += self.width;
            self.current = self.oldest();
            self.slots[self.current] = [0; N];
            let oldest = self.slots[self.oldest()];
            for (recent, leaving) in self.recent.iter_mut().zip(oldest) {
                *recent -= leaving;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::tests::start;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_count_is_that_of_the_last_length_give_or_take_a_tenth(
            gaps_ms in proptest::collection::vec(0u64..400, 1..200),
        ) {
            let mut window = Window::<1>::new(Duration::from_secs(1), start());
            let mut events_ms: Vec<u64> = Vec::new();
            for gap_ms in gaps_ms {
                let now_ms = events_ms.last().unwrap_or(&0) + gap_ms;
                let now = start() + Duration::from_millis(now_ms);
                window.add(now, 0, 1);
                events_ms.push(now_ms);
                let younger_than = |age_ms| {
                    events_ms.iter().filter(|&&at_ms| now_ms - at_ms < age_ms).count() as f64
                };
                let [count] = window.counts(now);
                prop_assert!(younger_than(900) <= count && count <= younger_than(1_100));
            }
        }
    }

    #[test]
    fn what_leaves_the_window_leaves_it_gradually() {
        let at = |ms| start() + Duration::from_millis(ms);
        let mut window = Window::<2>::new(Duration::from_secs(1), start());
        window.add(at(50), 0, 100);
        window.add(at(50), 1, 8);
        // (when, count)
        let table = [
            (999, 100.0),
            (1_000, 100.0),
            (1_025, 75.0),
            (1_050, 50.0),
            (1_100, 0.0),
        ];
        for (ms, count) in table {
            let [first, second] = window.counts(at(ms));
            assert!((first - count).abs() < 1e-6, "{first} at {ms} ms");
            assert!((second - count * 0.08).abs() < 1e-6, "{second} at {ms} ms");
        }
    }
}
