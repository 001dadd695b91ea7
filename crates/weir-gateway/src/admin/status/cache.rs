//! The cache's part of `/status`.

use crate::admin::status::{list, object, quoted};
use crate::metrics::{CacheMetrics, Counter};
use crate::state::shared::Shared;
use crate::state::storage::TierCounts;

/// `null` without a cache, else `{"hits", "stale_hits", "joins", "fills", "passed", "revalidated", "refreshes",
/// "invalidations", "misses", "purges": {"hard", "soft"}, "tiers": [{"tier", "bytes", "bytes_max", "objects",
/// "evictions"}]}`
///
/// Each request to a route with a cache is one of `hits`, `stale_hits` (answered with something stale), `joins` (answered
/// by what another one asked for), `fills` (asked the origin for something to store) and `passed`, unless it failed
/// while it waited. `misses` has the `fills` by reason; `revalidated` are those that the origin confirmed. `objects` are keys
/// in memory and variants on disk.
pub(super) fn write(shared: &Shared) -> String {
    let Some(cache) = shared.cache() else {
        return "null".to_owned();
    };
    let tables = || shared.metrics.iter().map(|worker| &worker.cache);
    let sum = |of: fn(&CacheMetrics) -> &Counter| -> String {
        let sum: u64 = tables().map(|table| of(table).read()).sum();
        sum.to_string()
    };
    let reasons: Vec<Vec<_>> = tables().map(|table| table.misses().collect()).collect();
    let first = reasons.first().map(Vec::as_slice).unwrap_or_default();
    let misses = first.iter().enumerate().map(|(at, (reason, _))| {
        let count: u64 = reasons.iter().map(|table| table[at].1).sum();
        (*reason, count.to_string())
    });
    let purges = &cache.purge_counts;
    let purges = [("hard", &purges.hard), ("soft", &purges.soft)];
    object([
        ("hits", sum(|table| &table.hits)),
        ("stale_hits", sum(|table| &table.stale_hits)),
        ("joins", sum(|table| &table.joins)),
        ("fills", sum(|table| &table.fills)),
        ("passed", sum(|table| &table.passed)),
        ("revalidated", sum(|table| &table.revalidated)),
        ("refreshes", sum(|table| &table.refreshes)),
        ("invalidations", sum(|table| &table.invalidations)),
        ("misses", object(misses)),
        (
            "purges",
            object(purges.map(|(kind, count)| (kind, count.read().to_string()))),
        ),
        ("tiers", list(cache.tier_counts().iter().map(tier))),
    ])
}

fn tier(tier: &TierCounts) -> String {
    object([
        ("tier", quoted(tier.name)),
        ("bytes", tier.bytes.to_string()),
        ("bytes_max", tier.bytes_max.to_string()),
        ("objects", tier.objects.to_string()),
        ("evictions", tier.evictions.to_string()),
    ])
}
