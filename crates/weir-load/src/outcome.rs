//! What became of a request. Each kind has its own latencies: a fast rejection must not make a server look fast.

use hdrhistogram::Histogram;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// A 2xx response, read to its end.
    Success,
    /// 3xx.
    Redirection,
    /// 4xx.
    ClientError,
    /// 5xx.
    ServerError,
    /// The connection was not accepted.
    Refused,
    /// The connection ended, or what came was not HTTP, before the response was whole.
    Reset,
    /// The response was not whole in time.
    Timeout,
}

impl Outcome {
    /// All outcomes, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Refused,
        Self::Reset,
        Self::Timeout,
    ];

    /// The outcome of a final response with this status. A status beyond 599 never gets here, and 101 is no answer to
    /// a request without an upgrade.
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            _ => Self::Reset,
        }
    }

    /// The name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
        }
    }

    /// Whether it counts as an answer: goodput is made of these.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Success | Self::Redirection)
    }
}

/// Counts and latencies by outcome, for a run or a part of one. Merging is exact.
#[derive(Debug, Clone)]
pub struct Outcomes {
    /// Nanoseconds from the intended sending to the end of the outcome, three significant digits, by [`Outcome::ALL`].
    by_outcome: [Histogram<u64>; Outcome::ALL.len()],
}

impl Default for Outcomes {
    fn default() -> Self {
        Self {
            by_outcome: std::array::from_fn(|_| histogram()),
        }
    }
}

impl Outcomes {
    /// Adds an outcome that took `latency_ns`.
    pub fn record(&mut self, outcome: Outcome, latency_ns: u64) {
        record(&mut self.by_outcome[outcome as usize], latency_ns);
    }

    /// How many requests ended like this.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.by_outcome[outcome as usize].len()
    }

    /// How many requests ended.
    pub fn total(&self) -> u64 {
        self.by_outcome.iter().map(Histogram::len).sum()
    }

    /// How many of them were answers.
    pub fn good(&self) -> u64 {
        let good = Outcome::ALL.into_iter().filter(|outcome| outcome.is_good());
        good.map(|outcome| self.count(outcome)).sum()
    }

    /// The latencies of one kind, in nanoseconds.
    pub fn latency_ns(&self, outcome: Outcome) -> &Histogram<u64> {
        &self.by_outcome[outcome as usize]
    }

    /// The latencies of good answers, 2xx and 3xx together, in nanoseconds.
    pub fn good_latency_ns(&self) -> Histogram<u64> {
        let mut merged = histogram();
        for outcome in Outcome::ALL {
            if outcome.is_good() {
                merge(&mut merged, self.latency_ns(outcome));
            }
        }
        merged
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.by_outcome.iter_mut().zip(&other.by_outcome) {
            merge(own, other);
        }
    }

    /// Forgets everything but keeps the memory.
    pub fn clear(&mut self) {
        for histogram in &mut self.by_outcome {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
    }
}

/// An empty histogram of nanoseconds that grows as needed.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three significant digits are allowed")
}

pub(crate) fn record(histogram: &mut Histogram<u64>, nanoseconds: u64) {
    histogram
        .record(nanoseconds)
        .expect("a histogram that grows takes every value");
}

pub(crate) fn merge(into: &mut Histogram<u64>, other: &Histogram<u64>) {
    if !other.is_empty() {
        into.add(other)
            .expect("a histogram that grows takes every value");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_is_exact_and_kinds_stay_apart() {
        let (mut whole, mut first, mut second) = (
            Outcomes::default(),
            Outcomes::default(),
            Outcomes::default(),
        );
        for value in 1..20_000_u64 {
            let latency = value * value;
            let outcome = Outcome::ALL[value as usize % Outcome::ALL.len()];
            whole.record(outcome, latency);
            let part = if value % 3 == 0 {
                &mut first
            } else {
                &mut second
            };
            part.record(outcome, latency);
        }
        first.merge(&second);
        for outcome in Outcome::ALL {
            assert_eq!(first.latency_ns(outcome), whole.latency_ns(outcome));
        }
        assert_eq!(first.total(), 19_999);
        assert_eq!(
            first.good(),
            first.count(Outcome::Success) + first.count(Outcome::Redirection)
        );
        assert_eq!(first.good_latency_ns().len(), first.good());
        first.clear();
        assert_eq!(first.total(), 0);
    }

    #[test]
    fn a_status_is_its_class() {
        for (status, outcome) in [
            (200, Outcome::Success),
            (204, Outcome::Success),
            (304, Outcome::Redirection),
            (404, Outcome::ClientError),
            (599, Outcome::ServerError),
            (101, Outcome::Reset),
        ] {
            assert_eq!(Outcome::of_status(status), outcome, "{status}");
        }
    }
}
