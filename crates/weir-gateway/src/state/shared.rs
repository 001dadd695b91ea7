//! What all workers share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use weir_http::forward::ViaName;

use crate::held_bodies::HeldBodies;
use crate::metrics::WorkerMetrics;
use crate::state::admission::Admission;
use crate::state::slow::SlowClients;
use crate::state::snapshot::Snapshot;
use crate::state::storage::Cache;
use crate::time;

/// A worker that has not turned for this long serves nobody: its tick comes twenty times in that
/// time.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// What all workers see.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The configuration. Only `control.rs` replaces it.
    pub(crate) current: watch::Sender<Arc<Snapshot>>,
    /// The generation of the configuration that each worker has taken up.
    pub(crate) taken_up: Vec<AtomicU64>,
    pub(crate) admission: Admission,
    /// What this gateway calls itself to upstreams. By that it knows a request that comes back.
    pub(crate) via: ViaName,
    /// Client connections open on each worker, for spreading new ones.
    pub(crate) open: Vec<AtomicUsize>,
    pub(crate) metrics: Vec<Arc<WorkerMetrics>>,
    /// The cache of all workers; empty until a route uses it.
    pub(crate) cache: OnceLock<Arc<Cache>>,
    /// Clients for which memory is held.
    pub(crate) slow: SlowClients,
    /// Bodies held for slow clients.
    pub(crate) held_bodies: Arc<HeldBodies>,
    /// The gateway is about to drain. It still accepts, and says to balancers that it will not for long.
    pub(crate) is_leaving: AtomicBool,
    pub(crate) is_draining: AtomicBool,
    /// Draining has taken too long: everything that still runs ends now.
    pub(crate) is_cut_off: AtomicBool,
    /// What was cut off then.
    pub(crate) cut_off: CutOff,
    /// When each worker last turned, in milliseconds since the start.
    pub(crate) turned: Vec<AtomicU64>,
    /// Whether a task has panicked that a worker cannot serve without.
    pub(crate) has_failed: Vec<AtomicBool>,
    /// Reloads that were put to work, and those that were refused.
    pub(crate) reloads: [AtomicU64; 2],
    /// Keys of the configuration that wait for a restart.
    pub(crate) waiting: AtomicU64,
    started: Instant,
}

/// What was under way when the time for draining was over.
#[derive(Debug, Default)]
pub(crate) struct CutOff {
    requests: AtomicU64,
    tunnels: AtomicU64,
}

impl CutOff {
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tunnel(&self) {
        self.tunnels.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn tunnels(&self) -> u64 {
        self.tunnels.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// What the workers of `snapshot` share at the start.
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
            via: ViaName::new(&format!("weir-{:08x}", fastrand::u32(..))),
            open: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            metrics: (0..workers).map(|_| WorkerMetrics::new()).collect(),
            cache: OnceLock::new(),
            slow,
            held_bodies: Arc::default(),
            is_leaving: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            is_cut_off: AtomicBool::new(false),
            cut_off: CutOff::default(),
            turned: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            has_failed: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            reloads: Default::default(),
            waiting: AtomicU64::new(0),
            started: time::now(),
        }
    }

    /// The configuration for requests that begin now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    /// The time in which deadlines and the health of endpoints are kept.
    pub(crate) fn since_start(&self) -> Duration {
        time::since(self.started)
    }

    /// For how many milliseconds each worker has not turned. A worker that has ended does not count.
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
