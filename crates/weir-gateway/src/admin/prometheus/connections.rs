//! Clients' connections, and the workers that serve them.

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{Kind, Label, Metric, Sample, Source, Value, WORKER};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_client_connections_total",
        kind: Kind::Counter,
        help: "Client connections accepted.",
        labels: &[&[]],
        source: Source::Workers(|worker| &worker.accepted),
    },
    Metric {
        name: "weir_client_connections",
        kind: Kind::Gauge,
        help: "Client connections open, by worker.",
        labels: &[&[WORKER]],
        source: Source::Samples(open),
    },
    Metric {
        name: "weir_worker_standstill_seconds",
        kind: Kind::Gauge,
        help: "Time since a worker last turned: up to a tenth of a second, or more when it is stuck.",
        labels: &[&[WORKER]],
        source: Source::Samples(standstills),
    },
    Metric {
        name: "weir_client_connections_refused_total",
        kind: Kind::Counter,
        help: "Client connections over a limit.",
        labels: &[&[]],
        source: Source::Workers(|worker| &worker.connections_refused),
    },
    Metric {
        name: "weir_client_bytes_total",
        kind: Kind::Counter,
        help: "Bytes exchanged with clients, heads included.",
        labels: &[&[DIRECTION]],
        source: Source::Samples(bytes),
    },
    Metric {
        name: "weir_access_log_lines_dropped_total",
        kind: Kind::Counter,
        help: "Log lines lost because the disk was behind.",
        labels: &[&[]],
        source: Source::Workers(|worker| &worker.log_lines_dropped),
    },
];

const DIRECTION: Label = Label {
    name: "direction",
    values: || vec!["received", "sent"],
};

fn open(counted: &Counted<'_>) -> Vec<Sample> {
    let workers = counted.shared.metrics.iter().enumerate();
    let samples =
        workers.map(|(index, worker)| Sample::new(&[&index.to_string()], worker.open.read()));
    samples.collect()
}

fn standstills(counted: &Counted<'_>) -> Vec<Sample> {
    let standstills = counted.shared.standstills().enumerate();
    let samples = standstills
        .map(|(index, for_ms)| Sample::of(&[&index.to_string()], Value::Micros(for_ms * 1_000)));
    samples.collect()
}

fn bytes(counted: &Counted<'_>) -> Vec<Sample> {
    let received = counted.sum(|worker| &worker.bytes_from_clients);
    let sent = counted.sum(|worker| &worker.bytes_to_clients);
    vec![
        Sample::new(&["received"], received),
        Sample::new(&["sent"], sent),
    ]
}
