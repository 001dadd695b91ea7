//! A worker: one thread that owns everything its connections use.
//!
//! Nothing here is shared with other workers but what [`Shared`] names, and that is read on the hot path and written
//! off it. A connection lives and dies on the worker that serves it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_http::date::Civil;
use weir_policy::balance::Balancer;

use weir_cache::Timestamp;

use crate::access_log::LogBuffer;
use crate::buffers::Buffers;
use crate::cache::Cache;
use crate::compress::encoder::Encoders;
use crate::connection::round::Round;
use crate::deadline::{Deadlines, TICK};
use crate::failure::Failure;
use crate::listener::Admission;
use crate::metrics::WorkerMetrics;
use crate::snapshot::Snapshot;
use crate::upstream::pool::Pool;

/// Ticks between two looks at the idle upstream connections.
const SWEEP_TICKS: u64 = 10;
/// Ticks between two times that a worker that is cut off lets all deadlines pass.
const CUT_OFF_TICKS: u64 = 5;
/// Rounds kept for reuse; as many requests may be on their way at once without allocating.
const KEPT_ROUNDS_MAX: usize = 1024;

/// What all workers see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) admission: Admission,
    /// Client connections open on each worker, for spreading new ones.
    pub(crate) open: Vec<AtomicUsize>,
    pub(crate) metrics: Vec<Arc<WorkerMetrics>>,
    /// What all workers remember; `None` when no route does.
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) is_draining: AtomicBool,
    /// Draining has taken too long: whatever still runs ends now.
    pub(crate) is_cut_off: AtomicBool,
}

/// One worker's own things.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    view: Rc<View>,
    pub(crate) buffers: Buffers,
    pub(crate) encoders: Encoders,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) random: RefCell<fastrand::Rng>,
    pub(crate) log: Option<LogBuffer>,
    pub(crate) clock: Clock,
    rounds: RefCell<Vec<Round>>,
    is_over: Cell<bool>,
}

/// A snapshot with the state that this worker keeps for it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) upstreams: Vec<LocalUpstream>,
    pub(crate) metrics: Arc<WorkerMetrics>,
}

/// What a worker keeps for an upstream.
#[derive(Debug)]
pub(crate) struct LocalUpstream {
    pub(crate) balancer: RefCell<Balancer>,
    pub(crate) pools: Vec<Pool>,
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>, log: Option<LogBuffer>) -> Rc<Self> {
        let view = Rc::new(View::new(&shared, index));
        let encoders = Encoders::new(Arc::clone(&shared.metrics[index]));
        Rc::new(Self {
            index,
            shared,
            view,
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

    /// The configuration that a request beginning now is served by.
    pub(crate) fn view(&self) -> Rc<View> {
        Rc::clone(&self.view)
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
            let since_start = self.view.snapshot.since_start();
            self.deadlines.tick(since_start);
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
            if ticks % SWEEP_TICKS == 0 {
                self.sweep(since_start.as_millis() as u64);
            }
            if let Some(log) = &self.log {
                log.tick(self.is_draining());
            }
            ticks += 1;
        }
    }

    /// Ends the tasks that go by time, which would keep the worker's things alive.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
    }

    fn sweep(&self, now_ms: u64) {
        let upstreams = self.view.upstreams.iter().zip(&self.view.metrics.upstreams);
        for (upstream, metrics) in upstreams {
            for (pool, metrics) in upstream.pools.iter().zip(metrics) {
                pool.sweep(now_ms);
                metrics.idle.set(pool.len() as u64);
            }
        }
    }
}

impl View {
    fn new(shared: &Shared, worker: usize) -> Self {
        let snapshot = Arc::clone(&shared.snapshot);
        let idle_total = Rc::default();
        let idle_max = (snapshot.idle_connections / shared.metrics.len()).max(1);
        let local = |upstream: &crate::snapshot::UpstreamState| {
            let settings = &upstream.settings;
            let endpoints: Vec<_> = settings
                .servers
                .iter()
                .map(|server| (server.label.as_str(), server.weight))
                .collect();
            let idle = (&idle_total, idle_max);
            let pool = || Pool::new(settings.idle_connections, settings.idle_timeout, idle);
            LocalUpstream {
                balancer: RefCell::new(Balancer::new(settings.balance, &endpoints)),
                pools: endpoints.iter().map(|_| pool()).collect(),
            }
        };
        let upstreams = snapshot.upstreams.iter().map(local).collect();
        Self {
            snapshot,
            upstreams,
            metrics: Arc::clone(&shared.metrics[worker]),
        }
    }

    /// Closes all idle upstream connections.
    pub(crate) fn close_idle(&self) {
        for pool in self.upstreams.iter().flat_map(|upstream| &upstream.pools) {
            pool.clear();
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
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        self.both
            .set(Some((Instant::now(), since.as_millis() as u64)));
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
