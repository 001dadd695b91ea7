//! When an endpoint stands out, and for how long it leaves.

use crate::health::Backoff;
use std::time::Duration;

/// When an endpoint stands out, and for how long it leaves. Whatever the settings, it stays while what it shows may be
/// chance, or is shown by its siblings too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The largest share of the endpoints that may be out at once, from 0 (none ever) to 1. Of two or more endpoints,
    /// one may always be out and one always stays.
    pub max_ejected: f64,
    /// It may leave after this many failures in a row. `None`: never for that.
    pub consecutive_failures: Option<u32>,
    /// The time over which failures are counted.
    pub window: Duration,
    /// With fewer requests in the window, shares are not compared.
    pub min_requests: u32,
    /// It leaves when this share of its requests failed, from 0 to 1, and its siblings failed at most a third as much.
    pub failure_share: f64,
    /// It leaves when its share of successes is this many standard deviations below the mean. It must also be at least
    /// a twentieth below, and at least `sigma_endpoints_min` endpoints must have enough requests.
    pub sigma: f64,
    /// Statistics over fewer endpoints mean nothing.
    pub sigma_endpoints_min: usize,
    /// It leaves when its median latency is this many times the median of the endpoints ...
    pub slow_factor: f64,
    /// ... and longer than this.
    pub slow_min: Duration,
    /// It leaves when at least `silent_requests` wait for longer than this, or than `slow_factor` medians if that is
    /// more, and it has answered nothing for as long. This does not hold when no endpoint has answered lately, nor when
    /// the time is over a minute.
    pub silent_min: Duration,
    /// See `silent_min`.
    pub silent_requests: u32,
    /// How long it leaves: the first time, and the longest after doubling.
    pub eject_for: Backoff,
    /// Good answers on trial that bring it back; at least 1.
    pub trial_successes: u32,
    /// How long its share then takes to rise to all.
    pub slow_start: Duration,
}

impl Default for Settings {
    /// The figures are Envoy's where it has them, with two exceptions. Half of the endpoints may leave instead of a
    /// tenth, so that one of three can go. They leave for at most thirteen seconds instead of five minutes, so that a
    /// healthy endpoint is found within fifteen.
    fn default() -> Self {
        Self {
            max_ejected: 0.5,
            consecutive_failures: Some(5),
            window: Duration::from_secs(5),
            min_requests: 10,
            failure_share: 0.3,
            sigma: 1.9,
            sigma_endpoints_min: 5,
            slow_factor: 5.0,
            slow_min: Duration::from_millis(100),
            silent_min: Duration::from_millis(300),
            silent_requests: 3,
            eject_for: Backoff {
                first: Duration::from_secs(5),
                max: Duration::from_secs(13),
            },
            trial_successes: 3,
            slow_start: Duration::from_secs(1),
        }
    }
}
