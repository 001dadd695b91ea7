//! The cache's part of the page; it is not there without a route that caches.

use std::fmt::Write as _;

use super::Page;
use crate::metrics::{Counter, WorkerMetrics};

/// Appends the cache's families.
pub(super) fn write(page: &mut Page<'_>) {
    let Some(cache) = &page.shared.cache else {
        return;
    };
    type Of = fn(&WorkerMetrics) -> &Counter;
    let plain: [(&str, &str, Of); 8] = [
        (
            "weir_cache_hits_total",
            "Requests answered with what is stored and fresh.",
            |w| &w.cache.hits,
        ),
        (
            "weir_cache_stale_hits_total",
            "Requests answered with what is stored and stale.",
            |w| &w.cache.stale_hits,
        ),
        (
            "weir_cache_revalidated_total",
            "Stored answers that the origin confirmed.",
            |w| &w.cache.revalidated,
        ),
        (
            "weir_cache_passed_total",
            "Requests that passed by the cache.",
            |w| &w.cache.passed,
        ),
        (
            "weir_cache_fills_total",
            "Requests to the origin for something to be stored.",
            |w| &w.cache.fills,
        ),
        (
            "weir_cache_waits_total",
            "Times that a request waited for another one.",
            |w| &w.cache.waits,
        ),
        (
            "weir_cache_joins_total",
            "Requests answered by the fill of another one.",
            |w| &w.cache.joins,
        ),
        (
            "weir_cache_refreshes_total",
            "Requests that the gateway made in the background.",
            |w| &w.cache.refreshes,
        ),
    ];
    for (name, help, of) in plain {
        page.family(name, "counter", help);
        page.plain(name, of);
    }
    let reasons = |of: fn(&WorkerMetrics) -> Vec<(&'static str, u64)>| {
        let mut sums: Vec<(&'static str, u64)> = Vec::new();
        for worker in &page.shared.metrics {
            for (at, (name, count)) in of(worker).into_iter().enumerate() {
                match sums.get_mut(at) {
                    Some(sum) => sum.1 += count,
                    None => sums.push((name, count)),
                }
            }
        }
        sums
    };
    let misses = reasons(|worker| worker.cache.misses().collect());
    let refusals = reasons(|worker| worker.cache.refusals().collect());
    for (name, help, counts) in [
        (
            "weir_cache_misses_total",
            "Requests that asked the origin, by why.",
            misses,
        ),
        (
            "weir_cache_not_stored_total",
            "Answers that were not stored, by why.",
            refusals,
        ),
    ] {
        page.family(name, "counter", help);
        for (reason, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let _ = writeln!(page.text, "{name}{{reason=\"{reason}\"}} {count}");
        }
    }
    let memory = cache.tiers.memory().stats();
    let mut tiers = vec![("memory", memory.bytes, memory.entries, memory.evicted)];
    if let Some(disk) = cache.tiers.disk() {
        let disk = disk.stats();
        tiers.push(("disk", disk.bytes, disk.objects, disk.evicted));
    }
    for (name, kind, help, of) in [
        ("weir_cache_bytes", "gauge", "Bytes stored.", 0),
        (
            "weir_cache_objects",
            "gauge",
            "Keys stored in memory, objects on disk.",
            1,
        ),
        (
            "weir_cache_evictions_total",
            "counter",
            "What had to make room.",
            2,
        ),
    ] {
        page.family(name, kind, help);
        for (tier, bytes, objects, evicted) in &tiers {
            let value = [bytes, objects, evicted][of];
            let _ = writeln!(page.text, "{name}{{tier=\"{tier}\"}} {value}");
        }
    }
}
