//! Counts without any sharing between workers: each worker has its own table and writes it with plain stores.
//!
//! A cell has one writer, so adding is a load and a store. Readers add up the tables of all workers when somebody
//! asks. The sums are exact once the workers are quiet, and never go backwards: the tables of a route or endpoint
//! belong to it, and stay with it from one configuration to the next (see `snapshot.rs`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_cache::cache_status::Forwarded;
use weir_cache::negotiate::Coding;
use weir_cache::store::PurgeKind;
use weir_cache::store_rule::NotStored;

use crate::failure::{Failure, FallbackKind};

/// A number that one worker counts up.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        // This is no read-modify-write: the worker that owns the table is its only writer.
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, count: u64) {
        self.add(count.wrapping_neg());
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the latency histograms in microseconds; a last bucket holds slower ones.
pub(crate) const LATENCY_BOUNDS_US: [u64; 18] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// How many requests took how long.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Counter; LATENCY_BOUNDS_US.len() + 1],
    pub(crate) sum_us: Counter,
}

impl Histogram {
    pub(crate) fn record(&self, latency: Duration) {
        let micros = latency.as_micros() as u64;
        self.buckets[LATENCY_BOUNDS_US.partition_point(|&bound| bound < micros)].add(1);
        self.sum_us.add(micros);
    }

    /// A count for each of [`LATENCY_BOUNDS_US`], and a last one for slower requests.
    pub(crate) fn counts(&self) -> [u64; LATENCY_BOUNDS_US.len() + 1] {
        self.buckets.each_ref().map(Counter::read)
    }
}

/// The statuses 1xx to 5xx.
pub(crate) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Counts by class of status.
#[derive(Debug, Default)]
pub(crate) struct ByClass([Counter; CLASSES.len()]);

impl ByClass {
    pub(crate) fn add(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len());
        self.0[class - 1].add(1);
    }

    pub(crate) fn counts(&self) -> [u64; CLASSES.len()] {
        self.0.each_ref().map(Counter::read)
    }
}

/// The sums of tables of counts, cell by cell.
pub(crate) fn added<const N: usize>(tables: impl IntoIterator<Item = [u64; N]>) -> [u64; N] {
    tables.into_iter().fold([0; N], |sums, table| {
        std::array::from_fn(|cell| sums[cell] + table[cell])
    })
}

/// A table for each worker. No two of them share a cache line.
#[derive(Debug)]
pub(crate) struct PerWorker<T>(Box<[Apart<T>]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T: Default> PerWorker<T> {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Apart::default()).collect())
    }

    /// The table of one worker, which only that worker writes.
    pub(crate) fn of(&self, worker: usize) -> &T {
        &self.0[worker].0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.0.iter().map(|table| &table.0)
    }

    /// The sum of a count over the workers. It wraps, because a gauge may be below zero on one of them.
    pub(crate) fn sum(&self, of: impl Fn(&T) -> &Counter) -> u64 {
        let counts = self.iter().map(|table| of(table).read());
        counts.fold(0, u64::wrapping_add)
    }
}

/// What one worker counts for one route.
#[derive(Debug, Default)]
pub(crate) struct RouteMetrics {
    pub(crate) requests: ByClass,
    /// Of all but tunnels.
    pub(crate) latency: Histogram,
    /// Tunnels that have ended, how long they lasted, and the bytes that clients sent and got.
    pub(crate) tunnels: Counter,
    pub(crate) tunnel_us: Counter,
    pub(crate) tunnel_bytes_in: Counter,
    pub(crate) tunnel_bytes_out: Counter,
    /// By [`FallbackKind`].
    pub(crate) fallbacks: [Counter; FallbackKind::ALL.len()],
    pub(crate) failures: Failures,
    cache: OnceLock<Box<CacheMetrics>>,
}

impl RouteMetrics {
    /// What the cache does for the route. The table is made by the first request that needs it.
    pub(crate) fn cache(&self) -> &CacheMetrics {
        self.cache.get_or_init(Box::default)
    }

    /// The same for readers; `None`: it has done nothing yet.
    pub(crate) fn cache_if_used(&self) -> Option<&CacheMetrics> {
        self.cache.get().map(|table| &**table)
    }
}

/// Failed requests by reason. There are many reasons and most tables never see one, so a table takes no room before.
#[derive(Debug, Default)]
pub(crate) struct Failures(OnceLock<Box<[Counter]>>);

impl Failures {
    pub(crate) fn add(&self, failure: Failure) {
        let counters = self
            .0
            .get_or_init(|| Failure::all().map(|_| Counter::default()).collect());
        counters[failure.index()].add(1);
    }

    /// How often it was `failure`.
    pub(crate) fn count(&self, failure: Failure) -> u64 {
        let counters = self.0.get();
        counters.map_or(0, |counters| counters[failure.index()].read())
    }

    /// Whether nothing has failed yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }
}

/// What one worker counts for one endpoint.
#[derive(Debug, Default)]
pub(crate) struct EndpointMetrics {
    pub(crate) responses: ByClass,
    pub(crate) latency: Histogram,
    pub(crate) connects: Counter,
    pub(crate) connect_failures: Counter,
    pub(crate) pool_hits: Counter,
    /// Requests sent again after it, by [`RetryReason::ALL`].
    pub(crate) retries: [Counter; RetryReason::ALL.len()],
    /// Retries and second copies that the budget did not allow.
    pub(crate) retries_refused: Counter,
    /// Second copies sent to this endpoint, and those that answered first.
    pub(crate) hedges: Counter,
    pub(crate) hedges_won: Counter,
    pub(crate) idle: Counter,
    /// Requests in flight, tunnels included.
    pub(crate) in_flight: Counter,
}

/// What one worker counts of the cache for one route.
#[derive(Debug, Default)]
pub(crate) struct CacheMetrics {
    /// Requests answered from a fresh stored response.
    pub(crate) hits: Counter,
    /// Requests answered from a stale stored response.
    pub(crate) stale_hits: Counter,
    /// Stored answers that the origin confirmed.
    pub(crate) revalidated: Counter,
    /// Requests that bypassed the cache.
    pub(crate) passed: Counter,
    /// Requests that asked the origin for something to store.
    pub(crate) fills: Counter,
    /// Requests that waited for the fill of another request, and those that it answered.
    pub(crate) waits: Counter,
    pub(crate) joins: Counter,
    /// Requests that the gateway made by itself.
    pub(crate) refreshes: Counter,
    missed: [Counter; Forwarded::ALL.len()],
    not_stored: [Counter; NotStored::ALL.len()],
}

impl CacheMetrics {
    pub(crate) fn missed(&self, why: Forwarded) {
        self.missed[why as usize].add(1);
    }

    pub(crate) fn not_stored(&self, why: NotStored) {
        self.not_stored[why as usize].add(1);
    }

    /// Each reason to ask the origin, and how often it was one in all `tables`.
    pub(crate) fn misses(tables: &[&Self]) -> Vec<(&'static str, u64)> {
        let counts = added(
            tables
                .iter()
                .map(|table| table.missed.each_ref().map(Counter::read)),
        );
        let reasons = Forwarded::ALL.map(Forwarded::name);
        reasons.into_iter().zip(counts).collect()
    }

    /// Each reason not to store an answer, and how often it was one in all `tables`.
    pub(crate) fn refusals(tables: &[&Self]) -> Vec<(&'static str, u64)> {
        let counts = added(
            tables
                .iter()
                .map(|table| table.not_stored.each_ref().map(Counter::read)),
        );
        let reasons = NotStored::ALL.map(NotStored::name);
        reasons.into_iter().zip(counts).collect()
    }
}

/// What one worker compresses while responses pass through.
#[derive(Debug, Default)]
pub(crate) struct CompressMetrics {
    responses: [Counter; Coding::ALL.len()],
    /// Responses that were not compressed because too many others were.
    pub(crate) refused: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
}

impl CompressMetrics {
    pub(crate) fn began(&self, coding: Coding) {
        let each = Coding::ALL.iter().zip(&self.responses);
        for (_, count) in each.filter(|(own, _)| **own == coding) {
            count.add(1);
        }
    }

    /// By [`Coding::ALL`].
    pub(crate) fn responses(&self) -> [u64; Coding::ALL.len()] {
        self.responses.each_ref().map(Counter::read)
    }
}

/// What the control thread counts about purges.
#[derive(Debug, Default)]
pub(crate) struct PurgeCounts {
    pub(crate) hard: Counter,
    pub(crate) soft: Counter,
    /// Keys in memory, and objects on disk.
    pub(crate) in_memory: Counter,
    pub(crate) on_disk: Counter,
}

impl PurgeCounts {
    /// A purge of `kind` has covered this many.
    pub(crate) fn add(&self, kind: PurgeKind, in_memory: u64, on_disk: u64) {
        match kind {
            PurgeKind::Hard => self.hard.add(1),
            PurgeKind::Soft => self.soft.add(1),
        }
        self.in_memory.add(in_memory);
        self.on_disk.add(on_disk);
    }
}

/// What one worker counts outside routes and endpoints.
#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    pub(crate) accepted: Counter,
    pub(crate) open: Counter,
    /// All answered requests, also those without a route or of routes that are gone.
    pub(crate) responses: ByClass,
    pub(crate) unrouted: ByClass,
    pub(crate) bytes_from_clients: Counter,
    pub(crate) bytes_to_clients: Counter,
    pub(crate) log_lines_dropped: Counter,
    pub(crate) connections_refused: Counter,
    /// URLs whose stored responses ended because a request changed something.
    pub(crate) invalidations: Counter,
    pub(crate) compress: CompressMetrics,
    /// Those of `unrouted`. A route has its own.
    pub(crate) failures: Failures,
}

impl WorkerMetrics {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            accepted: Counter::default(),
            open: Counter::default(),
            responses: ByClass::default(),
            unrouted: ByClass::default(),
            bytes_from_clients: Counter::default(),
            bytes_to_clients: Counter::default(),
            log_lines_dropped: Counter::default(),
            connections_refused: Counter::default(),
            invalidations: Counter::default(),
            compress: CompressMetrics::default(),
            failures: Failures::default(),
        })
    }
}

/// Why a request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryReason {
    /// No connection could be opened.
    Unreachable,
    /// A kept connection had been closed by the endpoint.
    Stale,
    /// The connection ended before the answer.
    Closed,
    /// The status of the answer is one that is retried.
    Status,
    /// The time of the attempt is over.
    Late,
}

impl RetryReason {
    /// All of them, in their order.
    pub(crate) const ALL: [Self; 5] = [
        Self::Unreachable,
        Self::Stale,
        Self::Closed,
        Self::Status,
        Self::Late,
    ];

    /// The name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Stale => "stale",
            Self::Closed => "closed",
            Self::Status => "status",
            Self::Late => "late",
        }
    }
}
