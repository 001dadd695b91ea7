//! Deadlines without timer objects: a worker's tick looks through one table.
//!
//! Every connection owns one slot. Setting a deadline is one store; a connection whose deadline has passed is woken by
//! the tick, so a deadline is kept to within two ticks, never early, which is what waits of seconds need. Only what is
//! shorter takes a timer of the runtime's: a [`Due`].

use std::cell::{Cell, RefCell};
use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// How often a worker looks at its deadlines.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// The deadlines of one worker's connections.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    now_ms: Cell<u64>,
    slots: RefCell<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    table: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot {
    due_ms: u64,
    waker: Option<Waker>,
}

const NEVER: u64 = u64::MAX;

impl Deadlines {
    /// Moves the time forward and wakes every connection whose deadline has passed. Time in which the worker stood still
    /// counts for nobody: what others did meanwhile has yet to be seen.
    pub(crate) fn tick(&self, since_start: Duration) {
        let now = since_start.as_millis() as u64;
        let before = self.now_ms.replace(now);
        let stood_ms = (now - before).saturating_sub(TICK.as_millis() as u64);
        if stood_ms > TICK.as_millis() as u64 {
            for slot in &mut self.slots.borrow_mut().table {
                if slot.due_ms > before {
                    slot.due_ms = slot.due_ms.saturating_add(stood_ms);
                }
            }
        }
        self.wake(|slot| slot.due_ms <= now);
    }

    /// The time of the last tick, in milliseconds since the gateway started.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// Wakes every connection, so that it looks at a change of the worker's state.
    pub(crate) fn wake_all(&self) {
        self.wake(|_| true);
    }

    /// Lets every deadline pass that is set now.
    pub(crate) fn expire_all(&self) {
        for slot in &mut self.slots.borrow_mut().table {
            slot.due_ms = 0;
        }
        self.wake_all();
    }

    fn wake(&self, is_due: impl Fn(&Slot) -> bool) {
        for slot in &mut self.slots.borrow_mut().table {
            // Waking only marks the task as ready, it runs nothing that could come back here.
            if is_due(slot)
                && let Some(waker) = slot.waker.take()
            {
                waker.wake();
            }
        }
    }
}

/// One connection's deadline.
#[derive(Debug)]
pub(crate) struct Timer {
    deadlines: Rc<Deadlines>,
    slot: usize,
}

impl Timer {
    pub(crate) fn new(deadlines: &Rc<Deadlines>) -> Self {
        let mut slots = deadlines.slots.borrow_mut();
        let empty = Slot {
            due_ms: NEVER,
            waker: None,
        };
        let slot = if let Some(slot) = slots.free.pop() {
            slots.table[slot] = empty;
            slot
        } else {
            slots.table.push(empty);
            slots.table.len() - 1
        };
        drop(slots);
        Self {
            deadlines: Rc::clone(deadlines),
            slot,
        }
    }

    /// The deadline is `after` from now, never earlier, and up to two ticks later; it replaces the one before.
    pub(crate) fn set(&self, after: Duration) {
        // The last tick may be nearly one tick ago.
        let wait = (after + TICK).as_millis() as u64;
        let due_ms = self.deadlines.now_ms().saturating_add(wait);
        self.deadlines.slots.borrow_mut().table[self.slot].due_ms = due_ms;
    }

    /// The same, unless the deadline is sooner already.
    pub(crate) fn set_within(&self, after: Duration) {
        let due_ms = self.deadlines.slots.borrow().table[self.slot].due_ms;
        self.set(after);
        let slot = &mut self.deadlines.slots.borrow_mut().table[self.slot];
        slot.due_ms = slot.due_ms.min(due_ms);
    }

    /// The table that it is in.
    pub(crate) fn deadlines(&self) -> Rc<Deadlines> {
        Rc::clone(&self.deadlines)
    }

    /// The worker's time, see [`Deadlines::now_ms`].
    pub(crate) fn now_ms(&self) -> u64 {
        self.deadlines.now_ms()
    }

    /// Ready once the deadline has passed; until then the task is woken when it does.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let slot = &mut self.deadlines.slots.borrow_mut().table[self.slot];
        if slot.due_ms <= self.deadlines.now_ms.get() {
            return Poll::Ready(());
        }
        // One task waits with this timer all its life, so the waker is stored once.
        if !slot
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            slot.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// A moment that is kept to within a millisecond, or none at all, which costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Due(Option<Pin<Box<Sleep>>>);

impl Due {
    pub(crate) fn never() -> Self {
        Self(None)
    }

    pub(crate) fn at(moment: Instant) -> Self {
        Self(Some(Box::pin(tokio::time::sleep_until(moment.into()))))
    }

    /// Ready from that moment on; until then the task is woken when it comes.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut slots = self.deadlines.slots.borrow_mut();
        slots.table[self.slot] = Slot {
            due_ms: NEVER,
            waker: None,
        };
        slots.free.push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_due(timer: &Timer) -> bool {
        timer
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn a_worker_that_stands_still_lets_no_deadline_pass() {
        let deadlines = Rc::new(Deadlines::default());
        let (soon, never) = (Timer::new(&deadlines), Timer::new(&deadlines));
        soon.set(Duration::from_secs(1));
        let mut due_from = None;
        // Every tick comes in time, but between 0.5 s and 5 s there is none.
        for now_ms in (1..=5).chain(50..=70).map(|tick| tick * 100) {
            deadlines.tick(Duration::from_millis(now_ms));
            if is_due(&soon) {
                due_from.get_or_insert(now_ms);
            }
            assert!(!is_due(&never));
        }
        assert_eq!(due_from, Some(5_500));
    }
}
