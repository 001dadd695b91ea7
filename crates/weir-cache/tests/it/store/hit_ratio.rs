//! How often RAM has what is asked for, beside an exact LRU of the same bytes on the same trace: a Zipf law of 0.9 over a
//! working set of four times the budget. Everything is seeded; the figures are the same in each run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use weir_cache::store::{DiskConfig, DiskStore, MemoryConfig, MemoryStore, Object, Purges, Tiers};

use super::Directory;
use super::tiers::block_on;

const OBJECTS: usize = 10_000;
const REQUESTS: usize = 600_000;
/// Fewer, where each miss of RAM is a job of the disk.
const REQUESTS_WITH_DISK: usize = 200_000;

/// Bytes of each object, and the objects that are asked for, one after the other.
struct Trace {
    sizes: Vec<usize>,
    requests: Vec<usize>,
}

impl Trace {
    fn new(requests: usize, size: impl Fn(&mut fastrand::Rng) -> usize) -> Self {
        let mut random = fastrand::Rng::with_seed(0x5eed);
        let sizes = (0..OBJECTS).map(|_| size(&mut random)).collect();
        let mut objects: Vec<usize> = (0..OBJECTS).collect();
        random.shuffle(&mut objects);
        let mut sum = 0.0;
        let cumulated: Vec<f64> = (1..=OBJECTS)
            .map(|rank| {
                sum += (rank as f64).powf(-0.9);
                sum
            })
            .collect();
        let mut request = || {
            let at = random.f64() * sum;
            objects[cumulated
                .partition_point(|below| *below < at)
                .min(OBJECTS - 1)]
        };
        let requests = (0..requests).map(|_| request()).collect();
        Self { sizes, requests }
    }

    fn object(&self, index: usize, purges: &Purges) -> Object {
        // The bytes are shared, so that the trace does not need the RAM that it is about.
        static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
        let body = vec![Bytes::from_static(&ZEROS[..self.sizes[index]])];
        Object::new(b"", purges.ticket(), Bytes::new(), Bytes::new(), body)
    }

    fn weights(&self) -> Vec<u64> {
        let purges = Purges::default();
        (0..OBJECTS)
            .map(|index| self.object(index, &purges).weight() + 8)
            .collect()
    }

    fn memory(&self, bytes_max: u64, purges: &Arc<Purges>) -> MemoryStore {
        let object_bytes_mean = self.weights().iter().sum::<u64>() / OBJECTS as u64;
        let config = MemoryConfig {
            object_bytes_mean,
            seed: 1,
            ..MemoryConfig::with_budget(bytes_max)
        };
        MemoryStore::new(config, Arc::clone(purges))
    }

    /// RAM alone: what it does not have is asked for and offered to it.
    fn percent_of_store(&self, bytes_max: u64) -> f64 {
        let purges = Arc::new(Purges::default());
        let store = self.memory(bytes_max, &purges);
        for index in &self.requests {
            let key = index.to_be_bytes();
            if store.get(&key).is_none() {
                store.insert(&key, Arc::new(self.object(*index, &purges)));
            }
            assert!(store.stats().bytes <= bytes_max);
        }
        self.percent(store.stats().hits)
    }

    /// RAM in front of a disk that all objects fit on, as the gateway uses them. Only what RAM had counts as a hit.
    fn percent_of_tiers(&self, bytes_max: u64) -> f64 {
        let purges = Arc::new(Purges::default());
        let directory = Directory::new("hit-ratio");
        let disk = DiskConfig::with_budget(directory.path().to_owned(), 1 << 30);
        let disk = DiskStore::open(disk, Arc::clone(&purges)).unwrap();
        while !disk.stats().is_indexed {
            std::thread::yield_now();
        }
        let memory = self.memory(bytes_max, &purges);
        let tiers = Tiers::new(memory, Some(disk), Arc::clone(&purges));
        for index in &self.requests {
            let key = index.to_be_bytes();
            if let Some(entry) = tiers.find(&key) {
                entry.variant(b"");
            } else if let Some(stored) = tiers.find_on_disk(&key).first() {
                block_on(tiers.fetch(&key, stored, None)).unwrap();
            } else {
                tiers.insert(&key, &Arc::new(self.object(*index, &purges)));
            }
            // A disk that is busy would be asked for less, differently in each run.
            while tiers.has_demotions() {
                std::thread::yield_now();
            }
        }
        self.percent(tiers.memory().stats().hits)
    }

    /// An exact LRU of the same bytes. Its objects are as heavy as those of the store, bookkeeping included, or as heavy as
    /// their bodies alone, as if it needed none.
    fn percent_of_lru(&self, bytes_max: u64, weights: &[u64]) -> f64 {
        let (mut last_use, mut by_use) = (HashMap::new(), BTreeMap::new());
        let (mut bytes, mut hits) = (0, 0);
        for (time, index) in self.requests.iter().enumerate() {
            if let Some(before) = last_use.insert(*index, time) {
                by_use.remove(&before);
                hits += 1;
            } else {
                bytes += weights[*index];
            }
            by_use.insert(time, *index);
            while bytes > bytes_max {
                let (_, oldest) = by_use.pop_first().unwrap();
                last_use.remove(&oldest);
                bytes -= weights[oldest];
            }
        }
        self.percent(hits)
    }

    fn points_above_lru(&self, ratio: fn(&Self, u64) -> f64) -> f64 {
        let weights = self.weights();
        let bytes_max = weights.iter().sum::<u64>() / 4;
        let bodies: Vec<_> = self.sizes.iter().map(|size| *size as u64).collect();
        let (store, lru, weightless) = (
            ratio(self, bytes_max),
            self.percent_of_lru(bytes_max, &weights),
            self.percent_of_lru(bytes_max, &bodies),
        );
        println!(
            "hit ratio of RAM: {store:.2} %, LRU {lru:.2} %, {:+.2} points; LRU without bookkeeping {weightless:.2} %, {:+.2} points",
            store - lru,
            store - weightless
        );
        store - lru
    }

    fn percent(&self, hits: u64) -> f64 {
        100.0 * hits as f64 / self.requests.len() as f64
    }
}

#[test]
fn objects_of_one_size_are_found_five_points_more_often_than_in_an_lru() {
    let trace = Trace::new(REQUESTS, |_| 4096);
    assert!(trace.points_above_lru(Trace::percent_of_store) >= 5.0);
}

/// What is found on disk goes to RAM at its second use there, which must not cost RAM its lead.
#[test]
fn with_a_disk_behind_it_ram_has_what_is_asked_for_five_points_more_often_than_an_lru() {
    let trace = Trace::new(REQUESTS_WITH_DISK, |_| 4096);
    assert!(trace.points_above_lru(Trace::percent_of_tiers) >= 5.0);
}

#[test]
fn objects_of_many_sizes_are_found_six_points_more_often_than_in_an_lru() {
    let log_normal = |random: &mut fastrand::Rng| {
        let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        ((8192.0 * (1.5 * normal).exp()) as usize).clamp(256, 1 << 20)
    };
    assert!(Trace::new(REQUESTS, log_normal).points_above_lru(Trace::percent_of_store) >= 6.0);
}
