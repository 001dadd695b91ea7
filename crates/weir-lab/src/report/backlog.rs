//! What became of the events that requests made, to be handled at once or later: the figures behind tables, sentences
//! and plots. Nothing is written here.

use super::summary::{self, Row};
use crate::raw::{Block, Counted, Events};
use crate::statistics;

/// Counts are known for each tenth of a second.
const TICK_S: f64 = 0.1;
/// What was left to do is told as a rate if it took at least this long.
const DRAIN_S_MIN: f64 = 0.5;

/// The figures of some blocks of one rung together: medians over the blocks, but for sums and percentiles.
pub(super) struct Followed {
    /// The service that handles the events.
    pub(super) by: String,
    /// Events that were made and taken, in all blocks.
    pub(super) made: u64,
    /// Events that were handled.
    pub(super) handled: u64,
    /// Events that were handled once more.
    pub(super) again: u64,
    /// Events that were made and taken, a second of the load.
    pub(super) accepted: f64,
    /// Events handled a second while the load ran.
    pub(super) rate: f64,
    /// Events a second by which those that wait became more while the load ran.
    pub(super) slope: f64,
    /// Events that waited at the end of the load.
    pub(super) waiting: f64,
    /// Events handled a second after the load. `None` when there were too few for a rate.
    pub(super) drain: Option<f64>,
    /// Seconds from the end of the load until all were handled. `None` when in some block they never were.
    pub(super) drained_s: Option<f64>,
    /// Milliseconds from when an event was made until it was handled: the median, the 99th percentile, the longest. `None` when
    /// some were never handled: those that were are no measure.
    pub(super) end_to_end_ms: Option<[f64; 3]>,
}

/// `None` when the requests made no events.
pub(super) fn followed(row: &Row<'_>) -> Option<Followed> {
    let events = row.blocks.iter().filter_map(|block| block.events.as_ref());
    let events: Vec<&Events> = events.filter(|events| total(&events.made) > 0).collect();
    let first = events.first()?;
    let median = |of: fn(&Events) -> f64| {
        let values: Vec<f64> = events.iter().map(|events| of(events)).collect();
        statistics::median(&values).unwrap_or_default()
    };
    let all = |of: fn(&Events) -> Option<f64>| {
        let values: Option<Vec<f64>> = events.iter().map(|events| of(events)).collect();
        statistics::median(&values?)
    };
    let drained_s = all(drained_s);
    let histograms = events.iter().map(|events| events.histogram.as_str());
    let end_to_end = summary::merged(histograms).filter(|_| drained_s.is_some());
    Some(Followed {
        by: first.to.clone(),
        made: events.iter().map(|events| total(&events.made)).sum(),
        handled: events.iter().map(|events| total(&events.handled)).sum(),
        again: events.iter().map(|events| events.again).sum(),
        accepted: median(|events| at(&events.made, events.load_s) / events.load_s),
        rate: median(|events| at(&events.handled, events.load_s) / events.load_s),
        slope: median(slope),
        waiting: median(|events| left(events, events.load_s)),
        drain: all(drain),
        drained_s,
        end_to_end_ms: end_to_end.map(|ns| {
            let quantiles = [
                ns.value_at_quantile(0.5),
                ns.value_at_quantile(0.99),
                ns.max(),
            ];
            quantiles.map(|ns| ns as f64 / 1e6)
        }),
    })
}

/// How many events waited over the time of a block, for curves.
pub(super) fn curve(block: &Block) -> Option<Vec<(f64, f64)>> {
    let events = block.events.as_ref()?;
    let end_s = last_s(&events.handled).max(events.load_s);
    let points = ticks(end_s).map(|at_s| (at_s, left(events, at_s)));
    Some(points.collect())
}

fn ticks(end_s: f64) -> impl Iterator<Item = f64> {
    (0..=(end_s / TICK_S) as u32).map(|tick| f64::from(tick) * TICK_S)
}

fn total(counted: &[Counted]) -> u64 {
    counted.last().map_or(0, |last| last.count)
}

fn last_s(counted: &[Counted]) -> f64 {
    counted.last().map_or(0.0, |last| last.at_s)
}

/// The count at some moment, as if it had grown evenly within a tenth of a second.
fn at(counted: &[Counted], at_s: f64) -> f64 {
    let next = counted.partition_point(|counted| counted.at_s <= at_s);
    let before = next.checked_sub(1).map(|index| counted[index]);
    let count = before.map_or(0.0, |before| before.count as f64);
    match counted.get(next) {
        Some(after) if at_s > after.at_s - TICK_S => {
            let part = 1.0 - (after.at_s - at_s) / TICK_S;
            count + (after.count as f64 - count) * part
        }
        _ => count,
    }
}

fn left(events: &Events, at_s: f64) -> f64 {
    (at(&events.made, at_s) - at(&events.handled, at_s)).max(0.0)
}

/// The slope of the line that fits best, by least squares.
fn slope(events: &Events) -> f64 {
    let points: Vec<(f64, f64)> = ticks(events.load_s)
        .map(|at_s| (at_s, left(events, at_s)))
        .collect();
    let count = points.len() as f64;
    let sums = points.iter();
    let (sum_x, sum_y) = sums.fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let along = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y));
    let along: f64 = along.sum();
    if spread > 0.0 { along / spread } else { 0.0 }
}

fn drained_s(events: &Events) -> Option<f64> {
    let is_handled = total(&events.handled) >= total(&events.made);
    let drained_s = last_s(&events.handled) - events.load_s;
    // What is handled in the tenth of a second in which the load ends did not wait for long.
    is_handled.then_some(if drained_s > TICK_S { drained_s } else { 0.0 })
}

fn drain(events: &Events) -> Option<f64> {
    let seconds = last_s(&events.handled) - events.load_s;
    let handled = total(&events.handled) as f64 - at(&events.handled, events.load_s);
    (seconds >= DRAIN_S_MIN).then_some(handled / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of two seconds that makes 100 events a second; 60 are handled.
    fn events() -> Events {
        let counted = |count: u64, most: u64, ticks: u64| -> Vec<Counted> {
            let ticks = 1..=ticks;
            ticks
                .map(|tick| Counted {
                    at_s: tick as f64 / 10.0,
                    count: (count * tick).min(most),
                })
                .collect()
        };
        Events {
            from: "app".to_owned(),
            to: "logs".to_owned(),
            load_s: 2.0,
            unknown: 0,
            again: 0,
            made: counted(10, 200, 20),
            handled: counted(6, 200, 34),
            latency_us: std::collections::BTreeMap::new(),
            histogram: String::new(),
        }
    }

    fn tenths(value: f64) -> i64 {
        (value * 10.0).round() as i64
    }

    #[test]
    fn a_backlog_grows_and_drains() {
        let events = events();
        assert_eq!(tenths(slope(&events)), 400);
        assert_eq!(tenths(left(&events, 2.0)), 800);
        assert_eq!(drained_s(&events).map(tenths), Some(14));
        // 80 in 1.4 s.
        assert_eq!(drain(&events).map(tenths), Some(571));
    }

    #[test]
    fn what_was_never_behind_has_no_rate_of_draining() {
        let mut events = events();
        events.handled.clone_from(&events.made);
        assert_eq!((tenths(slope(&events)), tenths(left(&events, 2.0))), (0, 0));
        assert_eq!(
            (drain(&events), drained_s(&events).map(tenths)),
            (None, Some(0))
        );
    }

    #[test]
    fn what_is_lost_is_never_drained() {
        let mut events = events();
        events.handled.pop();
        events.handled.retain(|counted| counted.count < 200);
        assert_eq!(drained_s(&events), None);
        // What was handled was handled as fast as before.
        assert_eq!(drain(&events).map(tenths), Some(600));
    }

    #[test]
    fn a_count_grows_evenly_within_a_tick_and_stands_between_two() {
        let counted = [(0.5, 10), (2.0, 20)].map(|(at_s, count)| Counted { at_s, count });
        for (at_s, count) in [
            (-1.0, 0),
            (0.3, 0),
            (0.45, 50),
            (0.5, 100),
            (1.0, 100),
            (1.95, 150),
            (9.0, 200),
        ] {
            assert_eq!(tenths(at(&counted, at_s)), count, "at {at_s}");
        }
    }
}
