//! What one trial says about the server: it keeps its promises, it breaks them, or nothing.
//!
//! Whatever the generator adds only makes latencies longer. So a trial that kept the promises counts, however busy the
//! generator was. A trial that broke them counts if the generator was not the limit, or if they are broken also by the reading
//! that is most favourable to the server.

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
        if broken.is_empty() && not_sent.is_none() && audit::is_load_made(report) {
            return Self::Kept;
        }
        if let Some(why) = audit::generator_limit(report) {
            let certainly = promises.iter().filter(|it| it.is_certainly_broken(report));
            let certainly: Vec<String> = certainly.map(|it| it.judge(report).words).collect();
            return if certainly.is_empty() {
                Self::SaysNothing(why)
            } else {
                Self::Broken(certainly.join("; "))
            };
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

impl Trial {
    /// A rate is none that the server can answer if it falls behind: the promises hold only because the trial is short.
    pub(super) fn unless_it_falls_behind(self, report: &Report) -> Self {
        match (self, report.fell_behind()) {
            (Self::Kept, Some((first, last))) => Self::Broken(format!(
                "it answered less than it was sent: the median latency rose from {} to {} during the trial",
                show(first),
                show(last)
            )),
            (trial, _) => trial,
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
    let sent_in_time = report.sent.saturating_sub(report.sent_after_end());
    let held_s = report.plan.at_once() as f64 * report.seconds / sent_in_time.max(1) as f64;
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
