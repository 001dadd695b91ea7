//! The thread that compresses large stored responses, so that no worker has to.
//!
//! It starts with its first job and runs at a lower priority than the workers, since their clients wait. Until a form
//! is made, the response is sent as it is. A full queue refuses a job, and a later hit asks again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};

use weir_cache::negotiate::Coding;
use weir_cache::store::Object;

use crate::state::encoder;
use crate::state::storage::Cache;

/// The most jobs that wait.
const JOBS_MAX: usize = 64;
/// Added to the niceness of the thread. It then gets about a tenth of a core that a worker wants too.
const NICENESS: i32 = 10;

/// See the module's description. There is one for each cache.
#[derive(Debug, Default)]
pub(crate) struct Compressor {
    /// `None` when the thread could not be started.
    jobs: OnceLock<Option<SyncSender<Job>>>,
    pub(crate) counts: Counts,
}

/// What was made of stored responses, on any thread. Several threads may write at once, but rarely do.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Forms made, by [`Coding::ALL`].
    pub(crate) forms: [AtomicU64; Coding::ALL.len()],
    /// Forms that would have been no smaller.
    pub(crate) useless: AtomicU64,
    /// Jobs that found the queue full.
    pub(crate) refused: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

/// A form that was claimed and has to be made.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) cache: Arc<Cache>,
    pub(crate) key: Box<[u8]>,
    /// A weak reference: when the object is no longer stored, no form of it is made.
    pub(crate) object: Weak<Object>,
    pub(crate) coding: Coding,
    pub(crate) level: u8,
}

impl Compressor {
    /// Queues the job. Returns whether it will be done.
    pub(crate) fn take(&self, job: Job) -> bool {
        let jobs = self.jobs.get_or_init(start).as_ref();
        let is_taken = jobs.is_some_and(|jobs| jobs.try_send(job).is_ok());
        if !is_taken {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        is_taken
    }
}

fn start() -> Option<SyncSender<Job>> {
    let (sender, jobs) = sync_channel(JOBS_MAX);
    let thread = std::thread::Builder::new().name("compressor".to_owned());
    // It ends with the cache, which holds the other end of the queue.
    thread.spawn(move || work(&jobs)).is_ok().then_some(sender)
}

fn work(jobs: &Receiver<Job>) {
    // If lowering it is not allowed, the thread keeps its priority.
    let _ = rustix::process::nice(NICENESS);
    while let Ok(job) = jobs.recv() {
        let object = job.object.upgrade();
        let is_stored = |object: &Arc<Object>| job.cache.tiers.memory().holds(&job.key, object);
        if let Some(object) = object.filter(is_stored) {
            make(&job.cache, &job.key, &object, job.coding, job.level);
        }
    }
}

impl Counts {
    /// Counts a form of `bytes_out` made of `bytes_in`, or that none was made.
    pub(crate) fn made(&self, coding: Coding, bytes_in: u64, bytes_out: Option<u64>) {
        self.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        let Some(bytes_out) = bytes_out else {
            self.useless.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
        let at = Coding::ALL.iter().position(|&own| own == coding);
        if let Some(forms) = at.and_then(|at| self.forms.get(at)) {
            forms.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The most memory that a form takes besides its bytes: its bookkeeping and its head.
const FORM_OVERHEAD_BYTES: u64 = 4 << 10;

/// Makes the claimed form, and counts it in the budget of RAM.
pub(crate) fn make(cache: &Cache, key: &[u8], object: &Arc<Object>, coding: Coding, level: u8) {
    let Some(forms) = object.forms(|_| false) else {
        return;
    };
    let body = encoder::whole(object.body(), coding, level);
    // If the form made both too large for RAM, the response itself would be lost.
    let room = cache.tiers.memory().object_bytes_max();
    let room = room.saturating_sub(object.weight() + key.len() as u64 + FORM_OVERHEAD_BYTES);
    let body = body.filter(|body| body.len() as u64 <= room);
    let bytes_out = body.as_ref().map(|body| body.len() as u64);
    let counts = &cache.compressor.counts;
    counts.made(coding, object.body_bytes(), bytes_out);
    forms.made(object, coding, body);
    cache.tiers.reweigh(key, object);
}
