//! The latency of a service when nothing queues in it, as an average that knows how many samples it needs.
//!
//! Latencies come in batches, and the mean of the last batch is the base. A batch is large enough for the
//! standard error of its mean to be about a tenth of it, by the variance of the batch before, within bounds. Which
//! latencies belong here is decided by `adaptive`.

use std::time::Duration;

/// The standard error that a batch should have, as a share of its mean.
const ERROR: f64 = 0.1;

/// The size of a batch. The smallest is enough when service times hardly vary; the largest bounds how long measuring
/// takes when they vary wildly.
const BATCH_MIN: u32 = 32;
const BATCH_MAX: u32 = 256;

/// A base is settled when the mean of the last batch differed from it by less than this share: twice the error.
const SETTLED_CHANGE: f64 = 0.2;

#[derive(Debug)]
pub(super) struct Base {
    /// `None` before the first batch is complete.
    latency: Option<Duration>,
    is_settled: bool,
    size: u32,
    count: u32,
    sum_s: f64,
    sum_of_squares: f64,
}

impl Base {
    pub(super) fn new() -> Self {
        Self {
            latency: None,
            is_settled: false,
            size: BATCH_MIN,
            count: 0,
            sum_s: 0.0,
            sum_of_squares: 0.0,
        }
    }

    /// The base latency, or the best that is known before the first batch is complete.
    pub(super) fn latency(&self) -> Option<Duration> {
        let mean = || Duration::from_secs_f64(self.sum_s / f64::from(self.count));
        self.latency.or_else(|| (self.count > 0).then(mean))
    }

    /// Whether the last batch said what the base was already.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// How many samples of this service say something.
    pub(super) fn batch_size(&self) -> u32 {
        self.size
    }

    /// Takes a latency in. When this completes a batch, the base becomes at most `rise_max` times what it was, and the
    /// answer is by how much it has changed: 1 if it has not.
    pub(super) fn learn(&mut self, latency: Duration, rise_max: f64) -> Option<f64> {
        let sample_s = latency.as_secs_f64();
        self.count += 1;
        self.sum_s += sample_s;
        self.sum_of_squares += sample_s * sample_s;
        (self.count >= self.size).then(|| self.finish_batch(rise_max))
    }

    fn finish_batch(&mut self, rise_max: f64) -> f64 {
        let mean_s = (self.sum_s / f64::from(self.count)).max(1e-9);
        let variance = (self.sum_of_squares / f64::from(self.count) - mean_s * mean_s).max(0.0);
        // Before the first batch it was a guess, from the answers that happened to come first.
        let is_first = self.latency.is_none();
        let before_s = self
            .latency
            .map_or(mean_s, |before| before.as_secs_f64().max(1e-9));
        let after_s = mean_s.min(before_s * rise_max);
        let needed = (variance / (mean_s * mean_s * ERROR * ERROR)) as u32;
        let change = after_s / before_s;
        *self = Self {
            latency: Some(Duration::from_secs_f64(after_s)),
            is_settled: !is_first && (mean_s / before_s - 1.0).abs() < SETTLED_CHANGE,
            // A batch without one of the rare slow answers does not mean that there are none.
            size: needed.max(self.size / 2).clamp(BATCH_MIN, BATCH_MAX),
            ..Self::new()
        };
        change
    }
}
