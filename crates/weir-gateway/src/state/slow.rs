//! Clients that keep memory in use because they read slowly: all of them, of all workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use weir_cache::store::{Grant, Transient};

use crate::lock::lock;

/// How far behind a client must be before it is cut off.
const PATIENCE_MS: u64 = 5_000;

/// How long a client must wait before it is asked to release memory that can be had again.
const PATIENCE_FOR_LETTING_GO_MS: u64 = 100;

/// All responses that wait for their clients, of all workers.
#[derive(Debug)]
pub(crate) struct SlowClients {
    pub(crate) transient: Arc<Transient>,
    pub(crate) waiting: Mutex<List>,
    /// Clients that were cut off.
    pub(crate) cut: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) next: u64,
    pub(crate) entries: BTreeMap<u64, Arc<Entry>>,
}

/// What a response holds while it waits.
pub(crate) struct Holding {
    /// How many bytes become free when it ends.
    pub(crate) bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Whether it can release them without ending.
    pub(crate) may_let_go: bool,
}

impl Holding {
    /// Holds what `grant` counts, which cannot be had again.
    pub(crate) fn of(grant: &Arc<Grant>) -> Self {
        let grant = Arc::clone(grant);
        Self {
            bytes: Box::new(move || grant.bytes()),
            may_let_go: false,
        }
    }
}

pub(crate) struct Entry {
    pub(crate) holding: Holding,
    /// When an ordinary client would have read all that this one has read.
    pub(crate) since_ms: AtomicU64,
    pub(crate) is_waiting: AtomicBool,
    pub(crate) is_cut: AtomicBool,
    pub(crate) waker: Mutex<Option<Waker>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("since_ms", &self.since_ms)
            .finish_non_exhaustive()
    }
}

/// The response must release what it holds or, if it cannot, end.
#[derive(Debug)]
pub(crate) struct Cut;

impl SlowClients {
    pub(crate) fn new(transient: Arc<Transient>) -> Self {
        Self {
            transient,
            waiting: Mutex::default(),
            cut: AtomicU64::new(0),
        }
    }

    /// Makes room if there is none. For a worker's tick; it looks at no client while there is room.
    pub(crate) fn relieve(&self, now_ms: u64) {
        let mut wanted = self.transient.take_shortage();
        if wanted == 0 {
            return;
        }
        for (entry, may_let_go) in self.in_order(now_ms) {
            if wanted == 0 {
                break;
            }
            let bytes = (entry.holding.bytes)();
            // One that was cut off and has not gone yet will go soon.
            wanted = wanted.saturating_sub(bytes);
            if bytes > 0 && !entry.is_cut.swap(true, Ordering::Relaxed) {
                if !may_let_go {
                    self.cut.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(waker) = lock(&entry.waker).take() {
                    waker.wake();
                }
            }
        }
    }

    /// Responses that may be asked or cut off: first those that can release memory, and the slowest of
    /// each first.
    fn in_order(&self, now_ms: u64) -> impl Iterator<Item = (Arc<Entry>, bool)> {
        let waiting = lock(&self.waiting);
        let entries = waiting.entries.values();
        let mut found: Vec<_> = entries
            .filter(|entry| entry.is_waiting.load(Ordering::Relaxed))
            .filter_map(|entry| {
                let may_let_go = entry.holding.may_let_go;
                let patience_ms = if may_let_go {
                    PATIENCE_FOR_LETTING_GO_MS
                } else {
                    PATIENCE_MS
                };
                let since_ms = entry.since_ms.load(Ordering::Relaxed);
                (now_ms.saturating_sub(since_ms) >= patience_ms)
                    .then(|| ((!may_let_go, since_ms), Arc::clone(entry)))
            })
            .collect();
        drop(waiting);
        found.sort_by_key(|(order, _)| *order);
        found
            .into_iter()
            .map(|((is_cut_off, _), entry)| (entry, !is_cut_off))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(bytes_max: u64) -> SlowClients {
        SlowClients::new(Transient::new(bytes_max))
    }

    fn waits(clients: &SlowClients, bytes: u64, since_ms: u64, may_let_go: bool) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            holding: Holding {
                bytes: Box::new(move || bytes),
                may_let_go,
            },
            since_ms: AtomicU64::new(since_ms),
            is_waiting: AtomicBool::new(true),
            is_cut: AtomicBool::new(false),
            waker: Mutex::default(),
        });
        let mut waiting = lock(&clients.waiting);
        let id = waiting.next;
        waiting.next += 1;
        waiting.entries.insert(id, Arc::clone(&entry));
        entry
    }

    fn cut(entries: &[Arc<Entry>]) -> Vec<bool> {
        let cut = |entry: &Arc<Entry>| entry.is_cut.load(Ordering::Relaxed);
        entries.iter().map(cut).collect()
    }

    #[test]
    fn the_slowest_are_cut_until_there_is_room() {
        let clients = clients(80);
        let held = Grant::new(&clients.transient);
        let now_ms = 100_000;
        let entries = [
            waits(&clients, 15, now_ms - PATIENCE_MS - 2, false),
            waits(&clients, 15, now_ms - PATIENCE_MS - 3, false),
            waits(&clients, 0, now_ms - PATIENCE_MS - 9, false),
            waits(&clients, 15, now_ms - PATIENCE_MS + 1, false),
            waits(&clients, 15, now_ms - PATIENCE_MS - 1, false),
        ];
        held.set(80);
        clients.relieve(now_ms);
        assert_eq!(cut(&entries), [false; 5], "there is room");
        held.set(90);
        // 20 bytes must become free.
        clients.relieve(now_ms);
        assert_eq!(cut(&entries), [true, true, false, false, false]);
        // One that was cut off and has not gone yet counts as room.
        clients.relieve(now_ms);
        assert_eq!(cut(&entries), [true, true, false, false, false]);
        held.set(101);
        clients.relieve(now_ms);
        clients.relieve(now_ms);
        assert_eq!(
            cut(&entries),
            [true, true, false, false, true],
            "not the one that is not late"
        );
        assert_eq!(clients.cut.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn clients_that_can_release_memory_are_asked_before_others_are_cut() {
        let clients = clients(80);
        let held = Grant::new(&clients.transient);
        let now_ms = 100_000;
        let entries = [
            waits(&clients, 15, 0, false),
            waits(&clients, 20, now_ms - PATIENCE_FOR_LETTING_GO_MS, true),
            waits(&clients, 20, now_ms, true),
        ];
        held.set(90);
        clients.relieve(now_ms);
        assert_eq!(cut(&entries), [false, true, false]);
        assert_eq!(clients.cut.load(Ordering::Relaxed), 0);
    }
}
