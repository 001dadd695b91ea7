//! A worker: one thread that owns everything its connections use.
//!
//! It shares with other workers only what [`Shared`] names, which is read on the hot path and written elsewhere. A
//! connection lives and dies on the worker that serves it.
//!
//! A worker takes up a new configuration as soon as it hears of it. Requests that begin from then on use it, and those
//! that began before keep theirs. No request checks whether there is a new one.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::task::JoinHandle;

use crate::buffers::Buffers;
use crate::deadline::{self, Deadlines, TICK};
use crate::failure::Failure;
use crate::held_bodies::Claim;
use crate::state::clock::Clock;
use crate::state::encoder::Encoders;
use crate::state::log::LogBuffer;
use crate::state::shared::Shared;
use crate::state::snapshot::{Snapshot, UpstreamState};
use crate::state::view::View;

/// Ticks between two checks of the idle upstream connections.
const SWEEP_TICKS: u64 = 10;
/// While a worker is cut off, it lets all deadlines expire once in this many ticks.
const CUT_OFF_TICKS: u64 = 5;

/// The state of one worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    view: RefCell<Rc<View>>,
    pub(crate) buffers: Buffers,
    pub(crate) encoders: Encoders,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) random: RefCell<fastrand::Rng>,
    pub(crate) log: Option<LogBuffer>,
    pub(crate) clock: Clock,
    is_over: Cell<bool>,
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>, log: Option<LogBuffer>) -> Rc<Self> {
        let place = (index, shared.metrics.len());
        let view = View::succeed(None, &shared.snapshot(), &shared.metrics[index], place);
        let transient = Arc::clone(&shared.slow.transient);
        let encoders = Encoders::new(Arc::clone(&shared.metrics[index]), transient);
        Rc::new(Self {
            index,
            shared,
            view: RefCell::new(Rc::new(view)),
            buffers: Buffers::default(),
            encoders,
            deadlines: deadline::table(),
            random: RefCell::new(fastrand::Rng::new()),
            log,
            clock: Clock::default(),
            is_over: Cell::default(),
        })
    }

    /// Room for a body that is held for a slow client.
    pub(crate) fn claim(&self) -> Claim {
        let bytes_max = self.view.borrow().snapshot.held_body_bytes;
        Claim::new(&self.shared.held_bodies, bytes_max)
    }

    /// The configuration for a request that begins now.
    pub(crate) fn view(&self) -> Rc<View> {
        Rc::clone(&self.view.borrow())
    }

    /// Whether requests that begin now use `view`.
    pub(crate) fn is_current(&self, view: &Rc<View>) -> bool {
        Rc::ptr_eq(view, &self.view.borrow())
    }

    /// Requests that begin from now on use `snapshot`.
    pub(crate) fn take_up(&self, snapshot: &Arc<Snapshot>) {
        let (before, generation) = (self.view(), snapshot.generation);
        if generation != before.snapshot.generation {
            let place = (self.index, self.shared.metrics.len());
            let view = View::succeed(Some(&before), snapshot, &before.metrics, place);
            *self.view.borrow_mut() = Rc::new(view);
            if let (Some(log), Some(settings)) = (&self.log, &snapshot.access_log) {
                log.follow(settings);
            }
            let mut listeners = before.snapshot.listeners.iter();
            if listeners.any(|listening| listening.is_closing()) {
                // Idle connections check whether they must end.
                self.deadlines.wake_all();
            }
        }
        self.shared.taken_up[self.index].store(generation, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.shared.is_draining.load(Ordering::Relaxed)
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.shared.is_cut_off.load(Ordering::Relaxed)
    }

    /// What a failure means once draining is over: a deadline that expires then is our fault alone.
    pub(crate) fn meaning_of(&self, failure: Failure) -> Failure {
        match failure {
            Failure::HeadTimeout
            | Failure::BodyTimeout
            // The time to take a response is over, too.
            | Failure::ClientGone
            | Failure::ConnectTimeout
            | Failure::ResponseTimeout
            | Failure::ResponseCut
            | Failure::ServiceTimeout
                if self.is_cut_off() =>
            {
                Failure::ShutDown
            }
            other => other,
        }
    }

    /// Starts a task that the worker cannot serve without. If another task panics, only its connection is lost.
    pub(crate) fn begin(
        self: &Rc<Self>,
        task: impl Future<Output = ()> + 'static,
    ) -> JoinHandle<()> {
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let mut task = pin!(task);
            let is_whole = poll_fn(|cx| {
                let poll = AssertUnwindSafe(|| task.as_mut().poll(cx));
                let polled = catch_unwind(poll).map(|ready| ready.map(|()| true));
                // A future that has panicked is not polled again.
                polled.unwrap_or(Poll::Ready(false))
            });
            if !is_whole.await {
                worker.shared.has_failed[worker.index].store(true, Ordering::Relaxed);
            }
        })
    }

    /// Does everything that depends on time, until the worker ends.
    pub(crate) async fn keep_time(self: Rc<Self>) {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut ticks = 0;
        let mut was_draining = false;
        let mut cut_off_ticks = 0;
        while !self.is_over.get() {
            interval.tick().await;
            self.clock.update();
            let since_start = self.shared.since_start();
            self.turned(since_start.as_millis() as u64);
            self.deadlines.tick(since_start.as_nanos() as u64);
            self.shared.slow.relieve(self.deadlines.now_ms());
            if !was_draining && self.is_draining() {
                was_draining = true;
                self.deadlines.wake_all();
            }
            if self.is_cut_off() {
                // Not in every tick, so that the client can read the last bytes before the connection closes.
                if cut_off_ticks % CUT_OFF_TICKS == 0 {
                    self.deadlines.expire_all();
                }
                cut_off_ticks += 1;
            }
            let view = self.view();
            view.snapshot
                .upstreams
                .iter()
                .for_each(UpstreamState::sweep);
            if ticks % SWEEP_TICKS == 0 {
                self.sweep(since_start.as_millis() as u64);
            }
            if let Some(log) = &self.log {
                log.tick(self.is_draining());
            }
            ticks += 1;
        }
        // The worker has ended, so nothing more is expected of it.
        self.turned(u64::MAX);
    }

    fn turned(&self, at_ms: u64) {
        if !self.shared.has_failed(self.index) {
            self.shared.turned[self.index].store(at_ms, Ordering::Relaxed);
        }
    }

    /// Ends the tasks that depend on time; they would keep the worker's state alive.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
    }

    fn sweep(&self, now_ms: u64) {
        for endpoint in self.view().endpoints() {
            if endpoint.state.is_leaving() {
                endpoint.pool.clear();
            }
            endpoint.pool.sweep(now_ms);
            endpoint.metrics().idle.set(endpoint.pool.len() as u64);
        }
    }
}
