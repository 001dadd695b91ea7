//! The cache's part of the page; it is not there without a route that caches.

use std::fmt::Write as _;

use crate::admin::prometheus::Page;
use crate::metrics::{CacheMetrics, Counter, WorkerMetrics};
use crate::state::shared::Shared;
use crate::state::storage::TierCounts;

type Of = fn(&WorkerMetrics) -> &Counter;
type OfTier = fn(&TierCounts) -> u64;
type Reasons = fn(&Shared) -> Vec<(&'static str, u64)>;

const COUNTS: [(&str, &str, Of); 9] = [
    (
        "hits",
        "Requests answered with what is stored and fresh.",
        |w| &w.cache.hits,
    ),
    (
        "stale_hits",
        "Requests answered with what is stored and stale.",
        |w| &w.cache.stale_hits,
    ),
    (
        "revalidated",
        "Stored answers that the origin confirmed.",
        |w| &w.cache.revalidated,
    ),
    ("passed", "Requests that passed by the cache.", |w| {
        &w.cache.passed
    }),
    (
        "fills",
        "Requests to the origin for something to be stored.",
        |w| &w.cache.fills,
    ),
    (
        "waits",
        "Times that a request waited for another one.",
        |w| &w.cache.waits,
    ),
    (
        "joins",
        "Requests answered by the fill of another one.",
        |w| &w.cache.joins,
    ),
    (
        "refreshes",
        "Requests that the gateway made in the background.",
        |w| &w.cache.refreshes,
    ),
    (
        "invalidations",
        "URLs whose stored answers a request ended that changed something.",
        |w| &w.cache.invalidations,
    ),
];

const REASONS: [(&str, &str, Reasons); 2] = [
    (
        "misses",
        "Requests that asked the origin, by why.",
        |shared| CacheMetrics::misses(shared.metrics.iter().map(|worker| &worker.cache)),
    ),
    (
        "not_stored",
        "Answers that were not stored, by why.",
        |shared| CacheMetrics::refusals(shared.metrics.iter().map(|worker| &worker.cache)),
    ),
];

/// Appends the cache's families.
pub(super) fn write(page: &mut Page<'_>) {
    if page.shared.cache().is_none() {
        return;
    }
    for (name, help, of) in COUNTS {
        let name = format!("weir_cache_{name}_total");
        page.family(&name, "counter", help);
        page.plain(&name, of);
    }
    for (name, help, of) in REASONS {
        let name = format!("weir_cache_{name}_total");
        page.family(&name, "counter", help);
        by_reason(page, &name, of);
    }
    tiers(page);
    bounds(page);
    purges(page);
    disk(page);
}

fn by_reason(page: &mut Page<'_>, name: &str, of: Reasons) {
    for (reason, sum) in of(page.shared) {
        if sum > 0 {
            let _ = writeln!(page.text, "{name}{{reason=\"{reason}\"}} {sum}");
        }
    }
}

fn tiers(page: &mut Page<'_>) {
    let Some(cache) = page.shared.cache() else {
        return;
    };
    let tiers = cache.tier_counts();
    let families: [(&str, &str, &str, OfTier); 4] = [
        ("weir_cache_bytes", "gauge", "Bytes stored.", |tier| {
            tier.bytes
        }),
        (
            "weir_cache_bytes_max",
            "gauge",
            "Bytes that may be stored.",
            |tier| tier.bytes_max,
        ),
        (
            "weir_cache_objects",
            "gauge",
            "Keys in memory, variants on disk.",
            |tier| tier.objects,
        ),
        (
            "weir_cache_evictions_total",
            "counter",
            "What had to make room.",
            |tier| tier.evictions,
        ),
    ];
    for (name, kind, help, of) in families {
        page.family(name, kind, help);
        for tier in &tiers {
            let (tier, value) = (tier.name, of(tier));
            let _ = writeln!(page.text, "{name}{{tier=\"{tier}\"}} {value}");
        }
    }
}

fn bounds(page: &mut Page<'_>) {
    let Some(cache) = page.shared.cache() else {
        return;
    };
    let families = [
        (
            "weir_cache_unread_fills",
            "gauge",
            "Fills under way that nobody reads.",
            cache.unread.taken(),
        ),
        (
            "weir_cache_unread_fills_refused_total",
            "counter",
            "Fills given up because too many went on that nobody read.",
            cache.unread.refused(),
        ),
        (
            "weir_cache_refreshes_refused_total",
            "counter",
            "Times that nothing was asked in the background, because too much was.",
            cache.refreshing.refused(),
        ),
    ];
    for (name, kind, help, value) in families {
        page.family(name, kind, help);
        let _ = writeln!(page.text, "{name} {value}");
    }
}

fn purges(page: &mut Page<'_>) {
    let Some(cache) = page.shared.cache() else {
        return;
    };
    let counts = &cache.purge_counts;
    let name = "weir_cache_purges_total";
    page.family(name, "counter", "Purges that operators asked for.");
    for (kind, count) in [("hard", &counts.hard), ("soft", &counts.soft)] {
        let count = count.read();
        let _ = writeln!(page.text, "{name}{{kind=\"{kind}\"}} {count}");
    }
    let name = "weir_cache_purged_total";
    page.family(
        name,
        "counter",
        "Keys in memory and objects on disk that they met.",
    );
    for (tier, count) in [("memory", &counts.in_memory), ("disk", &counts.on_disk)] {
        let count = count.read();
        let _ = writeln!(page.text, "{name}{{tier=\"{tier}\"}} {count}");
    }
}

fn disk(page: &mut Page<'_>) {
    let cache = page.shared.cache();
    let Some(disk) = cache.and_then(|cache| cache.tiers.disk()) else {
        return;
    };
    let stats = disk.stats();
    let families = [
        (
            "weir_cache_disk_indexed",
            "gauge",
            "1 once the files of the last run are indexed; nothing is written before.",
            u64::from(stats.is_indexed),
        ),
        (
            "weir_cache_disk_damaged_total",
            "counter",
            "Files dropped because they were not what they should be.",
            stats.damaged,
        ),
        (
            "weir_cache_disk_full_total",
            "counter",
            "Writes that met a full file system.",
            stats.disk_full,
        ),
    ];
    for (name, kind, help, value) in families {
        page.family(name, kind, help);
        let _ = writeln!(page.text, "{name} {value}");
    }
}
