//! What one trial says about the server: it keeps its promises, it breaks them, or nothing.
//!
//! Whatever the generator adds only makes latencies longer. So a trial that kept the promises counts, however busy the
//! generator was. A trial that broke them counts only if the generator was not the limit.

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

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trial {
    Kept,
    /// Which promise, and how.
    Broken(String),
    /// Why it says nothing.
    SaysNothing(String),
}

impl Trial {
    pub(super) fn of(report: &Report, promises: &[Promise]) -> Self {
        if let Some(why) = audit::nothing_measured(report) {
            return Self::SaysNothing(why);
        }
        let broken = promises
            .iter()
            .filter_map(|promise| promise.broken_by(report));
        let broken: Vec<_> = broken.collect();
        let not_sent = audit::not_sent(report);
        if broken.is_empty() && not_sent.is_none() {
            return Self::Kept;
        }
        if let Some(why) = audit::generator_limit(report) {
            return Self::SaysNothing(why);
        }
        match not_sent {
            None => Self::Broken(broken.join(", ")),
            // More connections might have been answered in time, unless the server held these too long.
            Some(why) => {
                held_too_long(report, promises).map_or(Self::SaysNothing(why), Self::Broken)
            }
        }
    }
}

/// Says so if the rate could not be sent because the server held every connection longer than a promise allows. A
/// server that keeps its promises frees connections sooner.
fn held_too_long(report: &Report, promises: &[Promise]) -> Option<String> {
    let bounds = promises.iter().filter_map(|promise| match promise {
        Promise::Latency { within, .. } => Some(*within),
        Promise::Errors(_) => None,
    });
    let bound = bounds.min().unwrap_or(report.plan.timeout);
    let held_s = report.plan.at_once() as f64 * report.seconds / report.sent.max(1) as f64;
    let held_ns = (held_s * 1e9) as u64;
    (audit::waited_for_connections(report) && held_s >= bound.as_secs_f64()).then(|| {
        format!(
            "each request held a connection for {} on average",
            show(held_ns)
        )
    })
}

impl Promise {
    /// How the promise was broken, if it was.
    pub(super) fn broken_by(&self, report: &Report) -> Option<String> {
        match *self {
            Self::Latency { quantile, within } => {
                let name = format!("p{}", (quantile * 1e5).round() / 1e3);
                match latency_of_all(report, quantile) {
                    None => Some(format!("{name}: no good answer")),
                    Some(found) => (u128::from(found) > within.as_nanos())
                        .then(|| format!("{name} {}", show(found))),
                }
            }
            Self::Errors(most) => {
                let all = report.requests();
                let part = (all - report.outcomes.good()) as f64 / all.max(1) as f64;
                (all == 0 || part > most).then(|| format!("errors {:.2} %", part * 100.0))
            }
        }
    }
}

/// Nanoseconds within which this part of all requests had a good answer. `None`: fewer of them ever had one. Quantiles
/// of the good answers alone would make a server look faster the more requests it fails.
fn latency_of_all(report: &Report, quantile: f64) -> Option<u64> {
    let good = report.outcomes.good_latency_ns();
    let rank = (quantile * report.requests() as f64).ceil().max(1.0);
    // Half a rank less, so that a rounding error does not ask for the next one.
    (rank <= good.len() as f64).then(|| good.value_at_quantile((rank - 0.5) / good.len() as f64))
}

#[cfg(test)]
mod tests;
