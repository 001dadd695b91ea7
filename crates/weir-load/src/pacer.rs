//! The alarm clock of a thread: one kernel timer with nanosecond precision, and the list of connections that
//! wait for a request.
//!
//! The runtime's own timers round up to milliseconds. For a fast service that would be most of the latency.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Waker};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

const UNARMED: u64 = u64::MAX;

/// One timer, set to the earliest due instant.
#[derive(Debug)]
pub(crate) struct Pacer {
    timer: AsyncFd<OwnedFd>,
    /// The instant the timer is set to.
    armed_ns: Cell<u64>,
    idle: RefCell<Idle>,
}

/// Connections without a request. The one that has waited longest is first, so all of them are used.
#[derive(Debug, Default)]
struct Idle {
    order: VecDeque<usize>,
    wakers: Vec<Option<Waker>>,
    /// By connection: whether it has been on the list since its last request, woken or not.
    has_waited: Vec<bool>,
}

impl Pacer {
    /// Must be called inside a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe for the sake of descriptors that are not owned; this one is"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self {
            timer,
            armed_ns: Cell::new(UNARMED),
            idle: RefCell::default(),
        })
    }

    /// Makes [`Pacer::rings`] return at `due_ns`, or at an earlier instant that was set before.
    pub(crate) fn ring_at(&self, due_ns: u64, now_ns: u64) {
        if due_ns >= self.armed_ns.get() {
            return;
        }
        self.armed_ns.set(due_ns);
        // Zero would disarm the timer.
        let wait = due_ns.saturating_sub(now_ns).max(1);
        let wait = Duration::from_nanos(wait);
        let it_value = Timespec::try_from(wait).expect("a wait fits into a timer");
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value,
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)
            .expect("a timer can be set to any time");
    }

    /// Waits until the timer rings. Setting the timer again resets it, so it need not be read.
    pub(crate) async fn rings(&self) {
        let ready = self.timer.readable().await;
        ready.expect("the runtime outlives its tasks").clear_ready();
        self.armed_ns.set(UNARMED);
    }

    /// Puts a connection on the list, once.
    pub(crate) fn wait(&self, connection: usize, cx: &Context<'_>) {
        let idle = &mut *self.idle.borrow_mut();
        if idle.wakers.len() <= connection {
            idle.wakers.resize(connection + 1, None);
            idle.has_waited.resize(connection + 1, false);
        }
        idle.has_waited[connection] = true;
        let waker = &mut idle.wakers[connection];
        if waker.is_none() {
            idle.order.push_back(connection);
        }
        if !waker.as_ref().is_some_and(|own| own.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Whether a connection was free before now. One that has just lost its last request was not.
    pub(crate) fn has_waited(&self, connection: usize) -> bool {
        let idle = self.idle.borrow();
        idle.has_waited.get(connection).is_some_and(|it| *it)
    }

    /// Takes a connection off the list, if it is on it.
    pub(crate) fn leave(&self, connection: usize) {
        let idle = &mut *self.idle.borrow_mut();
        if let Some(has_waited) = idle.has_waited.get_mut(connection) {
            *has_waited = false;
        }
        let waker = idle.wakers.get_mut(connection);
        if waker.is_some_and(|waker| waker.take().is_some()) {
            idle.order.retain(|other| *other != connection);
        }
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.borrow().order.is_empty()
    }

    /// Wakes the connection that has waited longest.
    pub(crate) fn wake_one(&self) {
        let idle = &mut *self.idle.borrow_mut();
        let connection = idle.order.pop_front();
        if let Some(waker) = connection.and_then(|connection| idle.wakers[connection].take()) {
            waker.wake();
        }
    }

    pub(crate) fn wake_all(&self) {
        while self.has_idle() {
            self.wake_one();
        }
    }
}
