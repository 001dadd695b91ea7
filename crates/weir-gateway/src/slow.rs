//! Clients that keep memory in use by not taking what they asked for, and who of them is cut off when that memory is short.
//!
//! A response that cannot be sent on at once waits for its client ([`Slow`]), and says what it holds meanwhile. When the
//! budget of all that is held for clients ([`Transient`]) is used up, the next tick of a worker first asks for what can be had
//! again without harm, and then cuts off clients, the slowest first: the one that lies furthest behind a client that takes
//! [`PACE`]. A client that keeps that up, or lies behind for less than five seconds, is never cut off.
//!
//! A response that goes out at once never comes here.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use weir_cache::store::Transient;

use crate::lock::lock;
use crate::state::slow::{Cut, Entry, Holding};
use crate::state::worker::Worker;

/// Bytes a second that an ordinary client takes.
const PACE: u64 = 64 << 10;
/// How far ahead of an ordinary client one counts at most.
const AHEAD_MS_MAX: u64 = 10_000;

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
    pub(crate) fn resume(&mut self) {
        if let Some((_, entry)) = &self.own
            && entry.is_waiting.swap(false, Ordering::Relaxed)
        {
            let since_ms = entry.since_ms.load(Ordering::Relaxed);
            let now_ms = self.worker.deadlines.now_ms();
            self.behind_ms = now_ms.cast_signed() - since_ms.cast_signed();
        }
    }

    /// It has let go of everything, and may wait as long as it likes.
    pub(crate) fn let_go(&mut self) {
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
        self.resume();
        sent
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.let_go();
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

#[cfg(test)]
mod tests {
    use super::*;

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
