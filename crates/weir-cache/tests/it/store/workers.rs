//! Several workers at one store: what a hit returns is always one whole object of the key that was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use weir_cache::store::{MemoryConfig, MemoryStore, Object, PurgeKind, PurgeScope, Purges};

#[test]
fn a_hit_is_whole_while_others_insert_and_purge() {
    let purges = Arc::new(Purges::default());
    let store = Arc::new(MemoryStore::new(
        MemoryConfig::with_budget(1 << 20),
        Arc::clone(&purges),
    ));
    let hits = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let (store, purges, hits) =
                (Arc::clone(&store), Arc::clone(&purges), Arc::clone(&hits));
            std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(worker);
                for _ in 0..20_000 {
                    let key = [random.u8(..), 0];
                    if random.u8(..) == 0 {
                        let scope = PurgeScope::Prefix([key[0]].into());
                        let ticket = purges.begin(&scope, PurgeKind::Hard);
                        store.sweep(&scope, PurgeKind::Hard);
                        purges.finish(ticket);
                    } else if let Some(entry) = store.get(&key) {
                        let body = &entry.variants()[0].body()[0];
                        assert!(body.iter().all(|byte| *byte == key[0]));
                        assert_eq!(body.len() as u64, entry.variants()[0].body_bytes());
                        hits.fetch_add(1, Ordering::Relaxed);
                    } else {
                        let body = vec![Bytes::from(vec![key[0]; random.usize(1..9000)])];
                        let object =
                            Object::new(b"", purges.ticket(), Bytes::new(), Bytes::new(), body);
                        store.insert(&key, Arc::new(object));
                    }
                    assert!(store.stats().bytes <= 1 << 20);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.hits as usize, hits.load(Ordering::Relaxed));
    assert!(stats.hits > 10_000 && stats.evicted > 0);
}
