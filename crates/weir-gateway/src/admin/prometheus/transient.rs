//! What is held for clients.

use std::sync::atomic::Ordering;

use crate::admin::prometheus::metric::{Kind, Metric, Sample, Source};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_transient_bytes",
        kind: Kind::Gauge,
        help: "Bytes held for clients and not stored.",
        labels: &[&[]],
        source: Source::Samples(|counted| {
            vec![Sample::new(&[], counted.shared.slow.transient.bytes())]
        }),
    },
    Metric {
        name: "weir_transient_bytes_max",
        kind: Kind::Gauge,
        help: "Bytes that may be held so.",
        labels: &[&[]],
        source: Source::Samples(|counted| {
            vec![Sample::new(&[], counted.shared.slow.transient.bytes_max())]
        }),
    },
    Metric {
        name: "weir_slow_clients_cut_total",
        kind: Kind::Counter,
        help: "Clients cut off because others needed what they held.",
        labels: &[&[]],
        source: Source::Samples(|counted| {
            vec![Sample::new(
                &[],
                counted.shared.slow.cut.load(Ordering::Relaxed),
            )]
        }),
    },
];
