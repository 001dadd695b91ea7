//! What the threads of a queue share: settings, counts, and where its log is consumed to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::dead::DeadLetter;
use crate::settings::Settings;

/// One queue, for all of its threads.
#[derive(Debug)]
pub(crate) struct Shared {
    settings: Mutex<Arc<Settings>>,
    pub(crate) counts: Counts,
    /// There may be something to deliver.
    pub(crate) delivers: Notify,
    /// While it drains: whether all that was delivered is noted on the disk, and whether all that was accepted is there.
    pub(crate) is_noted: AtomicBool,
    pub(crate) is_kept: AtomicBool,
    /// A request was refused for want of room.
    pub(crate) wants_room: AtomicBool,
    /// Nothing new is begun: the gateway ends, or its configuration has the queue no longer.
    pub(crate) is_draining: AtomicBool,
    /// Why the log takes nothing until a restart, if so.
    pub(crate) failed: Mutex<Option<String>>,
    /// Why nothing is delivered until somebody has seen to it, if so.
    pub(crate) stopped: Mutex<Option<String>>,
    /// What the last attempt that failed has come to.
    pub(crate) last_error: Mutex<Option<String>>,
    /// The newest dead letters.
    pub(crate) newest_dead: Mutex<Vec<DeadLetter>>,
}

/// What was counted since the start, and what is so now.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Messages that were acknowledged.
    pub(crate) accepted: AtomicU64,
    /// Requests that had been accepted before under their `Idempotency-Key`.
    pub(crate) duplicates: AtomicU64,
    /// Requests that were refused: there is no room, or what waits is too old.
    pub(crate) refused_full: AtomicU64,
    pub(crate) refused_old: AtomicU64,
    /// Requests that the disk did not take.
    pub(crate) refused_disk: AtomicU64,
    /// Requests that came faster than they can be written.
    pub(crate) refused_busy: AtomicU64,
    /// Messages that were acknowledged from memory, and could not be written.
    pub(crate) lost: AtomicU64,
    /// Commits, and those among them that waited for the disk.
    pub(crate) commits: AtomicU64,
    pub(crate) syncs: AtomicU64,
    /// The offsets behind what was written, what is durable, and before which all is settled.
    pub(crate) next: AtomicU64,
    /// The offset behind what deliveries may see.
    pub(crate) readable: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) consumed: AtomicU64,
    /// Bytes of the log, and of dead letters.
    pub(crate) bytes: AtomicU64,
    pub(crate) dead_bytes: AtomicU64,
    pub(crate) delivered: AtomicU64,
    /// Attempts that failed and are repeated.
    pub(crate) retried: AtomicU64,
    /// Messages that became dead letters, and how many there are now.
    pub(crate) died: AtomicU64,
    pub(crate) dead: AtomicU64,
    /// Settled messages that are not all before `consumed`.
    pub(crate) settled_ahead: AtomicU64,
    pub(crate) under_way: AtomicU64,
    /// When the oldest message came that is not settled; 0 when there is none.
    pub(crate) oldest_ms: AtomicU64,
    pub(crate) is_paused: AtomicBool,
    pub(crate) is_ill: AtomicBool,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            settings: Mutex::new(Arc::new(settings)),
            counts: Counts::default(),
            delivers: Notify::new(),
            is_noted: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            wants_room: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            failed: Mutex::default(),
            stopped: Mutex::default(),
            last_error: Mutex::default(),
            newest_dead: Mutex::default(),
        })
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&lock(&self.settings))
    }

    /// Other settings hold from now on.
    pub(crate) fn follow(&self, settings: Settings) {
        *lock(&self.settings) = Arc::new(settings);
        self.delivers.notify_one();
    }
}

impl Counts {
    /// Messages that are neither delivered nor given up.
    pub(crate) fn waiting(&self) -> u64 {
        let ends = self.next.load(Ordering::Relaxed);
        let settled =
            self.consumed.load(Ordering::Relaxed) + self.settled_ahead.load(Ordering::Relaxed);
        ends.saturating_sub(settled)
    }
}

/// Counts so many more.
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// A panic of another thread leaves values whole here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
