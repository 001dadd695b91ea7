//! What one trial says about the server: it keeps its promises, it breaks them, or nothing.
//!
//! Whatever the generator adds only makes latencies longer. So a trial that kept the promises counts, however busy the
//! generator was. A trial that broke them counts only if the generator was not the limit.

use crate::audit;
use crate::promise::Promise;
use crate::report::{Report, show};

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trial {
    Kept,
    /// Which promise, and how.
    Broken(String),
    /// Why it says nothing.
    SaysNothing(String),
}

impl Trial {
    pub(crate) fn of(report: &Report, promises: &[Promise]) -> Self {
        if let Some(why) = audit::nothing_measured(report) {
            return Self::SaysNothing(why);
        }
        let found = promises.iter().map(|promise| promise.judge(report));
        let broken = found.filter(|found| !found.is_kept);
        let broken: Vec<String> = broken.map(|found| found.words).collect();
        let not_sent = audit::not_sent(report);
        if broken.is_empty() && not_sent.is_none() {
            return Self::Kept;
        }
        if let Some(why) = audit::generator_limit(report) {
            return Self::SaysNothing(why);
        }
        let Some(why) = not_sent else {
            return Self::Broken(broken.join("; "));
        };
        // More connections might have been answered in time, unless the server held these too long.
        match audit::server_limit(report).or_else(|| held_too_long(report, promises)) {
            Some(limit) => Self::Broken([broken, vec![limit]].concat().join("; ")),
            None => Self::SaysNothing(why),
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

#[cfg(test)]
mod tests;
