//! The cache, where a route has one.

use weir_cache::cache_status::Forwarded;
use weir_cache::store::disk::DiskStats;
use weir_cache::store_rule::NotStored;

use crate::admin::prometheus::counted::Counted;
use crate::admin::prometheus::metric::{Kind, Label, Metric, ROUTE, Sample, Source};
use crate::metrics::CacheMetrics;
use crate::state::storage::{Cache, TierCounts};

/// In the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "weir_cache_hits_total",
        kind: Kind::Counter,
        help: "Requests answered with what is stored and fresh.",
        labels: &[&[ROUTE]],
        source: Source::Cache(|cache| &cache.hits),
    },
    Metric {
        name: "weir_cache_stale_hits_total",
        kind: Kind::Counter,
        help: "Requests answered with what is stored and stale.",
        labels: &[&[ROUTE]],
        source: Source::Cache(|cache| &cache.stale_hits),
    },
    Metric {
        name: "weir_cache_revalidated_total",
        kind: Kind::Counter,
        help: "Stored responses that the origin confirmed.",
        labels: &[&[ROUTE]],
        source: Source::Cache(|cache| &cache.revalidated),
    },
    Metric {
        name: "weir_cache_passed_total",
        kind: Kind::Counter,
        help: "Requests that passed by the cache.",
        labels: &[&[ROUTE]],
        source: Source::Cache(|cache| &cache.passed),
    },
    Metric {
        name: "weir_cache_fills_total",
        kind: Kind::Counter,
        help: "Requests that asked the origin for something to store.",
        labels: &[&[ROUTE]],
        source: Source::Cache(|cache| &cache.fills),
    },
    Metric {
        name: "weir_cache_waits_total",
        kind: Kind::Counter,
        help: "Times that a request waited for what another one had asked for.",
        labels: &[&[ROUTE]],
        source: Source::Cache(|cache| &cache.waits),
    },
    Metric {
        name: "weir_cache_joins_total",
        kind: Kind::Counter,
        help: "Requests answered by what another one had asked for.",
        labels: &[&[ROUTE]],
        source: Source::Cache(|cache| &cache.joins),
    },
    Metric {
        name: "weir_cache_refreshes_total",
        kind: Kind::Counter,
        help: "Requests that weir made in the background.",
        labels: &[&[ROUTE]],
        source: Source::Cache(|cache| &cache.refreshes),
    },
    Metric {
        name: "weir_cache_invalidations_total",
        kind: Kind::Counter,
        help: "URLs whose stored responses ended because a request changed something.",
        labels: &[&[]],
        source: Source::Optional(invalidations),
    },
    Metric {
        name: "weir_cache_misses_total",
        kind: Kind::Counter,
        help: "Requests that asked the origin, by why, in the words of RFC 9211.",
        labels: &[&[ROUTE, MISS]],
        source: Source::Optional(misses),
    },
    Metric {
        name: "weir_cache_not_stored_total",
        kind: Kind::Counter,
        help: "Responses that were not stored, by why.",
        labels: &[&[ROUTE, NOT_STORED]],
        source: Source::Optional(not_stored),
    },
    Metric {
        name: "weir_cache_bytes",
        kind: Kind::Gauge,
        help: "Bytes stored.",
        labels: &[&[TIER]],
        source: Source::Optional(|counted| tiers(counted, |tier| tier.bytes)),
    },
    Metric {
        name: "weir_cache_bytes_max",
        kind: Kind::Gauge,
        help: "Bytes that may be stored.",
        labels: &[&[TIER]],
        source: Source::Optional(|counted| tiers(counted, |tier| tier.bytes_max)),
    },
    Metric {
        name: "weir_cache_objects",
        kind: Kind::Gauge,
        help: "Keys in memory, variants on disk.",
        labels: &[&[TIER]],
        source: Source::Optional(|counted| tiers(counted, |tier| tier.objects)),
    },
    Metric {
        name: "weir_cache_evictions_total",
        kind: Kind::Counter,
        help: "What had to make room.",
        labels: &[&[TIER]],
        source: Source::Optional(|counted| tiers(counted, |tier| tier.evictions)),
    },
    Metric {
        name: "weir_cache_unread_fills",
        kind: Kind::Gauge,
        help: "Responses that arrive to be stored and that nobody reads.",
        labels: &[&[]],
        source: Source::Optional(|counted| of_cache(counted, |cache| cache.unread.taken())),
    },
    Metric {
        name: "weir_cache_unread_fills_refused_total",
        kind: Kind::Counter,
        help: "Responses that nobody read, given up because there were 64 already.",
        labels: &[&[]],
        source: Source::Optional(|counted| of_cache(counted, |cache| cache.unread.refused())),
    },
    Metric {
        name: "weir_cache_refreshes_refused_total",
        kind: Kind::Counter,
        help: "Times that a refresh was due while 256 were under way.",
        labels: &[&[]],
        source: Source::Optional(|counted| of_cache(counted, |cache| cache.refreshing.refused())),
    },
    Metric {
        name: "weir_cache_purges_total",
        kind: Kind::Counter,
        help: "[Purges](cache.md#purging) that were asked for.",
        labels: &[&[PURGE]],
        source: Source::Optional(purges),
    },
    Metric {
        name: "weir_cache_purged_total",
        kind: Kind::Counter,
        help: "Keys in memory and variants on disk that purges met.",
        labels: &[&[TIER]],
        source: Source::Optional(purged),
    },
    Metric {
        name: "weir_cache_disk_indexed",
        kind: Kind::Gauge,
        help: "1 once the files of the last run are indexed; nothing is written before. Only with a disk.",
        labels: &[&[]],
        source: Source::Optional(|counted| of_disk(counted, |disk| u64::from(disk.is_indexed))),
    },
    Metric {
        name: "weir_cache_disk_damaged_total",
        kind: Kind::Counter,
        help: "Files dropped because they were not what they should be. Only with a disk.",
        labels: &[&[]],
        source: Source::Optional(|counted| of_disk(counted, |disk| disk.damaged)),
    },
    Metric {
        name: "weir_cache_disk_full_total",
        kind: Kind::Counter,
        help: "Writes that met a full file system. Only with a disk.",
        labels: &[&[]],
        source: Source::Optional(|counted| of_disk(counted, |disk| disk.disk_full)),
    },
];

const MISS: Label = Label {
    name: "reason",
    values: || Forwarded::ALL.map(Forwarded::name).to_vec(),
};
const NOT_STORED: Label = Label {
    name: "reason",
    values: || NotStored::ALL.map(NotStored::name).to_vec(),
};
const TIER: Label = Label {
    name: "tier",
    values: || vec!["memory", "disk"],
};
const PURGE: Label = Label {
    name: "kind",
    values: || vec!["hard", "soft"],
};

fn invalidations(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    counted.shared.cache()?;
    let sum = counted.sum(|worker| &worker.invalidations);
    Some(vec![Sample::new(&[], sum)])
}

fn misses(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    by_reason(counted, CacheMetrics::misses)
}

fn not_stored(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    by_reason(counted, CacheMetrics::refusals)
}

fn by_reason(
    counted: &Counted<'_>,
    of: fn(&[&CacheMetrics]) -> Vec<(&'static str, u64)>,
) -> Option<Vec<Sample>> {
    counted.shared.cache()?;
    let samples = counted.cached_routes().flat_map(|(route, tables)| {
        let counts = of(&tables).into_iter().filter(|(_, count)| *count > 0);
        counts.map(move |(reason, count)| Sample::new(&[route, reason], count))
    });
    Some(samples.collect())
}

fn tiers(counted: &Counted<'_>, of: fn(&TierCounts) -> u64) -> Option<Vec<Sample>> {
    counted.shared.cache()?;
    let tiers = counted.tiers.iter();
    let samples = tiers.map(|tier| Sample::new(&[tier.name], of(tier)));
    Some(samples.collect())
}

fn of_cache(counted: &Counted<'_>, of: fn(&Cache) -> u64) -> Option<Vec<Sample>> {
    let cache = counted.shared.cache()?;
    Some(vec![Sample::new(&[], of(cache))])
}

fn purges(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    let counts = &counted.shared.cache()?.purge_counts;
    Some(vec![
        Sample::new(&["hard"], counts.hard.read()),
        Sample::new(&["soft"], counts.soft.read()),
    ])
}

fn purged(counted: &Counted<'_>) -> Option<Vec<Sample>> {
    let counts = &counted.shared.cache()?.purge_counts;
    Some(vec![
        Sample::new(&["memory"], counts.in_memory.read()),
        Sample::new(&["disk"], counts.on_disk.read()),
    ])
}

fn of_disk(counted: &Counted<'_>, of: fn(&DiskStats) -> u64) -> Option<Vec<Sample>> {
    let disk = counted.shared.cache()?.tiers.disk()?;
    Some(vec![Sample::new(&[], of(&disk.stats()))])
}
