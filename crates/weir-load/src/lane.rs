//! What the connections of a thread share: what to send, where to record it, who is woken when, and the time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use weir_socket::deadline::{Deadlines, Stall};

use crate::audit::Usage;
use crate::outcome::Outcome;
use crate::pacer::Pacer;
use crate::plan::Plan;
use crate::recorder::{Handover, Recorder};
use crate::response::SeenHead;
use crate::source::{Next, Source, Start};
use crate::thread::{Halt, ThreadEnd, ThreadStart};
use crate::wire::Wire;

/// Bytes read at once. All connections of a thread share the buffer, so it stays in the processor's cache.
const READ_BYTES: usize = 64 << 10;
/// How often a thread looks at its deadlines.
const TICK: Duration = Duration::from_millis(20);
/// Ticks between two hand-overs.
const HANDOVER_TICKS: u64 = 5;

/// How long requests in flight may take to end when the run is halted.
const HALT_GRACE: Duration = Duration::from_millis(500);

/// The state of a thread that its connections share.
pub(crate) struct Lane {
    pub(crate) plan: Arc<Plan>,
    pub(crate) wire: RefCell<Wire>,
    pub(crate) recorder: RefCell<Recorder>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) read_buffer: RefCell<Vec<u8>>,
    pub(crate) seen_head: RefCell<SeenHead>,
    pub(crate) timeout_ns: u64,
    epoch: Instant,
    pacer: Pacer,
    /// `None` until the load starts.
    source: RefCell<Option<Source>>,
    handover: Arc<Handover>,
    halt: Arc<Halt>,
    usage: Cell<Usages>,
    abandoned: Cell<u64>,
    in_flight: Cell<usize>,
    /// As many requests as the connections of this thread can carry at once.
    capacity: usize,
    /// When the planned time is over; never for a number of requests.
    time_is_over_ns: Cell<u64>,
    is_over: Cell<bool>,
}

/// What the thread had used when counting began and when sending ended.
#[derive(Debug, Clone, Copy, Default)]
struct Usages {
    began: Option<Usage>,
    sent: Option<Usage>,
}

impl Lane {
    pub(crate) fn new(start: &ThreadStart) -> std::io::Result<Self> {
        Ok(Self {
            plan: Arc::clone(&start.plan),
            wire: RefCell::new(Wire::new(&start.plan)),
            recorder: RefCell::default(),
            // A server that is late is late, also when this thread stood still. The audit tells of that.
            deadlines: Rc::new(Deadlines::new(TICK, Stall::Counted)),
            read_buffer: RefCell::new(Vec::with_capacity(READ_BYTES)),
            seen_head: RefCell::default(),
            timeout_ns: start.plan.timeout.as_nanos() as u64,
            epoch: start.epoch,
            pacer: Pacer::new()?,
            source: RefCell::new(None),
            handover: Arc::clone(&start.handover),
            halt: Arc::clone(&start.halt),
            usage: Cell::default(),
            abandoned: Cell::new(0),
            in_flight: Cell::new(0),
            capacity: start.connections * start.plan.depth(),
            time_is_over_ns: Cell::new(u64::MAX),
            is_over: Cell::new(false),
        })
    }

    pub(crate) fn start(&self, source: Source, start_ns: u64) {
        if source.is_counting(start_ns) {
            self.usage.set(Usages {
                began: Some(Usage::of_this_thread(start_ns)),
                sent: None,
            });
        }
        self.time_is_over_ns.set(source.time_is_over_ns());
        *self.source.borrow_mut() = Some(source);
    }

    /// Nanoseconds on the run's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.halt.at_ns() != Halt::NEVER
    }

    /// The request that connection `id` sends, which is free at `now_ns`. After [`Next::WaitUntil`] it is woken when
    /// one is due.
    pub(crate) fn next(&self, id: usize, now_ns: u64, cx: &Context<'_>) -> Next {
        let next = self.take(now_ns, self.pacer.has_waited(id));
        match next {
            Next::WaitUntil(due_ns) => {
                self.pacer.wait(id, cx);
                self.pacer.ring_at(due_ns, now_ns);
            }
            Next::Send(_) | Next::Over => {
                self.pacer.leave(id);
                self.pace(now_ns);
            }
        }
        next
    }

    /// The request that a connection sends right after an answer, if one is due.
    pub(crate) fn next_at_once(&self, now_ns: u64) -> Next {
        self.take(now_ns, false)
    }

    fn take(&self, now_ns: u64, has_waited: bool) -> Next {
        if self.is_halted() {
            return Next::Over;
        }
        let mut next = match &mut *self.source.borrow_mut() {
            Some(source) => source.next(now_ns),
            None => Next::Over,
        };
        if let Next::Send(start) = &mut next {
            start.in_flight = self.in_flight.get() + 1;
            self.in_flight.set(start.in_flight);
        }
        if let Next::Send(start) = next
            && start.is_counted
        {
            let mut recorder = self.recorder.borrow_mut();
            recorder.sent += 1;
            recorder.last_sent_ns = now_ns;
            if !self.plan.arrivals.is_closed() {
                // A connection was free, so only this thread made the request late.
                if has_waited || self.pacer.has_idle() {
                    recorder.lag(now_ns - start.intended_ns);
                } else {
                    recorder.lag(0);
                    recorder.sent_late += 1;
                }
            }
        }
        next
    }

    /// Records how a request ended.
    pub(crate) fn record(&self, start: Start, outcome: Outcome, now_ns: u64) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        let mut third = None;
        if !self.plan.arrivals.is_closed()
            && let Some(source) = &mut *self.source.borrow_mut()
        {
            source.ended(now_ns);
            third = source.third_of(start.intended_ns);
            let held_ns = now_ns.saturating_sub(start.sent_ns);
            let held = &mut self.recorder.borrow_mut().held;
            held.note(held_ns, start.in_flight, self.capacity);
        }
        if start.is_counted {
            let mut recorder = self.recorder.borrow_mut();
            let latency_ns = now_ns.saturating_sub(start.intended_ns);
            recorder.outcomes.record(outcome, latency_ns);
            recorder.lapses.note(start.intended_ns, outcome, latency_ns);
            if let Some(third) = third.filter(|_| outcome.is_good()) {
                recorder.trend.note(third, latency_ns);
            }
            recorder.last_ended_ns = now_ns;
            if now_ns > self.time_is_over_ns.get() {
                recorder.overtime += 1;
                recorder.overtime_good += u64::from(outcome.is_good());
            }
        }
    }

    /// Counts a request that a halt cuts off.
    pub(crate) fn abandon(&self, start: Start) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        self.abandoned
            .set(self.abandoned.get() + u64::from(start.is_counted));
    }

    /// Takes connection `id` off the list of those that wait for a due request.
    pub(crate) fn leave(&self, id: usize) {
        self.pacer.leave(id);
    }

    /// Wakes a connection for a request that is due, and sets the timer for the next one.
    fn pace(&self, now_ns: u64) {
        if !self.pacer.has_idle() {
            return;
        }
        let next = match &*self.source.borrow() {
            Some(source) => source.look(now_ns),
            None => return,
        };
        match next {
            // The connection comes back here, so each one of a burst wakes the next.
            Next::Send(_) => self.pacer.wake_one(),
            Next::WaitUntil(due_ns) => self.pacer.ring_at(due_ns, now_ns),
            Next::Over => self.pacer.wake_all(),
        }
    }

    /// Does what depends on time and not on requests.
    fn tick(&self, now_ns: u64) {
        self.deadlines.tick(now_ns);
        if self.is_halted() {
            self.pacer.wake_all();
            self.deadlines.cap(now_ns + HALT_GRACE.as_nanos() as u64);
        }
        let mut usage = self.usage.get();
        if let Some(source) = &*self.source.borrow() {
            if usage.began.is_none() && source.is_counting(now_ns) {
                usage.began = Some(Usage::of_this_thread(now_ns));
            }
            if usage.sent.is_none() && source.look(now_ns) == Next::Over {
                usage.sent = Some(Usage::of_this_thread(now_ns));
            }
        }
        self.usage.set(usage);
    }

    /// Ends the lane: all connections are over.
    pub(crate) fn close(&self) {
        self.is_over.set(true);
        self.pacer.ring_at(0, self.now_ns());
    }

    pub(crate) fn end(&self) -> ThreadEnd {
        let now_ns = self.now_ns();
        let now = Usage::of_this_thread(now_ns);
        let usage = self.usage.get();
        let began = usage.began.unwrap_or(now);
        let sent = usage.sent.unwrap_or(now);
        let source = self.source.borrow();
        ThreadEnd {
            recorder: self.recorder.take(),
            overrun: source.as_ref().map(Source::overrun).unwrap_or_default(),
            // What became due while the last answers were awaited was not to be sent.
            not_sent: source
                .as_ref()
                .map_or(0, |source| source.not_sent(now_ns.min(self.halt.at_ns()))),
            abandoned: self.abandoned.get(),
            sending: sent.since(began),
            ending: now.since(sent),
        }
    }
}

/// Drives everything that depends on time, until the thread is over.
pub(crate) async fn keep_time(lane: Rc<Lane>) {
    let tick_ns = TICK.as_nanos() as u64;
    let (mut next_tick_ns, mut ticks) = (0, 0_u64);
    while !lane.is_over.get() {
        let now_ns = lane.now_ns();
        if now_ns >= next_tick_ns {
            lane.tick(now_ns);
            next_tick_ns = now_ns + tick_ns;
            ticks += 1;
            if ticks % HANDOVER_TICKS == 0 {
                lane.handover.offer(&mut lane.recorder.borrow_mut());
            }
        }
        lane.pacer.ring_at(next_tick_ns, now_ns);
        lane.pace(now_ns);
        lane.pacer.rings().await;
    }
}
