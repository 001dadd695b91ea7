//! The cache of all workers: both tiers, the fills in progress, and what belongs to them. This file opens, purges and
//! counts it; it does not look up or store anything for a request.

use std::sync::Arc;

use weir_cache::store::tiers::Purged;
use weir_cache::store::{
    Answer, DiskConfig, DiskStore, MemoryConfig, MemoryStore, PurgeKind, PurgeScope, Purges, Share,
    StoreError, Tiers, Transient,
};

use crate::metrics::PurgeCounts;
use crate::settings::{Action, CacheStorage, Route};
use crate::start_error::StartError;
use crate::state::bound::Bound;
use crate::state::carried::carried;
use crate::state::compressor::Compressor;
use crate::state::fills::{Fills, Remembered};

/// The most fills in progress without readers.
const UNREAD_MAX: usize = 64;
/// The most refreshes in progress.
const REFRESHES_MAX: usize = 256;

/// The cache of all workers.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) tiers: Tiers,
    pub(crate) compressor: Compressor,
    pub(crate) fills: Fills,
    /// What is held for clients and not stored, such as fills on their way to RAM.
    pub(crate) transient: Arc<Transient>,
    /// Fills that go on without readers, and refreshes.
    pub(crate) unread: Bound,
    pub(crate) refreshing: Bound,
    /// Keys whose last answer was not to be shared: their requests do not wait for each other.
    pub(crate) unshared: Remembered,
    /// The same for requests with cookies alone.
    pub(crate) unshared_with_cookies: Remembered,
    /// Keys that were refreshed in the background without anything to store so far.
    pub(crate) refreshed: Remembered,
    /// How often keys were asked for that are not stored yet.
    pub(crate) uses: Remembered,
    /// What operators have purged.
    pub(crate) purge_counts: PurgeCounts,
}

/// What a tier holds now, and how many objects it has evicted since the start.
#[derive(Debug)]
pub(crate) struct TierCounts {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    /// Keys in memory, or variants on disk.
    pub(crate) objects: u64,
    pub(crate) evictions: u64,
}

impl Cache {
    /// Opens the cache as `storage` says. It shares RAM with what `transient` counts, which is resized.
    pub(crate) fn open(
        storage: &CacheStorage,
        transient: &Arc<Transient>,
    ) -> Result<Self, StartError> {
        let purges = Arc::<Purges>::default();
        let disk = storage.disk.as_ref().map(|disk| {
            let config = DiskConfig::with_budget(disk.path.clone(), disk.bytes);
            DiskStore::open(config, Arc::clone(&purges)).map_err(|error| {
                StartError::Cache(disk.path.display().to_string(), error.to_string())
            })
        });
        let memory = MemoryConfig::with_budget(storage.memory_bytes);
        let transient = Arc::clone(transient);
        let memory = MemoryStore::beside(Arc::clone(&transient), memory, Arc::clone(&purges));
        let disk = disk.transpose()?;
        transient.resize(storage.transient_bytes);
        Ok(Self {
            tiers: Tiers::new(memory, disk, purges),
            compressor: Compressor::default(),
            fills: Fills::default(),
            transient,
            unread: Bound::new(UNREAD_MAX),
            refreshing: Bound::new(REFRESHES_MAX),
            unshared: Remembered::default(),
            unshared_with_cookies: Remembered::default(),
            refreshed: Remembered::default(),
            uses: Remembered::default(),
            purge_counts: PurgeCounts::default(),
        })
    }

    /// Ends what is stored or on its way. When this returns, no request that begins later finds it as it was, on any
    /// worker.
    pub(crate) async fn purge(
        &self,
        scope: PurgeScope,
        kind: PurgeKind,
    ) -> Result<Purged, StoreError> {
        let covered = scope.clone();
        let announced = || self.fills.cut_off(&covered);
        self.tiers.purge(scope, kind, announced).await
    }

    /// Ends what a request has changed, like [`Cache::purge`], but without waiting for the disk. When this returns, no
    /// request that begins later finds it as it was. The answer comes once no restart can bring it back either.
    pub(crate) fn end(&self, scope: PurgeScope, kind: PurgeKind) -> Answer<()> {
        let covered = scope.clone();
        let announced = || self.fills.cut_off(&covered);
        self.tiers.end(scope, kind, announced)
    }

    /// How many fills are in progress, and how many bytes are counted for them.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, u64) {
        (self.fills.len(), self.transient.bytes())
    }

    /// What each tier holds.
    pub(crate) fn tier_counts(&self) -> Vec<TierCounts> {
        let memory = self.tiers.memory().stats();
        let in_memory = TierCounts {
            name: "memory",
            bytes: memory.bytes,
            bytes_max: memory.bytes_max,
            objects: memory.entries,
            evictions: memory.evicted,
        };
        let on_disk = self.tiers.disk().map(|disk| {
            let disk = disk.stats();
            TierCounts {
                name: "disk",
                bytes: disk.bytes,
                bytes_max: disk.bytes_max,
                objects: disk.objects,
                evictions: disk.evicted,
            }
        });
        [in_memory].into_iter().chain(on_disk).collect()
    }

    /// Whether anything with this URL may be stored or on its way.
    pub(crate) fn may_hold(&self, url: &PurgeScope) -> bool {
        // In this order: what leaves the fills has been stored before.
        self.fills.holds(url) || self.tiers.may_hold(url)
    }
}

/// The share of RAM of a route, if it caches: the one `before`, unless its settings have changed.
pub(crate) fn share(route: &Route, before: Option<&Arc<Share>>) -> Option<Arc<Share>> {
    let Action::Forward(rule) = &route.action else {
        return None;
    };
    let policy = rule.cache.as_deref()?;
    let bytes_max = policy.memory_bytes_max.unwrap_or(u64::MAX);
    let is_same = |share: &&Arc<Share>| {
        (share.bytes_max, share.variants_max) == (bytes_max, policy.variants_max)
    };
    let share = carried(before.filter(is_same), || {
        Share::new(bytes_max, policy.variants_max)
    });
    Some(share)
}
