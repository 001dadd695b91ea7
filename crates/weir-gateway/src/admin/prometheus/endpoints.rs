//! What is sent to endpoints, and what comes back.

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{
    CLASS, ENDPOINT, Kind, Label, Metric, Sample, Source, UPSTREAM,
};
use crate::metrics::RetryReason;

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_upstream_responses_total",
        kind: Kind::Counter,
        help: "Responses of endpoints, by class of status.",
        labels: &[&[UPSTREAM, ENDPOINT, CLASS]],
        source: Source::Samples(responses),
    },
    Metric {
        name: "weir_upstream_latency_seconds",
        kind: Kind::Histogram,
        help: "From choosing the endpoint to its response head, a connection that had to be opened included.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Samples(latencies),
    },
    Metric {
        name: "weir_upstream_connects_total",
        kind: Kind::Counter,
        help: "Connections opened.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Endpoints(|endpoint| &endpoint.connects),
    },
    Metric {
        name: "weir_upstream_connect_failures_total",
        kind: Kind::Counter,
        help: "Connections that did not stand.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Endpoints(|endpoint| &endpoint.connect_failures),
    },
    Metric {
        name: "weir_upstream_pool_hits_total",
        kind: Kind::Counter,
        help: "Requests sent on a kept connection.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Endpoints(|endpoint| &endpoint.pool_hits),
    },
    Metric {
        name: "weir_upstream_retries_refused_total",
        kind: Kind::Counter,
        help: "Retries and hedges after this endpoint for which `retry_budget` had nothing left.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Endpoints(|endpoint| &endpoint.retries_refused),
    },
    Metric {
        name: "weir_upstream_hedges_total",
        kind: Kind::Counter,
        help: "Second copies of requests sent to this endpoint.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Endpoints(|endpoint| &endpoint.hedges),
    },
    Metric {
        name: "weir_upstream_hedges_won_total",
        kind: Kind::Counter,
        help: "Second copies that were answered first.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Endpoints(|endpoint| &endpoint.hedges_won),
    },
    Metric {
        name: "weir_upstream_idle_connections",
        kind: Kind::Gauge,
        help: "Kept connections, as of the last second.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Endpoints(|endpoint| &endpoint.idle),
    },
    Metric {
        name: "weir_upstream_in_flight",
        kind: Kind::Gauge,
        help: "Requests on their way, tunnels included.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Endpoints(|endpoint| &endpoint.in_flight),
    },
    Metric {
        name: "weir_upstream_retries_total",
        kind: Kind::Counter,
        help: "Requests [sent again](upstreams.md#sending-again) after this endpoint, by why.",
        labels: &[&[UPSTREAM, ENDPOINT, RETRY]],
        source: Source::Samples(retries),
    },
    Metric {
        name: "weir_upstream_endpoint_up",
        kind: Kind::Gauge,
        help: "0 while its checks fail, and from a refused connection until one stands.",
        labels: &[&[UPSTREAM, ENDPOINT]],
        source: Source::Samples(up),
    },
];

const RETRY: Label = Label {
    name: "reason",
    values: || RetryReason::ALL.map(RetryReason::name).to_vec(),
};

fn responses(counted: &Counted<'_>) -> Vec<Sample> {
    let samples = counted.endpoints().flat_map(|(labels, endpoint)| {
        let tables = endpoint.state.metrics.iter();
        Sample::by_class(&labels, tables.map(|table| &table.responses))
    });
    samples.collect()
}

fn latencies(counted: &Counted<'_>) -> Vec<Sample> {
    let samples = counted.endpoints().map(|(labels, endpoint)| {
        let tables = endpoint.state.metrics.iter();
        Sample::latencies(&labels, tables.map(|table| &table.latency))
    });
    samples.collect()
}

fn retries(counted: &Counted<'_>) -> Vec<Sample> {
    let endpoints = counted.endpoints();
    let samples = endpoints.flat_map(|([upstream, label], endpoint)| {
        let tables = &endpoint.state.metrics;
        let reasons = RetryReason::ALL.into_iter().enumerate();
        reasons.map(move |(index, why)| {
            let count = tables.sum(|table| &table.retries[index]);
            Sample::new(&[upstream, label, why.name()], count)
        })
    });
    samples.collect()
}

fn up(counted: &Counted<'_>) -> Vec<Sample> {
    let samples = counted.endpoints().map(|(labels, endpoint)| {
        let is_up = endpoint.state.health.is_up();
        Sample::new(&labels, u64::from(is_up))
    });
    samples.collect()
}
