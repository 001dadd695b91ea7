//! The figures of a run. The modules below write them in their forms.

mod csv;
mod hdr_log;
mod json;
mod text;

use std::sync::Arc;

use hdrhistogram::Histogram;

use crate::arrivals::Arrivals;
use crate::audit::Usage;
use crate::held::Held;
use crate::lapse::Lapse;
use crate::outcome::Outcomes;
use crate::overrun::Overrun;
use crate::plan::{End, Plan};
use crate::trend::Trend;

pub use text::show;

/// The percentiles that every form of a report shows, by name.
pub const PERCENTILES: &[(&str, f64)] = &[
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
];

/// What a run measured, and whether it may be believed.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was asked for.
    pub plan: Arc<Plan>,
    /// Seconds since the epoch at which counting began.
    pub started_unix: f64,
    /// The time that rates are over: the planned one, or until the run was told to end; for a number of requests, until the
    /// last one ended.
    pub seconds: f64,
    /// All that ended, each counted once.
    pub outcomes: Outcomes,
    /// The outcomes of each second or so.
    pub intervals: Vec<Interval>,
    /// Failed or slow requests, by when they were due.
    pub lapses: Vec<Lapse>,
    /// How long requests were held by the server, with few and with all connections in use; open loop only.
    pub held: Held,
    /// Latencies at the beginning and at the end of the run; open loop only.
    pub trend: Trend,
    /// Requests sent, or tried.
    pub sent: u64,
    /// Planned requests that were never sent, because an open loop could not follow its schedule.
    pub not_sent: u64,
    /// Requests that were sent late because every connection was busy.
    pub sent_late: u64,
    /// What each thread of an open loop sent after the end of its schedule.
    pub overruns: Vec<Overrun>,
    /// Requests in flight when the run was told to end.
    pub abandoned: u64,
    /// Requests that ended after the planned time was over. Their latencies count like all others. They are in no rate, since
    /// that time is not in `seconds`.
    pub overtime: u64,
    /// The good answers among [`Report::overtime`].
    pub overtime_good: u64,
    /// Whether the run was told to end before its time.
    pub is_cut_short: bool,
    /// Nanoseconds by which the generator itself sent late; open loop only.
    pub lag_ns: Histogram<u64>,
    /// Bytes received, warm-up included.
    pub bytes_received: u64,
    /// Attempts to connect that failed on this machine: no port or descriptor was left.
    pub local_failures: u64,
    /// What each thread used while requests were sent.
    pub usage: Vec<Usage>,
    /// CPU time of all threads from the first counted request to the end of the last one.
    pub generator_cpu_s: f64,
    /// Why the figures are not the server's, in whole sentences. The run is valid when there are none.
    pub why_invalid: Vec<String>,
    /// How the server, and not the generator, kept the planned load from being sent; a whole sentence. Such a run is valid.
    pub server_limit: Option<String>,
    /// What is in the figures besides the server's own time, in whole sentences.
    pub remarks: Vec<String>,
}

/// A part of a run.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Seconds after counting began.
    pub from_s: f64,
    /// The end, likewise.
    pub to_s: f64,
    /// What ended in it.
    pub outcomes: Outcomes,
}

impl Report {
    /// All requests that ended, in any way.
    pub fn requests(&self) -> u64 {
        self.outcomes.total()
    }

    /// Requests that ended within the time, per second.
    pub fn rate(&self) -> f64 {
        self.per_second(self.requests() - self.overtime)
    }

    /// Answers, 2xx and 3xx, within the time, per second.
    pub fn goodput(&self) -> f64 {
        self.per_second(self.outcomes.good() - self.overtime_good)
    }

    /// What kept the load from being the planned one, if anything did: `generator` or `server`.
    pub fn limit(&self) -> Option<&'static str> {
        match (self.is_valid(), &self.server_limit) {
            (false, _) => Some("generator"),
            (true, Some(_)) => Some("server"),
            (true, None) => None,
        }
    }

    /// Requests that an open loop planned to send.
    pub fn planned(&self) -> Option<u64> {
        (!self.plan.arrivals.is_closed()).then_some(self.sent + self.not_sent)
    }

    /// Requests of [`Report::sent`] that were sent after the end of their schedule.
    pub fn sent_after_end(&self) -> u64 {
        self.overruns.iter().map(|overrun| overrun.requests).sum()
    }

    /// The median latencies of the first third of the run and of the last one, if they rose as those of a server that answers
    /// less than it is sent. Rates that are meant to rise say nothing of the kind.
    pub fn fell_behind(&self) -> Option<(u64, u64)> {
        let lasts = match (&self.plan.arrivals, self.plan.end) {
            (Arrivals::Closed | Arrivals::Ramp { .. } | Arrivals::Steps(_), _) => return None,
            (_, End::After(lasts)) => lasts.as_nanos() as u64,
            (arrivals, End::Requests(all)) => arrivals.lasts_ns(all),
        };
        self.trend.rose(lasts).filter(|_| !self.is_cut_short)
    }

    /// Whether the figures are the server's.
    pub fn is_valid(&self) -> bool {
        self.why_invalid.is_empty()
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 {
            count as f64 / self.seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
