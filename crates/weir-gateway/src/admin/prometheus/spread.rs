//! Requests of routes that have several upstreams, or a mirror.

use std::collections::BTreeMap;

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{
    CLASS, Kind, Label, Metric, ROUTE, Sample, Source, UPSTREAM,
};
use crate::state::mirror::Copied;

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_split_requests_total",
        kind: Kind::Counter,
        help: "Requests answered on routes with a [`split`](routing.md#split), by the upstream that they were for, be it that a cache or a fallback has answered them.",
        labels: &[&[ROUTE, UPSTREAM, CLASS]],
        source: Source::Optional(split),
    },
    Metric {
        name: "weir_mirrored_requests_total",
        kind: Kind::Counter,
        help: "Requests that were to be copied to the [`mirror`](routing.md#mirror) of their route: the copy was answered, failed or was refused, or was dropped because too many were under way or its body was too large or not whole.",
        labels: &[&[ROUTE, OUTCOME]],
        source: Source::Optional(mirrored),
    },
];

const OUTCOME: Label = Label {
    name: "outcome",
    values: || Copied::ALL.map(Copied::name).to_vec(),
};

fn split(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    // Routes of one name share the counts of a side.
    let mut sides = BTreeMap::new();
    for route in &counted.snapshot.routes {
        for side in route.split.iter().flat_map(|split| &split.sides) {
            let labels = [route.settings.name.as_str(), side.name.as_str()];
            sides.insert(labels, &side.metrics);
        }
    }
    let samples = sides.iter().flat_map(|(labels, tables)| {
        Sample::by_class(labels, tables.iter().map(|table| &table.requests))
    });
    (!sides.is_empty()).then(|| samples.collect())
}

fn mirrored(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    let mut routes: BTreeMap<&str, [u64; Copied::ALL.len()]> = BTreeMap::new();
    for route in &counted.snapshot.routes {
        let Some(mirror) = &route.mirror else {
            continue;
        };
        let sums = routes.entry(&route.settings.name).or_default();
        for copied in Copied::ALL {
            sums[copied as usize] += mirror.known.metrics.sum(|counts| counts.of(copied));
        }
    }
    let samples = routes.iter().flat_map(|(route, sums)| {
        Copied::ALL.map(|copied| Sample::new(&[route, copied.name()], sums[copied as usize]))
    });
    (!routes.is_empty()).then(|| samples.collect())
}
