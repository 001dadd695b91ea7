//! Common times at which limiters that do not know of each other act together.

use std::time::{Duration, Instant};

/// Seconds between the most frequent beats. Longer periods are a power of two times this.
const SHORTEST_S: f64 = 1.0;
/// The greatest power of two: 1,024 seconds, by whose multiples the epochs of limiters may
/// differ.
const DOUBLED_MAX: i32 = 10;

/// Whole multiples of a period after an epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beats {
    pub(super) epoch: Instant,
}

impl Beats {
    pub(super) fn new(epoch: Instant) -> Self {
        Self { epoch }
    }

    /// The first beat after `now`, of those with a period of at least `apart_s` seconds.
    pub(super) fn next(self, now: Instant, apart_s: f64) -> Instant {
        let doubled = (apart_s / SHORTEST_S).max(1.0).log2().ceil() as i32;
        let period = SHORTEST_S * 2_f64.powi(doubled.min(DOUBLED_MAX));
        let passed = now.saturating_duration_since(self.epoch).as_secs_f64();
        let next = ((passed / period).floor() + 1.0) * period;
        self.epoch + Duration::from_secs_f64(next)
    }
}
