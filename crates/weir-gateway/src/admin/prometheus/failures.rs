//! What went wrong, and the configurations.

use std::sync::atomic::Ordering;

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{Kind, Label, Metric, Sample, Source};
use crate::failure::{Failure, Fault};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_failures_total",
        kind: Kind::Counter,
        help: "Requests that failed, by whose fault it was and the [reason](#what-is-refused).",
        labels: &[&[FAULT, Label::open("reason")]],
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
    let samples = Failure::all().filter_map(|failure| {
        let workers = counted.shared.metrics.iter();
        let counts = workers.map(|worker| worker.failures[failure.index()].read());
        let sum: u64 = counts.sum();
        let fault = match failure.fault() {
            Fault::Client => "client",
            Fault::Gateway => "gateway",
            Fault::Upstream => "upstream",
        };
        (sum > 0).then(|| Sample::new(&[fault, failure.name()], sum))
    });
    samples.collect()
}

fn generation(counted: &Counted<'_>) -> Vec<Sample> {
    vec![Sample::new(&[], counted.snapshot.generation)]
}

fn reloads(counted: &Counted<'_>) -> Vec<Sample> {
    let reloads = RESULTS.into_iter().zip(&counted.shared.reloads);
    let samples =
        reloads.map(|(result, count)| Sample::new(&[result], count.load(Ordering::Relaxed)));
    samples.collect()
}
