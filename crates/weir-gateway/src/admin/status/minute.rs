//! The last minute's part of `/status`.

use serde::Serialize;

use crate::admin::history::tally::Tally;
use crate::admin::history::{History, Second};
use crate::admin::status::{NamedCounts, by_class};

/// All requests of the last minute, second by second.
#[derive(Debug, Serialize)]
pub(super) struct Minute {
    /// Less than a minute where the gateway has not run for so long.
    covers_ms: u64,
    /// The oldest first.
    seconds: Vec<Second>,
}

/// The last minute of a route.
#[derive(Debug, Serialize)]
pub(super) struct RouteMinute {
    /// The sum of `responses`.
    requests: u64,
    responses: NamedCounts,
    /// Estimates; `None`: no request ended.
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    /// Turned away by a limit or a breaker.
    refused: u64,
    /// The other ones of 5xx.
    failed: u64,
    failures: Vec<FailureCount>,
    /// Those of `failures` whose client got something else.
    fallbacks: u64,
    /// `None`: it has no cache.
    cache: Option<CacheMinute>,
}

/// How often something failed for one reason.
#[derive(Debug, Serialize)]
struct FailureCount {
    reason: &'static str,
    fault: &'static str,
    refused: bool,
    count: u64,
}

/// What the cache did for a route.
#[derive(Debug, Serialize)]
struct CacheMinute {
    #[serde(flatten)]
    counts: NamedCounts,
    misses: NamedCounts,
    not_stored: NamedCounts,
}

/// The last minute of an endpoint.
#[derive(Debug, Serialize)]
pub(super) struct EndpointMinute {
    /// The sum of `responses`.
    requests: u64,
    responses: NamedCounts,
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    /// Connections that did not stand.
    failures: u64,
    /// Requests that were sent again after it.
    retries: u64,
}

impl Minute {
    pub(super) fn read(history: &History) -> Self {
        Self {
            covers_ms: history.covers_ms(),
            seconds: history.seconds().collect(),
        }
    }
}

impl RouteMinute {
    pub(super) fn of(tally: &Tally, caches: bool) -> Self {
        let failures = tally.failures().into_iter();
        let failures = failures.map(|(failure, count)| FailureCount {
            reason: failure.name(),
            fault: failure.fault().name(),
            refused: failure.is_turned_away(),
            count,
        });
        let mut failures: Vec<_> = failures.collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        let cache = CacheMinute {
            counts: NamedCounts(tally.cached()),
            misses: NamedCounts(tally.misses()),
            not_stored: NamedCounts(tally.not_stored()),
        };
        Self {
            requests: tally.requests(),
            responses: by_class(tally.responses()),
            p50_us: tally.quantile_us(0.5),
            p99_us: tally.quantile_us(0.99),
            refused: tally.refused(),
            failed: tally.failed(),
            failures,
            fallbacks: tally.fallbacks(),
            cache: caches.then_some(cache),
        }
    }
}

impl EndpointMinute {
    pub(super) fn of(tally: &Tally) -> Self {
        Self {
            requests: tally.requests(),
            responses: by_class(tally.responses()),
            p50_us: tally.quantile_us(0.5),
            p99_us: tally.quantile_us(0.99),
            failures: tally.connect_failures(),
            retries: tally.retries(),
        }
    }
}
