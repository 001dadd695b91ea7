//! Refusing: a metric is there when something in the configuration has it. What was refused, and why, is in
//! `weir_failures_total`.

use weir_policy::ejection::{Place, Status};
use weir_policy::limit::concurrency;

use crate::admin::prometheus::counted::{BreakerCounts, Counted};
use crate::admin::prometheus::metric::{
    ENDPOINT, Kind, Metric, ROUTE, Sample, Source, UPSTREAM, Value,
};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_breaker_state",
        kind: Kind::Gauge,
        help: "0 closed, 1 recovering, 2 half-open, 3 open; the worst of the routes of one name.",
        labels: &[&[ROUTE], &[UPSTREAM, ENDPOINT]],
        source: Source::Optional(|counted| breakers(counted, |breaker| breaker.state)),
    },
    Metric {
        name: "weir_breaker_openings_total",
        kind: Kind::Counter,
        help: "Times that a breaker opened.",
        labels: &[&[ROUTE], &[UPSTREAM, ENDPOINT]],
        source: Source::Optional(|counted| breakers(counted, |breaker| breaker.openings)),
    },
    Metric {
        name: "weir_concurrency_limit",
        kind: Kind::Gauge,
        help: "Requests that may be in flight to an upstream.",
        labels: &[&[UPSTREAM]],
        source: Source::Optional(|counted| {
            limits(counted, |limit| Some(Value::Number(limit.limit.into())))
        }),
    },
    Metric {
        name: "weir_concurrency_in_flight",
        kind: Kind::Gauge,
        help: "Requests in flight to an upstream that has a limit.",
        labels: &[&[UPSTREAM]],
        source: Source::Optional(|counted| {
            limits(counted, |limit| Some(Value::Number(limit.in_flight.into())))
        }),
    },
    Metric {
        name: "weir_concurrency_streams",
        kind: Kind::Gauge,
        help: "[Streams](refusing.md#slow-clients) of an upstream that has a limit, which are counted apart.",
        labels: &[&[UPSTREAM]],
        source: Source::Optional(|counted| {
            limits(counted, |limit| Some(Value::Number(limit.streams.into())))
        }),
    },
    Metric {
        name: "weir_concurrency_waiting",
        kind: Kind::Gauge,
        help: "Requests that wait for one of the places in an upstream.",
        labels: &[&[UPSTREAM]],
        source: Source::Optional(|counted| {
            limits(counted, |limit| Some(Value::Number(limit.waiting as u64)))
        }),
    },
    Metric {
        name: "weir_concurrency_overloaded",
        kind: Kind::Gauge,
        help: "1 while so many ask that nobody waits for longer than `queue_target`.",
        labels: &[&[UPSTREAM]],
        source: Source::Optional(|counted| {
            limits(counted, |limit| {
                Some(Value::Number(limit.is_overloaded.into()))
            })
        }),
    },
    Metric {
        name: "weir_concurrency_base_latency_seconds",
        kind: Kind::Gauge,
        help: "What an adaptive limit takes for the latency without queueing.",
        labels: &[&[UPSTREAM]],
        source: Source::Optional(|counted| {
            limits(counted, |limit| {
                Some(Value::Micros(limit.base_latency?.as_micros() as u64))
            })
        }),
    },
    Metric {
        name: "weir_held_body_bytes",
        kind: Kind::Gauge,
        help: "Bytes of bodies held for [clients that send or read slowly](refusing.md#slow-clients), see `limits.held_bodies`; always there.",
        labels: &[&[]],
        source: Source::Samples(held_bodies),
    },
    Metric {
        name: "weir_endpoint_ejected",
        kind: Kind::Gauge,
        help: "1 while an endpoint is out because it stands out, or on trial.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Optional(|counted| endpoints(counted, is_ejected)),
    },
    Metric {
        name: "weir_endpoint_ejections_total",
        kind: Kind::Counter,
        help: "Times that an endpoint was ejected.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Optional(|counted| endpoints(counted, |status| status.ejections_total)),
    },
    Metric {
        name: "weir_ejection_suspended",
        kind: Kind::Gauge,
        help: "1 while so many endpoints look bad that all are used.",
        labels: &[&[UPSTREAM]],
        source: Source::Optional(suspended),
    },
];

fn breakers(counted: &Counted<'_>, of: fn(&BreakerCounts) -> u64) -> Option<Vec<Sample>> {
    if counted.breakers.is_empty() {
        return None;
    }
    let breakers = counted.breakers.iter();
    let samples = breakers.map(|(labels, counts)| Sample::new(labels, of(counts)));
    Some(samples.collect())
}

fn limits(
    counted: &Counted<'_>,
    of: fn(&concurrency::Status) -> Option<Value>,
) -> Option<Vec<Sample>> {
    if counted.limits.is_empty() {
        return None;
    }
    let limits = counted.limits.iter();
    let samples = limits.filter_map(|(upstream, limit)| Some(Sample::of(&[upstream], of(limit)?)));
    Some(samples.collect())
}

fn held_bodies(counted: &Counted<'_>) -> Vec<Sample> {
    vec![Sample::new(&[], counted.shared.held_bodies.bytes())]
}

fn endpoints(counted: &Counted<'_>, of: fn(&Status) -> u64) -> Option<Vec<Sample>> {
    if counted.watched.is_empty() {
        return None;
    }
    let samples = counted.watched.iter().flat_map(|watched| {
        let endpoints = watched.endpoints.iter();
        endpoints.map(move |(label, status)| Sample::new(&[watched.upstream, label], of(status)))
    });
    Some(samples.collect())
}

fn is_ejected(status: &Status) -> u64 {
    u64::from(matches!(status.place, Place::Out(_) | Place::Trial))
}

fn suspended(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    if counted.watched.is_empty() {
        return None;
    }
    let watched = counted.watched.iter();
    let samples = watched.map(|it| Sample::new(&[it.upstream], u64::from(it.is_suspended)));
    Some(samples.collect())
}
