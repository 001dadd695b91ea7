//! The part of `/status` that is about refusing: breakers, places in upstreams, checks, and who stands out.

use std::time::{Duration, Instant};

use serde::Serialize;
use weir_policy::breaker::{Counts, Status};
use weir_policy::ejection::{Place, Reason};

use crate::admin::status::shown::Shown;
use crate::state::breaker::SharedBreaker;
use crate::state::endpoint::EndpointState;
use crate::state::gate::Gate;
use crate::state::watch::Watch;

/// `closed`, `open`, `half-open` or `recovering`, and what that state has.
#[derive(Debug, Serialize)]
pub(super) struct BreakerStatus {
    /// The one that it is for, where its route has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upstream: Option<String>,
    state: &'static str,
    /// How long it has been in that state.
    for_ms: u64,
    /// All since the start.
    openings: u64,
    #[serde(flatten)]
    pub(super) details: Details,
    pub(super) shown: Shown,
}

/// What a breaker's state has.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Details {
    Closed(InWindow),
    Open {
        remaining_ms: u64,
    },
    HalfOpen {
        /// Probes that have no answer yet.
        in_flight: u32,
        /// Good ones so far.
        successes: u32,
    },
    Recovering {
        /// Of the requests, that which it lets through.
        share: f64,
        #[serde(flatten)]
        counts: InWindow,
    },
}

/// The counts in a breaker's window.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct InWindow {
    requests: u32,
    failures: u32,
    slow: u32,
}

/// The limit of an upstream.
#[derive(Debug, Serialize)]
pub(super) struct Concurrency {
    pub(super) limit: u32,
    pub(super) in_flight: u32,
    streams: u32,
    waiting: usize,
    overloaded: bool,
    /// Only an adaptive limit learns it.
    base_latency_us: Option<u64>,
}

/// The watch over the endpoints of an upstream.
#[derive(Debug, Serialize)]
pub(super) struct EjectionStatus {
    /// Whether so many look bad that all are used.
    pub(super) suspended: bool,
}

/// What the checks of an endpoint say.
#[derive(Debug, Serialize)]
pub(super) struct Checks {
    pub(super) up: bool,
    /// Why the last one was bad, if it was.
    pub(super) error: Option<String>,
}

/// Where an endpoint stands among its siblings: `in`, `out`, `trial` or `rising`.
#[derive(Debug, Serialize)]
pub(super) struct Position {
    pub(super) state: &'static str,
    /// All since the start.
    ejections: u64,
    /// That of the last.
    pub(super) reason: Option<&'static str>,
    /// While it is `out`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remaining_ms: Option<u64>,
    /// While it is `rising`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<f64>,
}

impl BreakerStatus {
    pub(super) fn read(breaker: &SharedBreaker, now: Instant) -> Self {
        let (status, since) = breaker.status_since(now);
        let for_ms = millis(now.saturating_duration_since(since));
        let details = match status {
            Status::Closed(counts) => Details::Closed(InWindow::of(counts)),
            Status::Open { remaining, .. } => Details::Open {
                remaining_ms: millis(remaining),
            },
            Status::HalfOpen {
                in_flight,
                successes,
            } => Details::HalfOpen {
                in_flight,
                successes,
            },
            Status::Recovering { share, counts } => Details::Recovering {
                share: hundredths(share),
                counts: InWindow::of(counts),
            },
        };
        Self {
            upstream: None,
            state: status.as_str(),
            for_ms,
            openings: breaker.openings(),
            shown: Shown::of_breaker(&details, for_ms),
            details,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.details, Details::Closed(_))
    }
}

impl InWindow {
    fn of(counts: Counts) -> Self {
        Self {
            requests: counts.requests,
            failures: counts.failures,
            slow: counts.slow,
        }
    }
}

impl Concurrency {
    pub(super) fn read(gate: &Gate, now: Instant) -> Self {
        let status = gate.status(now);
        let base = status.base_latency;
        Self {
            limit: status.limit,
            in_flight: status.in_flight,
            streams: status.streams,
            waiting: status.waiting,
            overloaded: status.is_overloaded,
            base_latency_us: base.map(|base| base.as_micros() as u64),
        }
    }
}

impl EjectionStatus {
    pub(super) fn read(watch: &Watch) -> Self {
        Self {
            suspended: watch.is_suspended(),
        }
    }
}

impl Checks {
    /// `None` for an endpoint that was not checked yet.
    pub(super) fn read(state: &EndpointState) -> Option<Self> {
        let last = state.checked.last()?;
        Some(Self {
            up: state.health.is_checked_up(),
            error: last.err(),
        })
    }
}

impl Position {
    pub(super) fn read(watch: &Watch, endpoint: usize, now: Instant) -> Self {
        let status = watch.status(endpoint, now);
        let (state, remaining, share) = match status.place {
            Place::In => ("in", None, None),
            Place::Out(remaining) => ("out", Some(remaining), None),
            Place::Trial => ("trial", None, None),
            Place::Rising(share) => ("rising", None, Some(share)),
        };
        Self {
            state,
            ejections: status.ejections_total,
            reason: status.reason.map(Reason::as_str),
            remaining_ms: remaining.map(millis),
            share: share.map(hundredths),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

fn hundredths(share: f64) -> f64 {
    (share * 100.0).round() / 100.0
}
