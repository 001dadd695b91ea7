//! When a breaker opens, for how long, and how it comes back.

use crate::health::Backoff;
use std::time::Duration;

/// The largest number of probes in flight that can be configured.
pub const PROBES_MAX: u8 = 16;

/// When a breaker opens, for how long, and how it comes back. The terms are those of resilience4j.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The length of the sliding window.
    pub window: Duration,
    /// With fewer requests in the window, no ratio opens the breaker.
    pub min_requests: u32,
    /// Opens when this share of the requests in the window failed, from 0 to 1. `None`: never.
    pub failure_ratio: Option<f64>,
    /// Opens when this share of the requests in the window was slow. `None`: never.
    pub slow: Option<Slow>,
    /// Opens after this many failures in a row, however few requests there were. `None`: never.
    pub consecutive_failures: Option<u32>,
    /// How long it stays open: the first time, and the longest after doubling.
    pub open_for: Backoff,
    /// Probes in flight at once while half-open, from 1 to [`PROBES_MAX`].
    pub probes: u8,
    /// Probes that must succeed before it recovers; at least 1.
    pub probe_successes: u32,
    /// A probe without a report after this time has failed.
    pub probe_timeout: Duration,
    /// How long the share of admitted requests takes to rise to all of them. Zero closes at once.
    pub recovery: Duration,
}

/// What a slow request is, and which share of them is too large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slow {
    /// A request is slow when it takes longer.
    pub after: Duration,
    /// The share of slow requests in the window, from 0 to 1, that is too large.
    pub ratio: f64,
}

impl Default for Settings {
    /// Half of at least twenty requests in ten seconds, closed again after five seconds or more.
    fn default() -> Self {
        Self {
            window: Duration::from_secs(10),
            min_requests: 20,
            failure_ratio: Some(0.5),
            slow: None,
            consecutive_failures: None,
            open_for: Backoff {
                first: Duration::from_secs(5),
                max: Duration::from_secs(60),
            },
            probes: 3,
            probe_successes: 5,
            probe_timeout: Duration::from_secs(10),
            recovery: Duration::from_secs(10),
        }
    }
}
