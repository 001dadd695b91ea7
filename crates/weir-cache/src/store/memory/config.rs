//! The limits of the RAM tier, and its figures. Nothing here does anything.

/// Limits of the RAM tier.
#[derive(Debug, Clone, Copy)]
pub struct MemoryConfig {
    /// Bytes of everything stored, bookkeeping included.
    pub bytes_max: u64,
    /// Bytes of one object; a larger one is refused.
    pub object_bytes_max: u64,
    /// The approximate size of an object; it decides how many evicted keys are remembered. A factor of ten either way
    /// costs about a point of hit ratio.
    pub object_bytes_mean: u64,
    /// Variants kept for one primary key if its share does not say; the oldest are removed first.
    pub variants_max: usize,
    /// Seed of the hash of keys, so that outsiders cannot choose keys that collide.
    pub seed: u64,
}

impl MemoryConfig {
    /// Usual limits within a budget, with a random seed.
    pub fn with_budget(bytes_max: u64) -> Self {
        let (object_bytes_max, object_bytes_mean) =
            (bytes_max / 8, (16 << 10).min(bytes_max / 64).max(1));
        let seed = fastrand::Rng::new().u64(..);
        Self {
            bytes_max,
            object_bytes_max,
            object_bytes_mean,
            variants_max: 16,
            seed,
        }
    }
}

/// Counts since the store was made, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes stored.
    pub bytes: u64,
    /// Bytes that may be stored.
    pub bytes_max: u64,
    /// Primary keys stored.
    pub entries: u64,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Objects stored.
    pub inserted: u64,
    /// Entries evicted to make room.
    pub evicted: u64,
    /// Objects that were not admitted.
    pub refused: u64,
}
