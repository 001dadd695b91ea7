//! Deadlines without timer objects: a tick looks through one table.
//!
//! Each thread has a table of its own, in which every connection owns one slot. Setting a deadline is one store. The tick
//! wakes a connection whose deadline has passed, so that a deadline is up to two ticks late and never early. That is what
//! waits of seconds need. Only what is shorter takes a timer of the runtime's: a [`Due`].

use std::cell::{Cell, RefCell};
use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// The deadlines of one thread's connections.
///
/// Its time is a number of nanoseconds since a moment that its owner has chosen, and moves by [`Deadlines::tick`] alone.
#[derive(Debug)]
pub struct Deadlines {
    tick_ns: u64,
    stall: Stall,
    now_ns: Cell<u64>,
    slots: RefCell<Slots>,
}

/// What becomes of deadlines when the thread has stood still, so that no tick came for longer than two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// They move by as much. Nobody has seen yet what the peers did meanwhile.
    Excused,
    /// They pass as if nothing had happened.
    Counted,
}

#[derive(Debug, Default)]
struct Slots {
    table: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot {
    due_ns: u64,
    waker: Option<Waker>,
}

impl Slot {
    const EMPTY: Self = Self {
        due_ns: u64::MAX,
        waker: None,
    };
}

impl Deadlines {
    /// An empty table. Its owner calls [`Deadlines::tick`] every `tick`.
    pub fn new(tick: Duration, stall: Stall) -> Self {
        Self {
            tick_ns: nanoseconds(tick),
            stall,
            now_ns: Cell::default(),
            slots: RefCell::default(),
        }
    }

    /// Moves the time forward and wakes every connection whose deadline has passed.
    pub fn tick(&self, now_ns: u64) {
        let before_ns = self.now_ns.replace(now_ns);
        let stood_ns = (now_ns - before_ns).saturating_sub(self.tick_ns);
        if self.stall == Stall::Excused && stood_ns > self.tick_ns {
            for slot in &mut self.slots.borrow_mut().table {
                if slot.due_ns > before_ns {
                    slot.due_ns = slot.due_ns.saturating_add(stood_ns);
                }
            }
        }
        self.wake(|slot| slot.due_ns <= now_ns);
    }

    /// The time of the last tick, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ns.get() / 1_000_000
    }

    /// Wakes every connection, so that it looks at a change of what it shares with others.
    pub fn wake_all(&self) {
        self.wake(|_| true);
    }

    /// Lets every deadline pass that is set now.
    pub fn expire_all(&self) {
        self.cap(0);
        self.wake_all();
    }

    /// Brings all deadlines after `due_ns` forward to it, also those that were never set.
    pub fn cap(&self, due_ns: u64) {
        for slot in &mut self.slots.borrow_mut().table {
            slot.due_ns = slot.due_ns.min(due_ns);
        }
    }

    fn due_after(&self, after: Duration) -> u64 {
        // The last tick may be nearly one tick ago.
        let wait_ns = nanoseconds(after).saturating_add(self.tick_ns);
        self.now_ns.get().saturating_add(wait_ns)
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

/// One connection's deadline. There is none until one is set.
#[derive(Debug)]
pub struct Timer {
    deadlines: Rc<Deadlines>,
    slot: usize,
}

impl Timer {
    /// Takes a slot of the table, until it is dropped.
    pub fn new(deadlines: &Rc<Deadlines>) -> Self {
        let mut slots = deadlines.slots.borrow_mut();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.table.push(Slot::EMPTY);
            slots.table.len() - 1
        });
        drop(slots);
        Self {
            deadlines: Rc::clone(deadlines),
            slot,
        }
    }

    /// The deadline is `after` from now, never earlier, and up to two ticks later; it replaces the one before.
    pub fn set(&self, after: Duration) {
        self.set_at(self.deadlines.due_after(after));
    }

    /// The same for whoever knows the time better than the table: the deadline is at `due_ns`, and up to a tick later.
    pub fn set_at(&self, due_ns: u64) {
        self.deadlines.slots.borrow_mut().table[self.slot].due_ns = due_ns;
    }

    /// The same as [`Timer::set`], unless the deadline is sooner already.
    pub fn set_within(&self, after: Duration) {
        self.set_at(self.deadlines.due_after(after).min(self.due_ns()));
    }

    /// Whether the deadline has passed at `now_ns`, for a task that is too busy to wait for a tick.
    pub fn has_passed(&self, now_ns: u64) -> bool {
        self.due_ns() <= now_ns
    }

    /// The table that it is in.
    pub fn deadlines(&self) -> Rc<Deadlines> {
        Rc::clone(&self.deadlines)
    }

    /// The time of the table, see [`Deadlines::now_ms`].
    pub fn now_ms(&self) -> u64 {
        self.deadlines.now_ms()
    }

    /// Ready once the deadline has passed. Until then the task is woken when it does.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let slot = &mut self.deadlines.slots.borrow_mut().table[self.slot];
        if slot.due_ns <= self.deadlines.now_ns.get() {
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

    fn due_ns(&self) -> u64 {
        self.deadlines.slots.borrow().table[self.slot].due_ns
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut slots = self.deadlines.slots.borrow_mut();
        slots.table[self.slot] = Slot::EMPTY;
        slots.free.push(self.slot);
    }
}

/// What is longer than five centuries never ends.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A moment that is kept to within a millisecond, or none at all, which costs nothing.
#[derive(Debug, Default)]
pub struct Due(Option<Pin<Box<Sleep>>>);

impl Due {
    /// None at all.
    pub fn never() -> Self {
        Self(None)
    }

    /// This one. It takes a timer of the runtime's.
    pub fn at(moment: Instant) -> Self {
        Self(Some(Box::pin(tokio::time::sleep_until(moment.into()))))
    }

    /// Ready from that moment on. Until then the task is woken when it comes.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);
    const TICK_NS: u64 = TICK.as_nanos() as u64;

    fn table(stall: Stall) -> Rc<Deadlines> {
        Rc::new(Deadlines::new(TICK, stall))
    }

    fn is_due(timer: &Timer) -> bool {
        timer
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    /// The tick at which a deadline of a second passes, when every tick comes in time but those between 0.5 s and 5 s.
    fn due_tick(stall: Stall) -> Option<u64> {
        let deadlines = table(stall);
        let (soon, never) = (Timer::new(&deadlines), Timer::new(&deadlines));
        soon.set(Duration::from_secs(1));
        let mut due_from = None;
        for tick in (1..=5).chain(50..=70) {
            deadlines.tick(tick * TICK_NS);
            if is_due(&soon) {
                due_from.get_or_insert(tick);
            }
            assert!(!is_due(&never));
        }
        due_from
    }

    #[test]
    fn a_thread_that_stands_still_lets_no_deadline_pass() {
        assert_eq!(due_tick(Stall::Excused), Some(55));
    }

    #[test]
    fn where_stalls_count_a_deadline_passes_as_soon_as_it_can() {
        assert_eq!(due_tick(Stall::Counted), Some(50));
    }

    #[test]
    fn a_deadline_is_two_ticks_late_at_most_and_never_early() {
        let deadlines = table(Stall::Counted);
        let timer = Timer::new(&deadlines);
        deadlines.tick(TICK_NS);
        // The clock says nearly two ticks by now.
        timer.set(TICK);
        deadlines.tick(3 * TICK_NS - 1);
        assert!(!is_due(&timer));
        deadlines.tick(3 * TICK_NS);
        assert!(is_due(&timer));
    }

    #[test]
    fn a_deadline_at_a_moment_has_passed_before_the_tick_that_finds_it() {
        let deadlines = table(Stall::Counted);
        let timer = Timer::new(&deadlines);
        timer.set_at(50);
        assert_eq!(
            [49, 50].map(|now_ns| timer.has_passed(now_ns)),
            [false, true]
        );
        assert!(!is_due(&timer));
        deadlines.tick(50);
        assert!(is_due(&timer));
    }

    #[test]
    fn the_sooner_deadline_counts_within_another_and_below_a_cap() {
        let deadlines = table(Stall::Counted);
        let [short, long] = [TICK, 10 * TICK].map(|after| {
            let timer = Timer::new(&deadlines);
            timer.set(after);
            timer.set_within(5 * TICK);
            timer
        });
        deadlines.tick(2 * TICK_NS);
        assert_eq!([&short, &long].map(is_due), [true, false]);
        deadlines.tick(6 * TICK_NS);
        assert!(is_due(&long));
        long.set(10 * TICK);
        deadlines.cap(7 * TICK_NS);
        deadlines.tick(7 * TICK_NS);
        assert!(is_due(&long));
    }

    #[test]
    fn a_slot_is_given_back_without_its_deadline() {
        let deadlines = table(Stall::Counted);
        let timer = Timer::new(&deadlines);
        timer.set_at(0);
        drop(timer);
        let timer = Timer::new(&deadlines);
        assert!(!is_due(&timer));
        assert_eq!(deadlines.slots.borrow().table.len(), 1);
    }
}
