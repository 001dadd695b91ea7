//! Whether latencies rose through a run: the evidence for a server that answers less than the rate it is sent, while there are
//! connections enough to send it all. Pure.
//!
//! Requests that wait for such a server are more every second, and so each waits longer than the one before. Latencies count
//! from when a request was due, so it does not matter where they wait. A server that is slow and keeps the rate takes as long
//! for the last as for the first.

use hdrhistogram::Histogram;

use crate::outcome::{histogram, merge, record};

/// With fewer answers on either side there is no evidence.
const ANSWERS_MIN: u64 = 8;
/// So many times longer is longer; anything less is chance.
const LONGER: f64 = 1.5;
/// A server that answers this part less than it is sent is behind. Less than that, and a short run cannot tell.
const BEHIND_MIN: f64 = 0.04;
/// From the middle of the first third to the middle of the last one, as a part of the run.
const APART: f64 = 2.0 / 3.0;

/// A part of a run, by when requests were due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Third {
    First,
    Last,
}

/// Nanoseconds to good answers, of an open loop.
#[derive(Debug, Clone)]
pub struct Trend {
    /// Those that were due in the first third of the run.
    pub first_ns: Histogram<u64>,
    /// In the last third.
    pub last_ns: Histogram<u64>,
}

impl Default for Trend {
    fn default() -> Self {
        Self {
            first_ns: histogram(),
            last_ns: histogram(),
        }
    }
}

impl Trend {
    pub(crate) fn note(&mut self, third: Third, latency_ns: u64) {
        match third {
            Third::First => record(&mut self.first_ns, latency_ns),
            Third::Last => record(&mut self.last_ns, latency_ns),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        merge(&mut self.first_ns, &other.first_ns);
        merge(&mut self.last_ns, &other.last_ns);
    }

    pub(crate) fn clear(&mut self) {
        self.first_ns.reset();
        self.last_ns.reset();
    }

    /// The medians of the first third and of the last one, if they rose as those of a server that cannot keep the rate of a run
    /// of `lasts_ns`.
    pub(crate) fn rose(&self, lasts_ns: u64) -> Option<(u64, u64)> {
        let is_known = |histogram: &Histogram<u64>| histogram.len() >= ANSWERS_MIN;
        if !is_known(&self.first_ns) || !is_known(&self.last_ns) {
            return None;
        }
        let [first, last] = [&self.first_ns, &self.last_ns].map(|it| it.value_at_quantile(0.5));
        let by_least = BEHIND_MIN * APART * lasts_ns as f64;
        let rose =
            last as f64 >= LONGER * first as f64 && last.saturating_sub(first) as f64 >= by_least;
        rose.then_some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const RUN_NS: u64 = 3_000 * MS;

    /// What a server that takes `latency_ns` and answers `capacity` requests a second does with `rate`.
    fn run(rate: u64, capacity: u64, latency_ns: u64) -> Trend {
        let mut trend = Trend::default();
        let gap_ns = 1_000 * MS / rate;
        for number in 0..3 * rate {
            let due_ns = number * gap_ns;
            let answered_ns = (number * 1_000 * MS / capacity).max(due_ns) + latency_ns;
            let third = match due_ns * 3 / RUN_NS {
                0 => Third::First,
                1 => continue,
                _ => Third::Last,
            };
            trend.note(third, answered_ns - due_ns);
        }
        trend
    }

    #[test]
    fn latencies_rise_if_the_server_cannot_keep_the_rate() {
        for (rate, capacity, latency_ms, rose) in [
            (100, 1_000, 5, false),
            // Slow, but it keeps up.
            (100, 1_000, 2_000, false),
            (100, 100, 50, false),
            // A run of three seconds cannot tell.
            (100, 99, 5, false),
            (100, 95, 5, true),
            (105, 95, 50, true),
            (275, 95, 5, true),
            (2_000, 1_000, 1, true),
            // Too few to tell.
            (5, 2, 100, false),
        ] {
            let found = run(rate, capacity, latency_ms * MS).rose(RUN_NS);
            assert_eq!(
                found.is_some(),
                rose,
                "{rate} {capacity} {latency_ms}: {found:?}"
            );
        }
    }
}
