//! The part of the page that is about refusing; a family is there when something in the configuration has it. What was
//! refused, and why, is in `weir_failures_total`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use weir_policy::breaker::Status;
use weir_policy::ejection::Place;
use weir_policy::limit::concurrency;

use crate::admin::prometheus::{Page, endpoint_labels, escape, seconds};
use crate::state::breaker::SharedBreaker;

/// Appends the families of refusing.
pub(super) fn write(page: &mut Page<'_>) {
    let now = Instant::now();
    breakers(page, now);
    gates(page, now);
    held_bodies(page);
    ejection(page, now);
}

/// A gauge of a gate.
struct GateGauge {
    name: &'static str,
    help: &'static str,
    of: fn(&concurrency::Status) -> Option<String>,
}

const GATE_GAUGES: [GateGauge; 6] = [
    GateGauge {
        name: "weir_concurrency_limit",
        help: "Requests that may be in flight to an upstream.",
        of: |gate| Some(gate.limit.to_string()),
    },
    GateGauge {
        name: "weir_concurrency_in_flight",
        help: "Requests in flight to an upstream that has a limit.",
        of: |gate| Some(gate.in_flight.to_string()),
    },
    GateGauge {
        name: "weir_concurrency_streams",
        help: "Streams of an upstream that has a limit, which are counted apart.",
        of: |gate| Some(gate.streams.to_string()),
    },
    GateGauge {
        name: "weir_concurrency_waiting",
        help: "Requests that wait for one of the places in an upstream.",
        of: |gate| Some(gate.waiting.to_string()),
    },
    GateGauge {
        name: "weir_concurrency_overloaded",
        help: "1 while so many ask that a wait is short.",
        of: |gate| Some(u8::from(gate.is_overloaded).to_string()),
    },
    GateGauge {
        name: "weir_concurrency_base_latency_seconds",
        help: "What an adaptive limit takes for the latency without queueing.",
        of: |gate| Some(seconds(gate.base_latency?.as_micros() as u64)),
    },
];

/// How bad a state is, as a number, so that the largest of several says that something is wrong.
fn badness(status: Status) -> u8 {
    match status {
        Status::Closed(_) => 0,
        Status::Recovering { .. } => 1,
        Status::HalfOpen { .. } => 2,
        Status::Open { .. } => 3,
    }
}

fn breakers(page: &mut Page<'_>, now: Instant) {
    let snapshot = Arc::clone(&page.snapshot);
    // Routes may share a name: of theirs, the worst state is told, and the openings of all.
    let mut series: BTreeMap<String, (u8, u64)> = BTreeMap::new();
    let mut add = |labels: String, breaker: &SharedBreaker| {
        let (state, openings) = series.entry(labels).or_default();
        *state = (*state).max(badness(breaker.status(now)));
        *openings += breaker.openings();
    };
    for route in &snapshot.routes {
        if let Some(breaker) = &route.breaker {
            add(
                format!("route=\"{}\"", escape(&route.settings.name)),
                breaker,
            );
        }
    }
    for upstream in &snapshot.upstreams {
        for endpoint in &upstream.endpoints {
            if let Some(breaker) = &endpoint.breaker {
                add(endpoint_labels(upstream, endpoint), breaker);
            }
        }
    }
    if series.is_empty() {
        return;
    }
    let name = "weir_breaker_state";
    let help = "0 closed, 1 recovering, 2 half-open, 3 open.";
    page.family(name, "gauge", help);
    for (labels, (state, _)) in &series {
        let _ = writeln!(page.text, "{name}{{{labels}}} {state}");
    }
    let name = "weir_breaker_openings_total";
    page.family(name, "counter", "Times that a breaker opened.");
    for (labels, (_, openings)) in &series {
        let _ = writeln!(page.text, "{name}{{{labels}}} {openings}");
    }
}

fn gates(page: &mut Page<'_>, now: Instant) {
    let snapshot = Arc::clone(&page.snapshot);
    let limited = snapshot.upstreams.iter().filter_map(|upstream| {
        let gate = upstream.gate.as_ref()?;
        Some((escape(&upstream.settings.name), gate.status(now)))
    });
    let limited: Vec<_> = limited.collect();
    if limited.is_empty() {
        return;
    }
    for GateGauge { name, help, of } in GATE_GAUGES {
        page.family(name, "gauge", help);
        for (upstream, gate) in &limited {
            if let Some(value) = of(gate) {
                let _ = writeln!(page.text, "{name}{{upstream=\"{upstream}\"}} {value}");
            }
        }
    }
}

fn held_bodies(page: &mut Page<'_>) {
    let name = "weir_held_body_bytes";
    let help = "Bytes of bodies held for clients that send or read slowly.";
    page.family(name, "gauge", help);
    let bytes = page.shared.held_bodies.bytes();
    let _ = writeln!(page.text, "{name} {bytes}");
}

fn ejection(page: &mut Page<'_>, now: Instant) {
    let snapshot = Arc::clone(&page.snapshot);
    let watched = || {
        let upstreams = snapshot.upstreams.iter();
        upstreams.filter_map(|upstream| Some((upstream, upstream.watch.as_ref()?)))
    };
    if watched().next().is_none() {
        return;
    }
    let mut ejected = Vec::new();
    for (upstream, watch) in watched() {
        for (index, endpoint) in upstream.endpoints.iter().enumerate() {
            let status = watch.status(index, now);
            ejected.push((endpoint_labels(upstream, endpoint), status));
        }
    }
    let name = "weir_endpoint_ejected";
    let help = "1 while an endpoint is out because it stands out, or on trial.";
    page.family(name, "gauge", help);
    for (labels, status) in &ejected {
        let is_ejected = u8::from(matches!(status.place, Place::Out(_) | Place::Trial));
        let _ = writeln!(page.text, "{name}{{{labels}}} {is_ejected}");
    }
    let name = "weir_endpoint_ejections_total";
    page.family(name, "counter", "Times that an endpoint was ejected.");
    for (labels, status) in &ejected {
        let _ = writeln!(page.text, "{name}{{{labels}}} {}", status.ejections_total);
    }
    let name = "weir_ejection_suspended";
    let help = "1 while so many endpoints look bad that all are used.";
    page.family(name, "gauge", help);
    for (upstream, watch) in watched() {
        let upstream = escape(&upstream.settings.name);
        let is_suspended = u8::from(watch.is_suspended());
        let _ = writeln!(
            page.text,
            "{name}{{upstream=\"{upstream}\"}} {is_suspended}"
        );
    }
}
