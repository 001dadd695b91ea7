//! Requests, by the routes that they took.

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{CLASS, Kind, Label, Metric, ROUTE, Sample, Source};
use crate::failure::FallbackKind;

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
        help: "From the request head to the end of the response.",
        labels: &[&[ROUTE]],
        source: Source::Samples(durations),
    },
    Metric {
        name: "weir_fallbacks_total",
        kind: Kind::Counter,
        help: "Requests that were refused or failed whose client got something else. Only when a route has a [`fallback`](#fallback).",
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
