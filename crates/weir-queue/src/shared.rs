//! What the threads of a queue share: settings, counts, and where its log is consumed to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::consumer::Consumer;
use crate::settings::Settings;

/// One queue, for all of its threads.
#[derive(Debug)]
pub(crate) struct Shared {
    settings: Mutex<Arc<Settings>>,
    pub(crate) counts: Counts,
    /// Everyone who consumes it. What all of them have settled may be removed.
    consumers: Mutex<Vec<Arc<Consumer>>>,
    /// What is fetched from Kafka, where the queue lives there: it is in the same directory.
    pub(crate) beside: OnceLock<Arc<Self>>,
    /// While it drains: whether all that was accepted is on the disk.
    pub(crate) is_kept: AtomicBool,
    /// A request was refused for want of room.
    pub(crate) wants_room: AtomicBool,
    /// Nothing new is begun: the gateway ends, or its configuration has the queue no longer.
    pub(crate) is_draining: AtomicBool,
    /// Why the log takes nothing until a restart, if so.
    pub(crate) failed: Mutex<Option<String>>,
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
    /// The offsets behind what was written, and behind what is durable.
    pub(crate) next: AtomicU64,
    /// The offset behind what deliveries may see.
    pub(crate) readable: AtomicU64,
    pub(crate) durable: AtomicU64,
    /// Bytes of the log.
    pub(crate) bytes: AtomicU64,
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            settings: Mutex::new(Arc::new(settings)),
            counts: Counts::default(),
            consumers: Mutex::default(),
            beside: OnceLock::new(),
            is_kept: AtomicBool::new(false),
            wants_room: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            failed: Mutex::default(),
        })
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&lock(&self.settings))
    }

    /// Other settings hold from now on.
    pub(crate) fn follow(&self, settings: Settings) {
        *lock(&self.settings) = Arc::new(settings);
        self.wake_consumers();
    }

    /// One more consumes it.
    pub(crate) fn join(&self, consumer: Arc<Consumer>) {
        lock(&self.consumers).push(consumer);
    }

    /// One consumes it no longer: nothing is kept for its sake.
    pub(crate) fn leave(&self, consumer: &Arc<Consumer>) {
        lock(&self.consumers).retain(|other| !Arc::ptr_eq(other, consumer));
    }

    pub(crate) fn consumers(&self) -> Vec<Arc<Consumer>> {
        lock(&self.consumers).clone()
    }

    /// There may be something to do for each.
    pub(crate) fn wake_consumers(&self) {
        for consumer in &*lock(&self.consumers) {
            consumer.wakes.notify_one();
        }
    }

    /// The offset before which all is settled, by all of them.
    pub(crate) fn consumed(&self) -> u64 {
        let consumers = lock(&self.consumers);
        let consumed = consumers.iter();
        let consumed = consumed.map(|consumer| consumer.consumed.load(Ordering::Relaxed));
        consumed.min().unwrap_or(0)
    }

    /// When the oldest message came that is not settled by all of them; 0 when there is none.
    pub(crate) fn oldest_ms(&self) -> u64 {
        let consumers = lock(&self.consumers);
        let oldest = consumers.iter();
        let oldest = oldest.map(|consumer| consumer.oldest_ms.load(Ordering::Relaxed));
        oldest.filter(|&time_ms| time_ms > 0).min().unwrap_or(0)
    }

    /// Bytes of what is fetched from Kafka.
    pub(crate) fn bytes_beside(&self) -> u64 {
        let beside = self.beside.get();
        beside.map_or(0, |beside| {
            beside.counts.bytes.load(Ordering::Relaxed) + beside.dead_bytes()
        })
    }

    /// Bytes of dead letters.
    pub(crate) fn dead_bytes(&self) -> u64 {
        let consumers = lock(&self.consumers);
        let bytes = consumers.iter();
        bytes
            .map(|consumer| consumer.dead_bytes.load(Ordering::Relaxed))
            .sum()
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
