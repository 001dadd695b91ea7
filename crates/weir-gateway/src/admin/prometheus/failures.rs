//! What went wrong, and the configurations.

use std::sync::atomic::Ordering;

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{Kind, Label, Metric, ROUTE, Sample, Source};
use crate::failure::Failure;
use crate::metrics::Failures;

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_failures_total",
        kind: Kind::Counter,
        help: "Requests that failed, by whose fault it was and the [reason](messages.md#what-is-refused); `route=\"\"` for those without a route.",
        labels: &[&[ROUTE, FAULT, Label::open("reason")]],
        source: Source::Samples(failures),
    },
    Metric {
        name: "weir_config_generation",
        kind: Kind::Gauge,
        help: "Configurations put to work since the start.",
        labels: &[&[]],
        source: Source::Samples(generation),
    },
    Metric {
        name: "weir_config_needs_restart",
        kind: Kind::Gauge,
        help: "Keys of the configuration that wait for a restart.",
        labels: &[&[]],
        source: Source::Samples(needs_restart),
    },
    Metric {
        name: "weir_config_reloads_total",
        kind: Kind::Counter,
        help: "Times that the configuration was read again.",
        labels: &[&[RESULT]],
        source: Source::Samples(reloads),
    },
];

const FAULT: Label = Label {
    name: "fault",
    values: || vec!["client", "gateway", "upstream"],
};
const RESULTS: [&str; 2] = ["applied", "refused"];
const RESULT: Label = Label {
    name: "result",
    values: || RESULTS.to_vec(),
};

fn failures(counted: &Counted<'_>) -> Vec<Sample> {
    let routes = counted.routes.iter();
    let mut samples: Vec<_> = routes
        .flat_map(|(route, tables)| by_reason(route, tables.iter().map(|table| &table.failures)))
        .collect();
    let workers = counted.shared.metrics.iter();
    samples.extend(by_reason("", workers.map(|worker| &worker.failures)));
    samples
}

fn by_reason<'m>(route: &str, tables: impl Iterator<Item = &'m Failures>) -> Vec<Sample> {
    let used: Vec<_> = tables.filter(|table| !table.is_empty()).collect();
    if used.is_empty() {
        return Vec::new();
    }
    let samples = Failure::all().filter_map(|failure| {
        let sum: u64 = used.iter().map(|table| table.count(failure)).sum();
        let labels = [route, failure.fault().name(), failure.name()];
        (sum > 0).then(|| Sample::new(&labels, sum))
    });
    samples.collect()
}

fn generation(counted: &Counted<'_>) -> Vec<Sample> {
    vec![Sample::new(&[], counted.snapshot.generation)]
}

fn needs_restart(counted: &Counted<'_>) -> Vec<Sample> {
    let waiting = counted.shared.waiting.load(Ordering::Relaxed);
    vec![Sample::new(&[], waiting)]
}

fn reloads(counted: &Counted<'_>) -> Vec<Sample> {
    let reloads = RESULTS.into_iter().zip(&counted.shared.reloads);
    let samples =
        reloads.map(|(result, count)| Sample::new(&[result], count.load(Ordering::Relaxed)));
    samples.collect()
}
