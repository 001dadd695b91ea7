//! The cache's part of `/status`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::admin::status::NamedCounts;
use crate::metrics::{CacheMetrics, Counter, RouteMetrics};
use crate::state::shared::Shared;
use crate::state::snapshot::Snapshot;
use crate::state::storage::{Cache, TierCounts};

/// Each request to a route with a cache is one of `hits`, `stale_hits`, `joins`, `fills` and `passed`, unless it failed while
/// it waited.
#[derive(Debug, Serialize)]
pub(super) struct CacheTotals {
    hits: u64,
    /// Answered with something stale.
    stale_hits: u64,
    /// Answered by what another one asked for.
    joins: u64,
    /// Asked the origin for something to store.
    fills: u64,
    passed: u64,
    /// The `fills` that the origin confirmed.
    revalidated: u64,
    refreshes: u64,
    invalidations: u64,
    /// The `fills` by why.
    misses: NamedCounts,
    purges: PurgeStatus,
    tiers: Vec<TierStatus>,
}

#[derive(Debug, Serialize)]
struct PurgeStatus {
    hard: u64,
    soft: u64,
}

#[derive(Debug, Serialize)]
struct TierStatus {
    tier: &'static str,
    bytes: u64,
    bytes_max: u64,
    /// Keys in memory, variants on disk.
    objects: u64,
    evictions: u64,
}

impl CacheTotals {
    pub(super) fn read(shared: &Shared, snapshot: &Snapshot, cache: &Cache) -> Self {
        let routes: BTreeMap<_, _> = snapshot
            .routes
            .iter()
            .map(|route| (&*route.settings.name, &route.metrics))
            .collect();
        let tables = routes.values().flat_map(|tables| tables.iter());
        let tables: Vec<_> = tables.filter_map(RouteMetrics::cache_if_used).collect();
        let sum = |of: fn(&CacheMetrics) -> &Counter| {
            let counts = tables.iter().map(|table| of(table).read());
            counts.sum()
        };
        let workers = shared.metrics.iter();
        Self {
            hits: sum(|table| &table.hits),
            stale_hits: sum(|table| &table.stale_hits),
            joins: sum(|table| &table.joins),
            fills: sum(|table| &table.fills),
            passed: sum(|table| &table.passed),
            revalidated: sum(|table| &table.revalidated),
            refreshes: sum(|table| &table.refreshes),
            invalidations: workers.map(|worker| worker.invalidations.read()).sum(),
            misses: NamedCounts(CacheMetrics::misses(&tables)),
            purges: PurgeStatus {
                hard: cache.purge_counts.hard.read(),
                soft: cache.purge_counts.soft.read(),
            },
            tiers: cache.tier_counts().iter().map(TierStatus::of).collect(),
        }
    }
}

impl TierStatus {
    fn of(tier: &TierCounts) -> Self {
        Self {
            tier: tier.name,
            bytes: tier.bytes,
            bytes_max: tier.bytes_max,
            objects: tier.objects,
            evictions: tier.evictions,
        }
    }
}
