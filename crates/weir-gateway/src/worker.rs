//! A worker: one thread that owns everything its connections use.
//!
//! Nothing here is shared with other workers but what [`Shared`] names, and that is read on the hot path and written
//! off it. A connection lives and dies on the worker that serves it.
//!
//! A new configuration is taken up as soon as the worker hears of it: requests that begin from then on see it, and those
//! that began before keep the one they have. No request looks whether there is one.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_http::date::Civil;

use weir_cache::Timestamp;

use crate::access_log::LogBuffer;
use crate::buffers::Buffers;
use crate::cache::Cache;
use crate::compress::encoder::Encoders;
use crate::connection::round::Round;
use crate::deadline::{Deadlines, TICK};
use crate::failure::Failure;
use crate::held_bodies::{Claim, HeldBodies};
use crate::listener::Reception;
use crate::listener::admission::Admission;
use crate::metrics::WorkerMetrics;
use crate::slow::SlowClients;
use crate::snapshot::{Snapshot, UpstreamState};
use crate::time;
use crate::view::View;

/// Ticks between two looks at the idle upstream connections.
const SWEEP_TICKS: u64 = 10;
/// Ticks between two times that a worker that is cut off lets all deadlines pass.
const CUT_OFF_TICKS: u64 = 5;
/// A worker that has not turned for so long serves nobody: its tick comes twenty times in that time.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// Rounds kept for reuse; as many requests may be on their way at once without allocating.
const KEPT_ROUNDS_MAX: usize = 1024;

/// What all workers see.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The configuration. Whoever replaces it is `control.rs`.
    pub(crate) current: watch::Sender<Arc<Snapshot>>,
    /// The generation of the configuration that each worker has taken up.
    pub(crate) taken_up: Vec<AtomicU64>,
    pub(crate) admission: Admission,
    /// Client connections open on each worker, for spreading new ones.
    pub(crate) open: Vec<AtomicUsize>,
    pub(crate) metrics: Vec<Arc<WorkerMetrics>>,
    /// What all workers remember; empty until a route does.
    pub(crate) cache: OnceLock<Arc<Cache>>,
    /// What is held for clients, and for which of them.
    pub(crate) slow: SlowClients,
    /// Bodies held for slow clients.
    pub(crate) held_bodies: Arc<HeldBodies>,
    pub(crate) is_draining: AtomicBool,
    /// Draining has taken too long: whatever still runs ends now.
    pub(crate) is_cut_off: AtomicBool,
    /// When each worker last turned, in milliseconds since the start.
    turned: Vec<AtomicU64>,
    /// Whether something has panicked without which a worker serves nobody.
    has_failed: Vec<AtomicBool>,
    /// Reloads that were put to work, and those that were refused.
    pub(crate) reloads: [AtomicU64; 2],
    started: Instant,
}

impl Shared {
    /// What workers of `snapshot` share when they begin.
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        workers: usize,
        admission: Admission,
        slow: SlowClients,
    ) -> Self {
        Self {
            current: watch::Sender::new(snapshot),
            taken_up: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            admission,
            open: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            metrics: (0..workers).map(|_| WorkerMetrics::new()).collect(),
            cache: OnceLock::new(),
            slow,
            held_bodies: Arc::default(),
            is_draining: AtomicBool::new(false),
            is_cut_off: AtomicBool::new(false),
            turned: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            has_failed: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            reloads: Default::default(),
            started: time::now(),
        }
    }

    /// The configuration that requests begin with now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    /// The time that deadlines and the health of endpoints are kept in.
    pub(crate) fn since_start(&self) -> Duration {
        time::now().saturating_duration_since(self.started)
    }

    /// For how many milliseconds each worker has not turned. One that has ended is not asked to.
    pub(crate) fn standstills(&self) -> impl Iterator<Item = u64> {
        let now_ms = self.since_start().as_millis() as u64;
        let turned = self
            .turned
            .iter()
            .map(|turned| turned.load(Ordering::Relaxed));
        turned.map(move |turned| now_ms.saturating_sub(turned))
    }

    /// The workers that serve nobody any more, and for how many milliseconds they have not turned.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = (usize, u64)> {
        let standstills = self.standstills().enumerate();
        standstills.filter(|&(_, for_ms)| for_ms >= STUCK_AFTER.as_millis() as u64)
    }

    /// Whether this worker has panicked.
    pub(crate) fn has_failed(&self, worker: usize) -> bool {
        self.has_failed[worker].load(Ordering::Relaxed)
    }

    pub(crate) fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.get()
    }
}

/// One worker's own things.
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
    rounds: RefCell<Vec<Round>>,
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
            deadlines: Rc::default(),
            random: RefCell::new(fastrand::Rng::new()),
            log,
            clock: Clock::default(),
            rounds: RefCell::default(),
            is_over: Cell::default(),
        })
    }

    /// Room for a body that is held for a slow client.
    pub(crate) fn claim(&self) -> Claim {
        let bytes_max = self.view.borrow().snapshot.held_body_bytes;
        Claim::new(&self.shared.held_bodies, bytes_max)
    }

    /// The configuration that a request beginning now is served by.
    pub(crate) fn view(&self) -> Rc<View> {
        Rc::clone(&self.view.borrow())
    }

    /// Whether requests that begin now see what `view` says.
    pub(crate) fn is_current(&self, view: &Rc<View>) -> bool {
        Rc::ptr_eq(view, &self.view.borrow())
    }

    /// Takes up every configuration as it comes, until the worker has stopped accepting because it drains.
    pub(crate) async fn follow(self: Rc<Self>, reception: Reception) {
        let mut changes = self.shared.current.subscribe();
        let mut accepting = Vec::new();
        while !self.is_draining() {
            let snapshot = Arc::clone(&changes.borrow_and_update());
            self.take_up(&snapshot);
            reception.open(&mut accepting);
            // The sender belongs to what this worker shares, so it is there.
            let _ = changes.changed().await;
        }
        for accept in accepting {
            let _ = accept.await;
        }
    }

    /// Requests that begin from now on are served by `snapshot`.
    fn take_up(&self, snapshot: &Arc<Snapshot>) {
        let (before, generation) = (self.view(), snapshot.generation);
        if generation != before.snapshot.generation {
            let place = (self.index, self.shared.metrics.len());
            let view = View::succeed(Some(&before), snapshot, &before.metrics, place);
            *self.view.borrow_mut() = Rc::new(view);
            let mut listeners = before.snapshot.listeners.iter();
            if listeners.any(|listening| listening.is_closing()) {
                // Idle connections look whether they are to end.
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

    /// What a failure is when draining is over: that a deadline passed then is nobody's fault but ours.
    pub(crate) fn meaning_of(&self, failure: Failure) -> Failure {
        match failure {
            Failure::HeadTimeout
            | Failure::BodyTimeout
            | Failure::ConnectTimeout
            | Failure::ResponseTimeout
            | Failure::ResponseCut
                if self.is_cut_off() =>
            {
                Failure::ShutDown
            }
            other => other,
        }
    }

    pub(crate) fn take_round(&self) -> Round {
        self.rounds.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the memory of a request that is over for the next one.
    pub(crate) fn put_round(&self, round: Round) {
        let mut kept = self.rounds.borrow_mut();
        if kept.len() < KEPT_ROUNDS_MAX {
            kept.push(round);
        }
    }

    /// Begins a task without which the worker serves nobody. Other tasks that panic take a connection along and no more.
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
                // What has panicked is not polled again.
                polled.unwrap_or(Poll::Ready(false))
            });
            if !is_whole.await {
                worker.shared.has_failed[worker.index].store(true, Ordering::Relaxed);
            }
        })
    }

    /// Does everything that goes by time until the worker ends.
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
            self.deadlines.tick(since_start);
            self.shared.slow.relieve(self.deadlines.now_ms());
            if !was_draining && self.is_draining() {
                was_draining = true;
                self.deadlines.wake_all();
            }
            if self.is_cut_off() {
                // Now and then, so that what is written last can be read before the connection closes.
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
        // It has ended, and is asked for nothing more.
        self.turned(u64::MAX);
    }

    fn turned(&self, at_ms: u64) {
        if !self.shared.has_failed(self.index) {
            self.shared.turned[self.index].store(at_ms, Ordering::Relaxed);
        }
    }

    /// Ends the tasks that go by time, which would keep the worker's things alive.
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

/// The time of day as text, made once a second.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    unix_seconds: Cell<u64>,
    /// One moment on both clocks: that of the system, which may be set, and the one that only runs forward.
    both: Cell<Option<(Instant, u64)>>,
    texts: RefCell<ClockTexts>,
}

/// The forms in which the time of day is written.
#[derive(Debug, Default)]
pub(crate) struct ClockTexts {
    /// For `Date`.
    pub(crate) imf_fixdate: Vec<u8>,
    /// For the combined log.
    pub(crate) clf: Vec<u8>,
    /// For the JSON log.
    pub(crate) iso8601: Vec<u8>,
}

impl Clock {
    pub(crate) fn texts(&self) -> std::cell::Ref<'_, ClockTexts> {
        self.texts.borrow()
    }

    /// The time of day at `instant`.
    pub(crate) fn timestamp(&self, instant: Instant) -> Timestamp {
        let (then, ms) = self.both.get().unwrap_or((instant, 0));
        let passed = instant.saturating_duration_since(then).as_millis() as u64;
        Timestamp::from_ms(ms + passed)
    }

    pub(crate) fn update(&self) {
        let since = time::since_1970();
        self.both.set(Some((time::now(), since.as_millis() as u64)));
        let seconds = since.as_secs();
        if self.unix_seconds.replace(seconds) == seconds {
            return;
        }
        let civil = Civil::from_unix(seconds);
        let mut texts = self.texts.borrow_mut();
        let ClockTexts {
            imf_fixdate,
            clf,
            iso8601,
        } = &mut *texts;
        for text in [&mut *imf_fixdate, &mut *clf, &mut *iso8601] {
            text.clear();
        }
        civil.write_imf_fixdate(imf_fixdate);
        civil.write_clf(clf);
        civil.write_iso8601(iso8601);
    }
}
