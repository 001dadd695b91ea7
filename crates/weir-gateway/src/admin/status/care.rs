//! What is refused, in the status: the limits of upstreams and the breakers of routes and endpoints.

use std::time::Instant;

use weir_policy::breaker;

use super::{object, quoted};
use crate::care::breaker::SharedBreaker;
use crate::care::gate::Gate;
use crate::snapshot::Snapshot;

/// `{"limit", "in_flight", "waiting", "overloaded", "base_us"}`, or null without a limit. `base_us` is what an adaptive limit
/// takes for the latency of the upstream when nothing queues there, null as long as it has no idea.
pub(super) fn concurrency(gate: Option<&Gate>) -> String {
    let Some(gate) = gate else {
        return "null".to_owned();
    };
    let status = gate.status(Instant::now());
    let base_us = status.base_latency.map(|base| base.as_micros().to_string());
    object([
        ("limit", status.limit.to_string()),
        ("in_flight", status.in_flight.to_string()),
        ("waiting", status.waiting.to_string()),
        ("overloaded", status.is_overloaded.to_string()),
        ("base_us", base_us.unwrap_or_else(|| "null".to_owned())),
    ])
}

/// One object for each breaker, `{"route" | "upstream" and "endpoint", "state"}`: `closed`, `open`, with `remaining_ms`,
/// `half-open` or `recovering`.
pub(super) fn breakers(snapshot: &Snapshot) -> Vec<String> {
    let mut all = Vec::new();
    for route in &snapshot.routes {
        if let Some(breaker) = &route.breaker {
            all.push(state(vec![("route", quoted(&route.settings.name))], breaker));
        }
    }
    for upstream in &snapshot.upstreams {
        for endpoint in &upstream.endpoints {
            if let Some(breaker) = &endpoint.breaker {
                let of = vec![
                    ("upstream", quoted(&upstream.settings.name)),
                    ("endpoint", quoted(&endpoint.label)),
                ];
                all.push(state(of, breaker));
            }
        }
    }
    all
}

fn state(mut members: Vec<(&str, String)>, breaker: &SharedBreaker) -> String {
    let status = breaker.status(Instant::now());
    members.push(("state", quoted(status.as_str())));
    if let breaker::Status::Open { remaining, .. } = status {
        members.push(("remaining_ms", remaining.as_millis().to_string()));
    }
    object(members)
}
