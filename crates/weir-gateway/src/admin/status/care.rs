//! The part of `/status` that is about refusing: breakers, places in upstreams, checks, and who stands out.

use std::time::{Duration, Instant};

use weir_policy::breaker::{Counts, Status};
use weir_policy::ejection::Place;

use crate::admin::status::{list, object, quoted};
use crate::state::breaker::SharedBreaker;
use crate::state::gate::Gate;
use crate::state::snapshot::{EndpointState, RouteState};
use crate::state::watch::Watch;

/// `[{"route", "breaker"}]`, the routes that have a breaker.
pub(super) fn routes(routes: &[RouteState], now: Instant) -> String {
    let with_breaker = routes.iter().filter(|route| route.breaker.is_some());
    list(with_breaker.map(|route| {
        object([
            ("route", quoted(&route.settings.name)),
            ("breaker", breaker(route.breaker.as_deref(), now)),
        ])
    }))
}

/// `null` without a breaker, else `{"state", "openings"}` and what its state has: `closed` and `recovering` have
/// `"requests", "failures", "slow"`, the counts in the window; `recovering` has `"share"` too, of the requests that it lets
/// through; `open` has `"remaining_ms"`, `half-open` the probes `"in_flight"` and the `"successes"` so far. `openings` are
/// all since the start.
pub(super) fn breaker(breaker: Option<&SharedBreaker>, now: Instant) -> String {
    let Some(breaker) = breaker else {
        return "null".to_owned();
    };
    let status = breaker.status(now);
    let mut members = vec![
        ("state", quoted(status.as_str())),
        ("openings", breaker.openings().to_string()),
    ];
    match status {
        Status::Closed(counts) => members.extend(in_window(counts)),
        Status::Open { remaining, .. } => members.push(("remaining_ms", millis(remaining))),
        Status::HalfOpen {
            in_flight,
            successes,
        } => members.extend([
            ("in_flight", in_flight.to_string()),
            ("successes", successes.to_string()),
        ]),
        Status::Recovering { share, counts } => {
            members.push(("share", hundredths(share)));
            members.extend(in_window(counts));
        }
    }
    object(members)
}

fn in_window(counts: Counts) -> [(&'static str, String); 3] {
    [
        ("requests", counts.requests.to_string()),
        ("failures", counts.failures.to_string()),
        ("slow", counts.slow.to_string()),
    ]
}

/// `null` for an upstream that takes any number of requests, else `{"limit", "in_flight", "streams", "waiting",
/// "overloaded", "base_latency_us"}`; the last is `null` unless the limit is adaptive and knows it.
pub(super) fn gate(gate: Option<&Gate>, now: Instant) -> String {
    let Some(status) = gate.map(|gate| gate.status(now)) else {
        return "null".to_owned();
    };
    let base = status.base_latency.map(|base| base.as_micros().to_string());
    object([
        ("limit", status.limit.to_string()),
        ("in_flight", status.in_flight.to_string()),
        ("streams", status.streams.to_string()),
        ("waiting", status.waiting.to_string()),
        ("overloaded", status.is_overloaded.to_string()),
        ("base_latency_us", base.unwrap_or_else(|| "null".to_owned())),
    ])
}

/// `null` for an upstream whose endpoints are not watched, else `{"suspended"}`: whether so many look bad that all are
/// used.
pub(crate) fn watch(watch: Option<&Watch>) -> String {
    watch.map_or_else(
        || "null".to_owned(),
        |watch| object([("suspended", watch.is_suspended().to_string())]),
    )
}

/// `null` for an endpoint that was not checked yet, else `{"up", "error"}`: what the checks say, and why the last one was
/// bad, `null` if it was not.
pub(super) fn check(state: &EndpointState) -> String {
    let Some(last) = state.checked.last() else {
        return "null".to_owned();
    };
    let error = last.map_or_else(|error| quoted(&error), |()| "null".to_owned());
    let is_up = state.health.is_checked_up();
    object([("up", is_up.to_string()), ("error", error)])
}

/// `null` for an endpoint that is not watched, else `{"state", "ejections", "reason"}`: `in`, `out` with `"remaining_ms"`,
/// `trial`, or `rising` with its `"share"`. `ejections` are all since the start, `reason` is that of the last.
pub(super) fn place(watch: Option<&Watch>, endpoint: usize, now: Instant) -> String {
    let Some(status) = watch.map(|watch| watch.status(endpoint, now)) else {
        return "null".to_owned();
    };
    let (state, more) = match status.place {
        Place::In => ("in", None),
        Place::Out(remaining) => ("out", Some(("remaining_ms", millis(remaining)))),
        Place::Trial => ("trial", None),
        Place::Rising(share) => ("rising", Some(("share", hundredths(share)))),
    };
    let reason = status.reason.map(|reason| quoted(reason.as_str()));
    let mut members = vec![
        ("state", quoted(state)),
        ("ejections", status.ejections_total.to_string()),
        ("reason", reason.unwrap_or_else(|| "null".to_owned())),
    ];
    members.extend(more);
    object(members)
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

fn hundredths(share: f64) -> String {
    format!("{share:.2}")
}
