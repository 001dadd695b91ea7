//! The table of refusals: how many requests were answered with 4xx or 5xx, and how long those answers took. Latencies of good answers
//! stand apart, so that a quick refusal makes nobody look fast.

use super::Table;
use super::layout::Layout;
use crate::raw::{Block, Run};
use crate::report::number;
use crate::report::summary::{Group, Row};

/// Outcomes that are refusals.
const REFUSALS: [&str; 2] = ["4xx", "5xx"];
const PERCENTILES: [&str; 4] = ["p50", "p99", "p99.9", "max"];

/// `None` when nothing was refused, and under overload, which has tables of its own.
pub(super) fn table(run: &Run, group: &Group<'_>) -> Option<Table> {
    let is_refused = |row: &Row<'_>| row.blocks.iter().any(|block| refused(block) > 0);
    if run.capacity.is_some() || !group.rows.iter().any(is_refused) {
        return None;
    }
    let mut layout = Layout::new(run, group);
    layout.measured("Refused a second");
    for percentile in PERCENTILES {
        layout.measured(&format!("{percentile} ms"));
    }
    layout.rows(group, |row| {
        let rate = row.median(|block| Some(refused(block) as f64 / block.seconds));
        let latency = |percentile: &str| {
            let us = row.median(|block| block.refusal_us.get(percentile).copied());
            us.map_or(String::new(), |us| number::figure(us / 1_000.0))
        };
        let rate = rate.map_or(String::new(), number::figure);
        std::iter::once(rate)
            .chain(PERCENTILES.map(latency))
            .collect()
    });
    Some(layout.table(
        "Refusals",
        "4xx and 5xx answers a second, and how long they took, from the moment a request was meant to be sent: the medians of \
         the blocks. They are in no other latency."
            .to_owned(),
    ))
}

fn refused(block: &Block) -> u64 {
    let counts = REFUSALS.iter();
    counts.filter_map(|name| block.outcomes.get(*name)).sum()
}
