//! What others see of one who consumes a queue: of what is delivered to upstreams, or of a sink.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::dead::DeadLetter;
use crate::shared::lock;
use crate::sink::SinkSettings;

/// A consumer, for all threads. Counts are since the start.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    /// The name of the sink; none where upstreams are delivered to.
    pub(crate) sink: Option<String>,
    /// Other settings for the sink, which it follows from the next batch on.
    pub(crate) wanted: Mutex<Option<SinkSettings>>,
    /// There may be something to do.
    pub(crate) wakes: Notify,
    /// The offset before which all is settled, and how many behind it are.
    pub(crate) consumed: AtomicU64,
    pub(crate) settled_ahead: AtomicU64,
    pub(crate) under_way: AtomicU64,
    pub(crate) delivered: AtomicU64,
    /// Attempts that failed and are repeated.
    pub(crate) retried: AtomicU64,
    /// Messages that became dead letters, how many there are now, and their bytes.
    pub(crate) died: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) dead_bytes: AtomicU64,
    /// When the oldest message came that is not settled; 0 when there is none.
    pub(crate) oldest_ms: AtomicU64,
    pub(crate) is_paused: AtomicBool,
    pub(crate) is_ill: AtomicBool,
    /// While the queue drains: whether all that was delivered is noted on the disk.
    pub(crate) is_noted: AtomicBool,
    /// Why nothing is delivered until somebody has seen to it, if so.
    pub(crate) stopped: Mutex<Option<String>>,
    /// What the last attempt that failed has come to.
    pub(crate) last_error: Mutex<Option<String>>,
    /// The newest dead letters.
    pub(crate) newest_dead: Mutex<Vec<DeadLetter>>,
}

impl Consumer {
    /// What others wait for of a queue that ends at `next`.
    pub(crate) fn waiting(&self, next: u64) -> u64 {
        let consumed = self.consumed.load(Ordering::Relaxed);
        let settled = consumed + self.settled_ahead.load(Ordering::Relaxed);
        next.saturating_sub(settled)
    }

    /// Nothing is under way, and the disk has what was.
    pub(crate) fn is_drained(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0 && self.is_noted.load(Ordering::Acquire)
    }

    /// Nothing is delivered until [`Consumer::go_on`].
    pub(crate) fn stop(&self, why: String) {
        *lock(&self.stopped) = Some(why);
    }

    pub(crate) fn go_on(&self) {
        *lock(&self.stopped) = None;
    }
}
