//! Clients that keep memory in use by not taking what they asked for, and who of them is cut off when that memory is short.
//!
//! A response that cannot be sent on at once waits for its client ([`Slow`]), and says what it holds meanwhile. When the
//! budget of all that is held for clients ([`Transient`]) is used up, the next tick of a worker first asks for what can be had
//! again without harm, and then cuts off clients, the slowest first: the one that lies furthest behind a client that takes
//! [`PACE`]. A client that keeps that up, or lies behind for less than [`PATIENCE_MS`], is never cut off.
//!
//! A response that goes out at once never comes here.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use weir_cache::store::{Grant, Transient};

use crate::worker::Worker;

/// Bytes a second that an ordinary client takes.
const PACE: u64 = 64 << 10;
/// How far behind that a client has to lie before it is cut off.
const PATIENCE_MS: u64 = 5_000;
/// How far ahead of an ordinary client one counts at most.
const AHEAD_MS_MAX: u64 = 10_000;
/// How long a client has to wait before what can be had again is asked for.
const PATIENCE_FOR_LETTING_GO_MS: u64 = 100;
/// All that wait for their clients, of all workers.
#[derive(Debug)]
pub(crate) struct SlowClients {
    pub(crate) transient: Arc<Transient>,
    waiting: Mutex<List>,
    /// Clients that were cut off.
    pub(crate) cut: AtomicU64,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    entries: BTreeMap<u64, Arc<Entry>>,
}

/// What a response holds while it waits.
pub(crate) struct Holding {
    /// How many bytes come free when it ends.
    pub(crate) bytes: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Whether it can let go of them without ending.
    pub(crate) may_let_go: bool,
}

impl Holding {
    /// What `grant` counts, and cannot be had again.
    pub(crate) fn of(grant: &Arc<Grant>) -> Self {
        let grant = Arc::clone(grant);
        Self {
            bytes: Box::new(move || grant.bytes()),
            may_let_go: false,
        }
    }
}

struct Entry {
    holding: Holding,
    /// When an ordinary client would have taken the last of what this one took.
    since_ms: AtomicU64,
    is_waiting: AtomicBool,
    is_cut: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("since_ms", &self.since_ms)
            .finish_non_exhaustive()
    }
}

/// It is to let go of what it holds, or, if it cannot, to end.
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

    /// Makes room where there is none. For a worker's tick; it looks at nobody while there is room.
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
            // One that was cut off and has not gone yet is about to.
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

    /// Those that may be asked or cut off: first those that can let go, and of either the slowest first.
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

/// One response that may have to wait for its client. Costs nothing until it has to.
#[derive(Debug)]
pub(crate) struct Slow<'a> {
    worker: &'a Worker,
    own: Option<(u64, Arc<Entry>)>,
    /// How far it lay behind when it last went on; below zero, how far ahead.
    behind_ms: i64,
}

impl<'a> Slow<'a> {
    pub(crate) fn new(worker: &'a Worker) -> Self {
        Self {
            worker,
            own: None,
            behind_ms: 0,
        }
    }

    /// The budget of what it holds.
    pub(crate) fn transient(&self) -> &'a Arc<Transient> {
        &self.worker.shared.slow.transient
    }

    /// The client has taken so much.
    pub(crate) fn took(&mut self, bytes: u64) {
        if let Some((_, entry)) = &self.own {
            let since_ms = entry.since_ms.load(Ordering::Relaxed);
            let since_ms = caught_up(since_ms, bytes, self.worker.deadlines.now_ms());
            entry.since_ms.store(since_ms, Ordering::Relaxed);
        }
    }

    /// It waits for its client, holding what `holding` says, until it is cut off.
    pub(crate) fn poll_cut(
        &mut self,
        holding: impl FnOnce() -> Holding,
        cx: &Context<'_>,
    ) -> Poll<Cut> {
        let now_ms = self.worker.deadlines.now_ms();
        let since_ms = now_ms.saturating_add_signed(-self.behind_ms);
        let (_, entry) = self.own.get_or_insert_with(|| {
            let entry = Arc::new(Entry {
                holding: holding(),
                since_ms: AtomicU64::new(since_ms),
                is_waiting: AtomicBool::new(true),
                is_cut: AtomicBool::new(false),
                waker: Mutex::default(),
            });
            let mut waiting = lock(&self.worker.shared.slow.waiting);
            let id = waiting.next;
            waiting.next += 1;
            waiting.entries.insert(id, Arc::clone(&entry));
            (id, entry)
        });
        if !entry.is_waiting.load(Ordering::Relaxed) {
            entry.since_ms.store(since_ms, Ordering::Relaxed);
            entry.is_waiting.store(true, Ordering::Relaxed);
        }
        let mut waker = lock(&entry.waker);
        if !waker.as_ref().is_some_and(|own| own.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        // Whoever cuts it off says so before it takes the waker.
        if entry.is_cut.load(Ordering::Relaxed) {
            return Poll::Ready(Cut);
        }
        Poll::Pending
    }

    /// It waits for its client no longer.
    pub(crate) fn goes_on(&mut self) {
        if let Some((_, entry)) = &self.own
            && entry.is_waiting.swap(false, Ordering::Relaxed)
        {
            let since_ms = entry.since_ms.load(Ordering::Relaxed);
            let now_ms = self.worker.deadlines.now_ms();
            self.behind_ms = now_ms.cast_signed() - since_ms.cast_signed();
        }
    }

    /// It has let go of everything, and may wait as long as it likes.
    pub(crate) fn lets_go(&mut self) {
        if let Some((id, _)) = self.own.take() {
            let mut waiting = lock(&self.worker.shared.slow.waiting);
            let entry = waiting.entries.remove(&id);
            drop(waiting);
            // What it holds may be freed now, outside of the lock.
            drop(entry);
        }
    }

    /// What comes of sending `bytes`, unless it is cut off before.
    pub(crate) async fn unless_cut<T>(
        &mut self,
        bytes: usize,
        holding: impl Fn() -> Holding,
        sending: impl Future<Output = T>,
    ) -> Result<T, Cut> {
        let mut sending = pin!(sending);
        let sent = poll_fn(|cx| match sending.as_mut().poll(cx) {
            Poll::Ready(sent) => Poll::Ready(Ok(sent)),
            Poll::Pending => self.poll_cut(&holding, cx).map(Err),
        })
        .await;
        self.took(bytes as u64);
        self.goes_on();
        sent
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.lets_go();
    }
}

/// Since when a client lies behind that has taken so much more: as much later as an ordinary one takes for that, and so far
/// ahead of the time at most as the kernel may take from us at once, for a client that then seems to take nothing.
fn caught_up(since_ms: u64, bytes: u64, now_ms: u64) -> u64 {
    let gained_ms = bytes.saturating_mul(1000) / PACE;
    since_ms
        .saturating_add(gained_ms)
        .min(now_ms + AHEAD_MS_MAX)
}

/// Every critical section here leaves its values whole, so a thread that panicked in one has broken nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        // 20 bytes are to come free.
        clients.relieve(now_ms);
        assert_eq!(cut(&entries), [true, true, false, false, false]);
        // Who was cut off and has not gone yet makes room for others.
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
    fn who_can_let_go_is_asked_before_anybody_is_cut() {
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

    #[test]
    fn who_keeps_pace_never_lies_behind() {
        let cases = [
            (0, PACE, 10_000, 1000),
            (0, PACE / 2, 10_000, 500),
            (0, 20 * PACE, 10_000, 20_000),
            (0, 21 * PACE, 10_000, 20_000),
            (0, u64::MAX, 10_000, 20_000),
            (7, 0, 10_000, 7),
        ];
        for (since_ms, bytes, now_ms, expected) in cases {
            assert_eq!(caught_up(since_ms, bytes, now_ms), expected);
        }
    }
}
