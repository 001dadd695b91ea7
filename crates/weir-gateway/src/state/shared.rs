//! What all workers share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;

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
    /// Client connections open on each worker, for spreading new ones.
    pub(crate) open: Vec<AtomicUsize>,
    pub(crate) metrics: Vec<Arc<WorkerMetrics>>,
    /// The cache of all workers; empty until a route uses it.
    pub(crate) cache: OnceLock<Arc<Cache>>,
    /// Clients for which memory is held.
    pub(crate) slow: SlowClients,
    /// Bodies held for slow clients.
    pub(crate) held_bodies: Arc<HeldBodies>,
    pub(crate) is_draining: AtomicBool,
    /// Draining has taken too long: everything that still runs ends now.
    pub(crate) is_cut_off: AtomicBool,
    /// When each worker last turned, in milliseconds since the start.
    pub(crate) turned: Vec<AtomicU64>,
    /// Whether a task has panicked that a worker cannot serve without.
    pub(crate) has_failed: Vec<AtomicBool>,
    /// Reloads that were put to work, and those that were refused.
    pub(crate) reloads: [AtomicU64; 2],
    started: Instant,
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
