//! What a server promises, and whether a run kept it.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::audit;
use crate::report::{Report, show};

/// What a server promises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// This part of the requests has a good answer within this time.
    Latency {
        /// From 0 to 1.
        quantile: f64,
        /// At most.
        within: Duration,
    },
    /// At most this part of the requests, from 0 to 1, has no good answer.
    Errors(f64),
}

/// What became of a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whether it was kept.
    pub is_kept: bool,
    /// The figure, with the promise: `p99 34.0ms, promised 10.0ms`.
    pub words: String,
}

impl Promise {
    /// What `report` says of it. Requests that were due and never sent count as such that had no answer.
    pub fn judge(&self, report: &Report) -> Found {
        let all = report.requests() + report.not_sent;
        let (is_kept, found) = match *self {
            Self::Latency { quantile, within } => match latency_of_all(report, all, quantile) {
                None => (false, "beyond all good answers".to_owned()),
                Some(found) => {
                    let mut words = show(found);
                    if quantile < 1.0 && rank_of(quantile, all) >= all as f64 {
                        let _ = write!(words, " (the slowest of {all} requests)");
                    }
                    (u128::from(found) <= within.as_nanos(), words)
                }
            },
            Self::Errors(most) => {
                let part = (all - report.outcomes.good()) as f64 / all.max(1) as f64;
                (all > 0 && part <= most, format!("{:.2} %", part * 100.0))
            }
        };
        let words = format!("{} {found}, promised {}", self.name(), self.limit());
        Found { is_kept, words }
    }

    /// Whether it is broken by the reading of `report` that is most favourable to the server. What was never sent is none of
    /// the server's here.
    pub(crate) fn is_certainly_broken(&self, report: &Report) -> bool {
        let all = report.requests() as f64;
        let (within, bad_max) = match *self {
            Self::Latency { quantile, within } => {
                (within, all - rank_of(quantile, report.requests()))
            }
            Self::Errors(most) => (Duration::MAX, most * all),
        };
        let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        audit::certainly_bad(report, within_ns) as f64 > bad_max
    }

    fn name(&self) -> String {
        match self {
            Self::Latency { quantile, .. } => format!("p{}", (quantile * 1e5).round() / 1e3),
            Self::Errors(_) => "errors".to_owned(),
        }
    }

    fn limit(&self) -> String {
        match self {
            Self::Latency { within, .. } => show(within.as_nanos() as u64),
            Self::Errors(most) => format!("{:.2} %", most * 100.0),
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.limit())
    }
}

/// Nanoseconds within which this part of `all` requests had a good answer. `None`: fewer of them ever had one. Quantiles
/// of the good answers alone would make a server look faster the more requests it fails.
fn latency_of_all(report: &Report, all: u64, quantile: f64) -> Option<u64> {
    let good = report.outcomes.good_latency_ns();
    let rank = rank_of(quantile, all);
    // Half a rank less, so that a rounding error does not ask for the next one.
    (rank <= good.len() as f64).then(|| good.value_at_quantile((rank - 0.5) / good.len() as f64))
}

/// The place of a quantile among `all` requests in the order of their latencies, from 1.
fn rank_of(quantile: f64, all: u64) -> f64 {
    (quantile * all as f64).ceil().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::report::tests::report;

    /// A request without a good answer is never in time, however fast it failed; one that was never sent neither.
    #[test]
    fn quantiles_are_those_of_all_requests() {
        let ended = |good: usize, (outcome, bad): (Outcome, usize), not_sent| {
            let good = std::iter::repeat_n((Outcome::Success, 5_000_000), good);
            let bad = std::iter::repeat_n((outcome, 1_000), bad);
            Report {
                not_sent,
                ..report(&good.chain(bad).collect::<Vec<_>>())
            }
        };
        let within = Duration::from_millis(10);
        let none = (Outcome::Success, 0);
        for (quantile, good, others, not_sent, is_kept) in [
            (0.99, 100, none, 0, true),
            (0.99, 99, (Outcome::Timeout, 1), 0, true),
            (0.99, 98, (Outcome::Timeout, 2), 0, false),
            (0.99, 98, (Outcome::ServerError, 2), 0, false),
            (0.99, 98, (Outcome::Redirection, 2), 0, true),
            (0.9, 90, (Outcome::Refused, 10), 0, true),
            (0.9, 89, (Outcome::Refused, 11), 0, false),
            (1.0, 999, (Outcome::Reset, 1), 0, false),
            (0.0, 1, (Outcome::Reset, 9), 0, true),
            (0.5, 0, (Outcome::Timeout, 9), 0, false),
            (0.5, 0, none, 0, false),
            (0.9, 90, none, 10, true),
            (0.9, 89, none, 11, false),
        ] {
            let promise = Promise::Latency { quantile, within };
            let found = promise.judge(&ended(good, others, not_sent));
            assert_eq!(found.is_kept, is_kept, "{quantile}: {found:?}");
        }
        let found = Promise::Errors(0.1).judge(&ended(80, none, 20));
        assert_eq!(found.words, "errors 20.00 %, promised 10.00 %");
        assert!(!found.is_kept);
    }
}
