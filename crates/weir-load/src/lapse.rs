//! Requests that failed or were slow, by when they were due: an answer that comes seconds late says when it came, and what
//! is asked of a fault is whom it met.

use std::collections::BTreeMap;

use crate::outcome::Outcome;

/// A good answer that takes longer is slow.
pub const SLOW_NS: u64 = 1_000_000_000;
/// How finely the time is divided.
const WIDTH_NS: u64 = 10_000_000;

/// Those that were due in the same hundredth of a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lapse {
    /// Seconds after counting began.
    pub due_s: f64,
    /// Ended otherwise than with 2xx or 3xx.
    pub failed: u64,
    /// Answered so, but later than [`SLOW_NS`] after they were due.
    pub slow: u64,
}

/// All of a run, or of a part of one: no more than the run has hundredths of a second.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lapses(BTreeMap<u64, Counts>);

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    failed: u64,
    slow: u64,
}

impl Lapses {
    /// Notes a request that was due at `due_ns` of the run's clock, if it is one of these.
    pub(crate) fn note(&mut self, due_ns: u64, outcome: Outcome, latency_ns: u64) {
        if outcome.is_good() && latency_ns <= SLOW_NS {
            return;
        }
        let counts = self.0.entry(due_ns / WIDTH_NS).or_default();
        if outcome.is_good() {
            counts.slow += 1;
        } else {
            counts.failed += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (slot, other) in &other.0 {
            let counts = self.0.entry(*slot).or_default();
            counts.failed += other.failed;
            counts.slow += other.slow;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// In the order of time, which counts from `counted_from_ns`.
    pub(crate) fn since(&self, counted_from_ns: u64) -> Vec<Lapse> {
        let slots = self.0.iter().map(|(slot, counts)| Lapse {
            due_s: (slot * WIDTH_NS).saturating_sub(counted_from_ns) as f64 / 1e9,
            failed: counts.failed,
            slow: counts.slow,
        });
        slots.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_failed_or_was_slow_is_kept_and_by_when_it_was_due() {
        const S: u64 = 1_000_000_000;
        let (mut lapses, mut other) = (Lapses::default(), Lapses::default());
        lapses.note(5 * S, Outcome::Success, SLOW_NS);
        lapses.note(6 * S, Outcome::Success, SLOW_NS + 1);
        lapses.note(6 * S, Outcome::ServerError, 1);
        other.note(6 * S, Outcome::Timeout, 20 * S);
        other.note(5 * S, Outcome::ClientError, 1);
        lapses.merge(&other);
        let lapse = |due_s, failed, slow| Lapse {
            due_s,
            failed,
            slow,
        };
        assert_eq!(lapses.since(4 * S), [lapse(1.0, 1, 0), lapse(2.0, 2, 1)]);
    }
}
