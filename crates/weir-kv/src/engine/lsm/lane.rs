//! What waits for a thread: a bounded queue that is taken in batches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use crate::round;

/// So many at once, where several threads share a lane.
pub(super) const FEW: usize = 16;

/// A bounded queue for one thread or a few.
pub(super) struct Lane<T> {
    waiting: Mutex<Waiting<T>>,
    came: Condvar,
    /// The weight of what waits or is being done.
    weight: AtomicUsize,
    weight_max: usize,
    /// Threads that take.
    takers: AtomicUsize,
}

struct Waiting<T> {
    items: VecDeque<T>,
    is_closed: bool,
    /// Threads that sleep until something comes.
    sleeping: usize,
    /// Those that are about to wake one of them.
    waking: round::Threads,
}

/// Held by a thread that takes. A lane whose last thread panics refuses all that comes, where it would have it wait for ever.
pub(super) struct Taker<T: Send + 'static>(Arc<Lane<T>>);

impl<T: Send + 'static> Taker<T> {
    pub(super) fn new(lane: &Arc<Lane<T>>) -> Self {
        lane.takers.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(lane))
    }

    pub(super) fn lane(&self) -> &Lane<T> {
        &self.0
    }
}

impl<T: Send + 'static> Drop for Taker<T> {
    fn drop(&mut self) {
        let is_last = self.0.takers.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && std::thread::panicking() {
            self.0.fail();
        }
    }
}

/// Wakes one that sleeps when it is dropped.
struct Wakes<T>(Arc<Lane<T>>, ThreadId);

impl<T> Drop for Wakes<T> {
    fn drop(&mut self) {
        self.0.lock().waking.end(self.1);
        self.0.came.notify_one();
    }
}

impl<T> Lane<T> {
    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Lane<T> {
    pub(super) fn new(weight_max: usize) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                is_closed: false,
                sleeping: 0,
                waking: round::Threads::default(),
            }),
            came: Condvar::new(),
            weight: AtomicUsize::new(0),
            weight_max,
            takers: AtomicUsize::new(0),
        }
    }

    /// Adds an item of this weight; it comes back when too much waits already, or nothing is taken any more. A thread that sleeps is
    /// woken when the one that puts has put all that it has.
    pub(super) fn put(self: &Arc<Self>, item: T, weight: usize) -> Result<(), T> {
        let before = self.weight.fetch_add(weight, Ordering::AcqRel);
        if before > 0 && before + weight > self.weight_max {
            self.weight.fetch_sub(weight, Ordering::AcqRel);
            return Err(item);
        }
        let mut waiting = self.lock();
        if waiting.is_closed {
            drop(waiting);
            self.weight.fetch_sub(weight, Ordering::AcqRel);
            return Err(item);
        }
        waiting.items.push_back(item);
        let is_awaited = waiting.sleeping > 0;
        let wakes = is_awaited.then(|| waiting.waking.begin()).flatten();
        drop(waiting);
        if let Some(thread) = wakes {
            round::at_end(Wakes(Arc::clone(self), thread));
        }
        Ok(())
    }

    /// Up to so many items, as soon as there is one; `None` when nothing comes any more.
    pub(super) fn take(&self, most: usize) -> Option<VecDeque<T>> {
        let mut waiting = self.lock();
        while waiting.items.is_empty() {
            if waiting.is_closed {
                return None;
            }
            waiting.sleeping += 1;
            let woken = self.came.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
            waiting.sleeping -= 1;
        }
        if waiting.items.len() <= most {
            return Some(std::mem::take(&mut waiting.items));
        }
        Some(waiting.items.drain(..most).collect())
    }

    /// Items of this weight are done.
    pub(super) fn done(&self, weight: usize) {
        self.weight.fetch_sub(weight, Ordering::AcqRel);
    }

    /// Nothing more comes; what is here is taken.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.came.notify_all();
    }

    /// Whoever takes from it has failed: nothing more comes, and what is here gets no answer.
    fn fail(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        let lost = std::mem::take(&mut waiting.items);
        drop(waiting);
        self.came.notify_all();
        // What is dropped may put in more, which is refused.
        drop(lost);
        self.weight.store(0, Ordering::Release);
    }

    /// Whether nothing waits and nothing is being done.
    pub(super) fn is_empty(&self) -> bool {
        self.weight.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_whose_thread_panics_refuses_what_comes() {
        let lane = Arc::new(Lane::new(8));
        let dropped = Arc::new(());
        for _ in 0..3 {
            assert!(lane.put(Arc::clone(&dropped), 1).is_ok());
        }
        for is_failed in [false, true] {
            let other = Taker::new(&lane);
            let taker = Taker::new(&lane);
            if is_failed {
                drop(other);
            }
            let thread = std::thread::spawn(move || {
                assert!(taker.lane().take(1).is_none(), "it is not");
            });
            assert!(thread.join().is_err());
            assert_eq!(lane.is_empty(), is_failed);
        }
        assert_eq!(Arc::strong_count(&dropped), 1);
        assert!(lane.put(dropped, 1).is_err());
        assert!(lane.take(1).is_none());
    }
}
