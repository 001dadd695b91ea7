//! Deadlines without timer objects: a thread's tick looks through one table.
//!
//! Every connection owns one slot. Setting a deadline is one store; a connection whose deadline has passed is woken by
//! the next tick: a deadline is kept to within a tick, never early.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How often a thread looks at its deadlines.
pub(crate) const TICK: Duration = Duration::from_millis(20);

const NEVER: u64 = u64::MAX;

/// The deadlines of one thread's connections.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    table: RefCell<Vec<Slot>>,
}

#[derive(Debug)]
struct Slot {
    due_ns: u64,
    waker: Option<Waker>,
}

impl Deadlines {
    /// Wakes every connection whose deadline has passed.
    pub(crate) fn tick(&self, now_ns: u64) {
        for slot in self.table.borrow_mut().iter_mut() {
            // Waking only marks the task as ready, it runs nothing that could come back here.
            if slot.due_ns <= now_ns
                && let Some(waker) = slot.waker.take()
            {
                slot.due_ns = 0;
                waker.wake();
            }
        }
    }

    /// Brings all deadlines after `due_ns` forward to it.
    pub(crate) fn cap(&self, due_ns: u64) {
        for slot in self.table.borrow_mut().iter_mut() {
            slot.due_ns = slot.due_ns.min(due_ns);
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
    /// Connections live as long as the run, so slots are not given back.
    pub(crate) fn new(deadlines: &Rc<Deadlines>) -> Self {
        let mut table = deadlines.table.borrow_mut();
        table.push(Slot {
            due_ns: NEVER,
            waker: None,
        });
        Self {
            deadlines: Rc::clone(deadlines),
            slot: table.len() - 1,
        }
    }

    /// Replaces the deadline.
    pub(crate) fn set(&self, due_ns: u64) {
        self.deadlines.table.borrow_mut()[self.slot].due_ns = due_ns;
    }

    /// Whether the deadline has passed, for a task that is too busy to wait for a tick.
    pub(crate) fn has_passed(&self, now_ns: u64) -> bool {
        self.deadlines.table.borrow()[self.slot].due_ns <= now_ns
    }

    /// Ready once a tick has found the deadline passed; the task is woken then.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let slot = &mut self.deadlines.table.borrow_mut()[self.slot];
        if slot.due_ns == 0 {
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
