//! What is counted of a route or an endpoint, as one row of cells, so that rows can be subtracted and added whatever they count.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_cache::cache_status::Forwarded;
use weir_cache::store_rule::NotStored;

use crate::admin::history::{Subject, classes};
use crate::failure::{Failure, FallbackKind};
use crate::metrics::{
    CLASSES, CacheMetrics, Counter, EndpointMetrics, Failures, Histogram, LATENCY_BOUNDS_US,
    PerWorker, RetryReason, RouteMetrics, added,
};
use crate::state::shared::Shared;

const RESPONSES: Range<usize> = 0..CLASSES.len();
const LATENCIES: Range<usize> = behind(&RESPONSES, LATENCY_BOUNDS_US.len() + 1);
/// Of a route, the fallbacks; of an endpoint, connections that did not stand and requests that were sent again after it.
const FALLBACKS: Range<usize> = behind(&LATENCIES, FallbackKind::ALL.len());
const CONNECT_FAILURES: usize = LATENCIES.end;
const RETRIES: usize = LATENCIES.end + 1;
const CACHE: Range<usize> = behind(&FALLBACKS, CACHED.len());
const MISSES: Range<usize> = behind(&CACHE, Forwarded::ALL.len());
const NOT_STORED: Range<usize> = behind(&MISSES, NotStored::ALL.len());
/// Last, because most rows have none.
const FAILURES: usize = NOT_STORED.end;

/// What became of requests to a route with a cache.
const CACHED: [(&str, CacheCounter); 6] = [
    ("hits", |table| &table.hits),
    ("stale_hits", |table| &table.stale_hits),
    ("joins", |table| &table.joins),
    ("fills", |table| &table.fills),
    ("passed", |table| &table.passed),
    ("revalidated", |table| &table.revalidated),
];

type CacheCounter = fn(&CacheMetrics) -> &Counter;

const fn behind(before: &Range<usize>, cells: usize) -> Range<usize> {
    before.end..before.end + cells
}

/// A row; cells that it does not have are zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tally(Vec<u64>);

/// What is counted now of everything that a configuration has.
pub(super) fn read(shared: &Shared) -> Vec<(Subject, Tally)> {
    let snapshot = shared.snapshot();
    let routes: BTreeMap<_, _> = snapshot
        .routes
        .iter()
        .map(|route| (&*route.settings.name, &*route.metrics))
        .collect();
    let mut all = vec![(Subject::Unrouted, Tally::of_unrouted(shared))];
    let routes = routes.into_iter();
    all.extend(routes.map(|(name, tables)| {
        let subject = Subject::Route(name.to_owned());
        (subject, Tally::of_route(tables))
    }));
    for upstream in &snapshot.upstreams {
        let endpoints = upstream.endpoints.iter();
        all.extend(endpoints.map(|endpoint| {
            let subject = Subject::Endpoint {
                upstream: upstream.settings.name.clone(),
                endpoint: endpoint.label.clone(),
            };
            (subject, Tally::of_endpoint(&endpoint.state.metrics))
        }));
    }
    all
}

impl Tally {
    pub(super) fn of(cells: Vec<u64>) -> Self {
        Self(cells)
    }

    pub(super) fn cells(&self) -> &[u64] {
        &self.0
    }

    fn of_unrouted(shared: &Shared) -> Self {
        let workers = || shared.metrics.iter();
        let mut cells = classes(workers().map(|worker| &worker.unrouted)).to_vec();
        add_failures(&mut cells, workers().map(|worker| &worker.failures));
        Self(cells)
    }

    fn of_route(tables: &PerWorker<RouteMetrics>) -> Self {
        let mut cells = classes(tables.iter().map(|table| &table.requests)).to_vec();
        cells.extend(latencies(tables.iter().map(|table| &table.latency)));
        cells.extend(
            FallbackKind::ALL.map(|kind| tables.sum(|table| &table.fallbacks[kind as usize])),
        );
        let cached: Vec<_> = tables
            .iter()
            .filter_map(RouteMetrics::cache_if_used)
            .collect();
        if !cached.is_empty() {
            let sum =
                |of: CacheCounter| -> u64 { cached.iter().map(|table| of(table).read()).sum() };
            cells.extend(CACHED.map(|(_, of)| sum(of)));
            cells.extend(
                CacheMetrics::misses(&cached)
                    .into_iter()
                    .map(|(_, count)| count),
            );
            cells.extend(
                CacheMetrics::refusals(&cached)
                    .into_iter()
                    .map(|(_, count)| count),
            );
        }
        add_failures(&mut cells, tables.iter().map(|table| &table.failures));
        Self(cells)
    }

    fn of_endpoint(tables: &PerWorker<EndpointMetrics>) -> Self {
        let mut cells = classes(tables.iter().map(|table| &table.responses)).to_vec();
        cells.extend(latencies(tables.iter().map(|table| &table.latency)));
        cells.push(tables.sum(|table| &table.connect_failures));
        let retries =
            (0..RetryReason::ALL.len()).map(|why| tables.sum(|table| &table.retries[why]));
        cells.push(retries.sum());
        Self(cells)
    }

    fn cell(&self, cell: usize) -> u64 {
        self.0.get(cell).copied().unwrap_or(0)
    }

    pub(crate) fn responses(&self) -> [u64; CLASSES.len()] {
        std::array::from_fn(|class| self.cell(RESPONSES.start + class))
    }

    pub(crate) fn requests(&self) -> u64 {
        self.responses().iter().sum()
    }

    pub(crate) fn server_errors(&self) -> u64 {
        self.cell(RESPONSES.end - 1)
    }

    pub(crate) fn fallbacks(&self) -> u64 {
        FALLBACKS.map(|cell| self.cell(cell)).sum()
    }

    pub(crate) fn connect_failures(&self) -> u64 {
        self.cell(CONNECT_FAILURES)
    }

    pub(crate) fn retries(&self) -> u64 {
        self.cell(RETRIES)
    }

    /// What happened, and how often.
    pub(crate) fn failures(&self) -> Vec<(Failure, u64)> {
        let counted = Failure::all().enumerate();
        let counted = counted.map(|(place, failure)| (failure, self.cell(FAILURES + place)));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// Requests that a limit or a breaker turned away.
    pub(crate) fn refused(&self) -> u64 {
        let refused = self.failures().into_iter();
        let refused = refused.filter(|(failure, _)| failure.is_turned_away());
        refused.map(|(_, count)| count).sum()
    }

    /// The answers of 5xx that were no refusals. A fallback may have answered for a refusal, so this is no less than it seems.
    pub(crate) fn failed(&self) -> u64 {
        let refused = self
            .failures()
            .into_iter()
            .filter(|(failure, _)| failure.is_turned_away() && failure.status() >= 500);
        let refused: u64 = refused.map(|(_, count)| count).sum();
        let sent = refused.saturating_sub(self.fallbacks());
        self.server_errors().saturating_sub(sent)
    }

    pub(crate) fn cached(&self) -> Vec<(&'static str, u64)> {
        let names = CACHED.iter().map(|(name, _)| *name);
        names.zip(CACHE.map(|cell| self.cell(cell))).collect()
    }

    /// Why the origin was asked.
    pub(crate) fn misses(&self) -> Vec<(&'static str, u64)> {
        let names = Forwarded::ALL.map(Forwarded::name).into_iter();
        counted(names.zip(MISSES.map(|cell| self.cell(cell))))
    }

    pub(crate) fn not_stored(&self) -> Vec<(&'static str, u64)> {
        let names = NotStored::ALL.map(NotStored::name).into_iter();
        counted(names.zip(NOT_STORED.map(|cell| self.cell(cell))))
    }

    /// How long the `share` took at most that took least, in microseconds: as if latencies were spread evenly in a bucket.
    pub(crate) fn quantile_us(&self, share: f64) -> Option<u64> {
        let counts = LATENCIES.map(|cell| self.cell(cell));
        let mut left = share * counts.clone().sum::<u64>() as f64;
        for (bucket, count) in counts.enumerate() {
            let count = count as f64;
            if count > 0.0 && left <= count {
                let low = bucket
                    .checked_sub(1)
                    .map_or(0, |before| LATENCY_BOUNDS_US[before]);
                let high = LATENCY_BOUNDS_US.get(bucket).copied().unwrap_or(low);
                return Some(low + ((high - low) as f64 * left / count) as u64);
            }
            left -= count;
        }
        None
    }
}

fn counted(counts: impl Iterator<Item = (&'static str, u64)>) -> Vec<(&'static str, u64)> {
    counts.filter(|(_, count)| *count > 0).collect()
}

fn latencies<'m>(
    tables: impl Iterator<Item = &'m Histogram>,
) -> [u64; LATENCY_BOUNDS_US.len() + 1] {
    added(tables.map(Histogram::counts))
}

/// The cells before are filled up, so that failures are in their place.
fn add_failures<'m>(cells: &mut Vec<u64>, tables: impl Iterator<Item = &'m Failures>) {
    let used: Vec<_> = tables.filter(|table| !table.is_empty()).collect();
    if used.is_empty() {
        return;
    }
    cells.resize(FAILURES, 0);
    cells.extend(
        Failure::all()
            .map(|failure| -> u64 { used.iter().map(|table| table.count(failure)).sum() }),
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_policy::limit::concurrency::Refusal;

    use super::*;

    #[test]
    fn a_row_says_what_the_tables_of_all_workers_have() {
        let tables: PerWorker<RouteMetrics> = PerWorker::new(2);
        for (worker, status, latency_us) in
            [(0, 200, 90), (0, 503, 900), (1, 503, 900), (1, 502, 9)]
        {
            tables.of(worker).requests.add(status);
            tables
                .of(worker)
                .latency
                .record(Duration::from_micros(latency_us));
        }
        let full = Failure::Shed(Refusal::QueueFull);
        for (worker, failure) in [(0, full), (1, full), (1, Failure::ConnectFailed)] {
            tables.of(worker).failures.add(failure);
        }
        tables.of(1).cache().hits.add(3);
        tables.of(0).cache().not_stored(NotStored::SetCookie);
        tables.of(0).cache().missed(Forwarded::UriMiss);
        let tally = Tally::of_route(&tables);
        assert_eq!(tally.responses(), [0, 1, 0, 0, 3]);
        assert_eq!((tally.refused(), tally.failed()), (2, 1));
        assert_eq!(tally.failures(), [(full, 2), (Failure::ConnectFailed, 1)]);
        assert_eq!(tally.cached()[0], ("hits", 3));
        assert_eq!(tally.not_stored(), [(NotStored::SetCookie.name(), 1)]);
        assert_eq!(tally.misses(), [("uri-miss", 1)]);
        assert_eq!(
            (tally.quantile_us(0.5), tally.quantile_us(1.0)),
            (Some(100), Some(1000))
        );
    }

    #[test]
    fn a_refusal_that_a_fallback_answered_is_no_failure() {
        let tables: PerWorker<RouteMetrics> = PerWorker::new(1);
        let table = tables.of(0);
        for status in [200, 503] {
            table.requests.add(status);
            table.failures.add(Failure::BreakerOpen);
        }
        table.fallbacks[FallbackKind::Fixed as usize].add(1);
        let tally = Tally::of_route(&tables);
        assert_eq!(
            (tally.refused(), tally.failed(), tally.fallbacks()),
            (2, 0, 1)
        );
    }

    #[test]
    fn nothing_counted_is_nothing_said() {
        let tally = Tally::of_route(&PerWorker::new(1));
        assert_eq!((tally.requests(), tally.quantile_us(0.5)), (0, None));
        assert_eq!(
            (tally.failures(), tally.not_stored()),
            (Vec::new(), Vec::new())
        );
    }
}
