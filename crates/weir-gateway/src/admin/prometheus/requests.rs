//! Requests, by the routes that they took.

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{CLASS, Kind, Label, Metric, ROUTE, Sample, Source, Value};
use crate::failure::FallbackKind;
use crate::metrics::{PerWorker, RouteMetrics};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_requests_total",
        kind: Kind::Counter,
        help: "Requests answered, by class of status; `route=\"\"` for those without a route.",
        labels: &[&[ROUTE, CLASS]],
        source: Source::Samples(requests),
    },
    Metric {
        name: "weir_request_duration_seconds",
        kind: Kind::Histogram,
        help: "From the request head to the end of the response. Not of tunnels (WebSocket).",
        labels: &[&[ROUTE]],
        source: Source::Samples(durations),
    },
    Metric {
        name: "weir_tunnels_total",
        kind: Kind::Counter,
        help: "Tunnels (WebSocket) that have ended. This and the next two are there once one has.",
        labels: &[&[ROUTE]],
        source: Source::Optional(|counted| {
            tunnels(counted, |table| Value::Number(table.sum(|it| &it.tunnels)))
        }),
    },
    Metric {
        name: "weir_tunnel_seconds_total",
        kind: Kind::Counter,
        help: "How long these lasted, all together.",
        labels: &[&[ROUTE]],
        source: Source::Optional(|counted| {
            tunnels(counted, |table| {
                Value::Micros(table.sum(|it| &it.tunnel_us))
            })
        }),
    },
    Metric {
        name: "weir_tunnel_bytes_total",
        kind: Kind::Counter,
        help: "What clients sent (`in`) and got (`out`) through them.",
        labels: &[&[ROUTE, DIRECTION]],
        source: Source::Optional(tunnel_bytes),
    },
    Metric {
        name: "weir_fallbacks_total",
        kind: Kind::Counter,
        help: "Requests that were refused or failed whose client got something else. Only when a route has a [`fallback`](refusing.md#fallback).",
        labels: &[&[ROUTE, FALLBACK]],
        source: Source::Optional(fallbacks),
    },
];

const FALLBACK: Label = Label {
    name: "kind",
    values: || FallbackKind::ALL.map(FallbackKind::name).to_vec(),
};

fn requests(counted: &Counted<'_>) -> Vec<Sample> {
    let routes = counted.routes.iter();
    let mut samples: Vec<_> = routes
        .flat_map(|(route, tables)| {
            Sample::by_class(&[route], tables.iter().map(|table| &table.requests))
        })
        .collect();
    let workers = counted.shared.metrics.iter();
    samples.extend(Sample::by_class(
        &[""],
        workers.map(|worker| &worker.unrouted),
    ));
    samples
}

fn durations(counted: &Counted<'_>) -> Vec<Sample> {
    let routes = counted.routes.iter();
    let samples = routes.map(|(route, tables)| {
        Sample::latencies(&[route], tables.iter().map(|table| &table.latency))
    });
    samples.collect()
}

const DIRECTION: Label = Label {
    name: "direction",
    values: || vec!["in", "out"],
};

fn has_tunnels(table: &PerWorker<RouteMetrics>) -> bool {
    table.sum(|it| &it.tunnels) > 0
}

/// One for each route that had a tunnel.
fn tunnels(
    counted: &Counted<'_>,
    of: impl Fn(&PerWorker<RouteMetrics>) -> Value,
) -> Option<Vec<Sample>> {
    let routes = counted.routes.iter();
    let routes = routes.filter(|(_, tables)| has_tunnels(tables));
    let samples: Vec<_> = routes
        .map(|(route, tables)| Sample::of(&[route], of(tables)))
        .collect();
    (!samples.is_empty()).then_some(samples)
}

fn tunnel_bytes(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    let routes = counted.routes.iter();
    let routes = routes.filter(|(_, tables)| has_tunnels(tables));
    let samples: Vec<_> = routes
        .flat_map(|(route, tables)| {
            let (sent, got) = (
                tables.sum(|it| &it.tunnel_bytes_in),
                tables.sum(|it| &it.tunnel_bytes_out),
            );
            [
                Sample::new(&[route, "in"], sent),
                Sample::new(&[route, "out"], got),
            ]
        })
        .collect();
    (!samples.is_empty()).then_some(samples)
}

fn fallbacks(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    if !counted.has_rule(|rule| rule.care.fallback.is_some()) {
        return None;
    }
    let routes = counted.routes.iter();
    let samples = routes.flat_map(|(route, tables)| {
        FallbackKind::ALL.map(|kind| {
            let count = tables.sum(|table| &table.fallbacks[kind as usize]);
            Sample::new(&[route, kind.name()], count)
        })
    });
    Some(samples.collect())
}
