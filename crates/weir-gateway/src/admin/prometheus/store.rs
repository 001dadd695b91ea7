//! Sharding: a metric is there when the configuration has a store.

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{Kind, Label, Metric, Sample, Source, Value};
use crate::service::{HintStatus, RepairStatus, StoreOutcomes, StoreStatus};

const NODE: Label = Label::open("node");
const OF: Label = Label::open("of");
const OPERATION: Label = Label {
    name: "operation",
    values: || vec!["get", "put", "delete"],
};
const OUTCOME: Label = Label {
    name: "outcome",
    values: || {
        let outcomes = StoreOutcomes::default().named();
        outcomes.map(|(name, _)| name).to_vec()
    },
};
const RANK: Label = Label {
    name: "rank",
    values: || vec!["first", "any"],
};
const DIRECTION: Label = Label {
    name: "direction",
    values: || vec!["sent", "received"],
};
const RESULT: Label = Label {
    name: "result",
    values: || vec!["same", "different"],
};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_store_operations_total",
        kind: Kind::Counter,
        help: "What clients asked this node for, by what came of it: `not_found` is 404, `unmet` 412, `too_few` 504, `refused` 422 or 501, and `conflict`, `busy` and `failed` are 503.",
        labels: &[&[OPERATION, OUTCOME]],
        source: Source::Optional(|counted| {
            let operations = &counted.store.as_ref()?.operations;
            let kinds = [
                ("get", operations.get),
                ("put", operations.put),
                ("delete", operations.delete),
            ];
            let samples = kinds.iter().flat_map(|(kind, outcomes)| {
                let named = outcomes.named().into_iter();
                named.map(|(outcome, count)| Sample::new(&[kind, outcome], count))
            });
            Some(samples.collect())
        }),
    },
    Metric {
        name: "weir_store_operations_under_way",
        kind: Kind::Gauge,
        help: "Those that have no answer yet.",
        labels: &[&[]],
        source: Source::Optional(|counted| number(counted, |store| store.operations.under_way)),
    },
    Metric {
        name: "weir_store_forwarded_total",
        kind: Kind::Counter,
        help: "Writes that another node was asked to make, since it makes those of the key [in order](sharding.md#conditions).",
        labels: &[&[]],
        source: Source::Optional(|counted| number(counted, |store| store.operations.forwarded)),
    },
    Metric {
        name: "weir_store_advanced_total",
        kind: Kind::Counter,
        help: "Writes that took a newer version than the clock gave, because a replica had a newer one: a clock is behind.",
        labels: &[&[]],
        source: Source::Optional(|counted| number(counted, |store| store.operations.advanced)),
    },
    Metric {
        name: "weir_store_read_repairs_total",
        kind: Kind::Counter,
        help: "Values that reads have given to replicas that were behind.",
        labels: &[&[]],
        source: Source::Optional(|counted| number(counted, |store| store.operations.read_repairs)),
    },
    Metric {
        name: "weir_store_node_up",
        kind: Kind::Gauge,
        help: "1 while a node answers this one, and both have a map in common; this one counts as well.",
        labels: &[&[NODE]],
        source: Source::Optional(|counted| {
            let nodes = counted.store.as_ref()?.nodes.iter();
            let samples = nodes.map(|node| Sample::new(&[&node.address], node.is_up.into()));
            Some(samples.collect())
        }),
    },
    Metric {
        name: "weir_store_failing",
        kind: Kind::Gauge,
        help: "1 while this node writes nothing, since the last write to its disk has failed.",
        labels: &[&[]],
        source: Source::Optional(|counted| number(counted, |store| store.failing.is_some().into())),
    },
    Metric {
        name: "weir_store_node_slots",
        kind: Kind::Gauge,
        help: "Slots whose `first` replica a node has, or `any` replica.",
        labels: &[&[NODE, RANK]],
        source: Source::Optional(|counted| {
            let nodes = counted.store.as_ref()?.nodes.iter();
            let samples = nodes.flat_map(|node| {
                let ranks = [("first", node.first_of), ("any", node.replica_of)];
                ranks.map(|(rank, count)| Sample::new(&[&node.address, rank], count as u64))
            });
            Some(samples.collect())
        }),
    },
    Metric {
        name: "weir_store_hints_waiting",
        kind: Kind::Gauge,
        help: "Writes that this node keeps for one that did not take them.",
        labels: &[&[NODE]],
        source: Source::Optional(|counted| of_hints(counted, |hints| hints.waiting)),
    },
    Metric {
        name: "weir_store_hints_taken_total",
        kind: Kind::Counter,
        help: "Those that it has taken.",
        labels: &[&[NODE]],
        source: Source::Optional(|counted| of_hints(counted, |hints| hints.taken)),
    },
    Metric {
        name: "weir_store_hints_left_out_total",
        kind: Kind::Counter,
        help: "Those that are left to [repair](sharding.md#repair): too many, too old, or the disk refused.",
        labels: &[&[NODE]],
        source: Source::Optional(|counted| of_hints(counted, |hints| hints.left_out)),
    },
    Metric {
        name: "weir_store_changing",
        kind: Kind::Gauge,
        help: "1 while nodes [come or go](sharding.md#nodes-that-come-and-go).",
        labels: &[&[]],
        source: Source::Optional(|counted| number(counted, |store| store.change.is_some().into())),
    },
    Metric {
        name: "weir_store_moved_keys",
        kind: Kind::Gauge,
        help: "Keys that this node has copied for that, so far.",
        labels: &[&[]],
        source: Source::Optional(|counted| {
            number(counted, |store| {
                store.change.as_ref().map_or(0, |change| change.copied)
            })
        }),
    },
    Metric {
        name: "weir_store_repair_running",
        kind: Kind::Gauge,
        help: "1 while a repair of this node is under way.",
        labels: &[&[]],
        source: Source::Optional(|counted| {
            of_repair(counted, |repair| {
                let is_running = repair.began_ms > 0 && repair.ended_ms == 0;
                Value::Number(is_running.into())
            })
        }),
    },
    Metric {
        name: "weir_store_repair_ended_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When the last one ended, in seconds since 1970; 0 before the first, and while one is under way.",
        labels: &[&[]],
        source: Source::Optional(|counted| {
            of_repair(counted, |repair| Value::Micros(repair.ended_ms * 1000))
        }),
    },
    Metric {
        name: "weir_store_repair_incomplete",
        kind: Kind::Gauge,
        help: "1 when a node did not answer the last one, or the one under way.",
        labels: &[&[]],
        source: Source::Optional(|counted| {
            of_repair(counted, |repair| {
                Value::Number(repair.missing.is_some().into())
            })
        }),
    },
    Metric {
        name: "weir_store_repair_ranges",
        kind: Kind::Gauge,
        help: "Ranges that it has compared with another node's.",
        labels: &[&[RESULT]],
        source: Source::Optional(|counted| {
            let repair = counted.store.as_ref()?.repair.as_ref()?;
            let same = repair.compared.saturating_sub(repair.differed);
            let results = [("same", same), ("different", repair.differed)];
            let samples = results.map(|(result, count)| Sample::new(&[result], count));
            Some(samples.into())
        }),
    },
    Metric {
        name: "weir_store_repair_cells",
        kind: Kind::Gauge,
        help: "Values and deletions that it has given to other nodes, and taken from them.",
        labels: &[&[DIRECTION]],
        source: Source::Optional(|counted| {
            let repair = counted.store.as_ref()?.repair.as_ref()?;
            let directions = [("sent", repair.sent), ("received", repair.received)];
            let samples = directions.map(|(direction, count)| Sample::new(&[direction], count));
            Some(samples.into())
        }),
    },
    Metric {
        name: "weir_store_repair_forgotten",
        kind: Kind::Gauge,
        help: "Deleted and expired keys that all replicas have forgotten by it.",
        labels: &[&[]],
        source: Source::Optional(|counted| {
            of_repair(counted, |repair| Value::Number(repair.forgotten))
        }),
    },
    Metric {
        name: "weir_database_reached",
        kind: Kind::Gauge,
        help: "1 since the database of the store or of a table was reached. Until then, what clients ask of it is 503.",
        labels: &[&[OF]],
        source: Source::Samples(|counted| {
            let databases = counted.databases.iter();
            let samples = databases.map(|it| Sample::new(&[&it.of], it.is_reached.into()));
            samples.collect()
        }),
    },
];

fn number(counted: &Counted<'_>, of: fn(&StoreStatus) -> u64) -> Option<Vec<Sample>> {
    let store = counted.store.as_ref()?;
    Some(vec![Sample::new(&[], of(store))])
}

/// Those for each other node; none where there is none.
fn of_hints(counted: &Counted<'_>, of: fn(&HintStatus) -> u64) -> Option<Vec<Sample>> {
    let nodes = counted.store.as_ref()?.nodes.iter();
    let samples = nodes.filter_map(|node| {
        let hints = node.hints.as_ref()?;
        Some(Sample::new(&[&node.address], of(hints)))
    });
    let samples: Vec<_> = samples.collect();
    (!samples.is_empty()).then_some(samples)
}

fn of_repair(counted: &Counted<'_>, of: fn(&RepairStatus) -> Value) -> Option<Vec<Sample>> {
    let repair = counted.store.as_ref()?.repair.as_ref()?;
    Some(vec![Sample::of(&[], of(repair))])
}
