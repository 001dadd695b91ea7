//! How another node is reached. Whoever keeps the connection to it says so, and all others look at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a node is reached.
#[derive(Debug, Default)]
pub(super) struct Reach {
    is_up: Arc<AtomicBool>,
    is_draining: AtomicBool,
}

impl Reach {
    /// Whether it does what it is asked to.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// The same, for who looks at nothing else.
    pub(super) fn up(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_up)
    }

    /// Whether it is about to end, and takes no new connections of clients.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// It is there, and does what it is asked to.
    pub(super) fn work(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Release);
        self.is_up.store(true, Ordering::Release);
    }

    /// Nothing is heard of it any more.
    pub(super) fn lose(&self) {
        self.is_up.store(false, Ordering::Release);
        self.is_draining.store(false, Ordering::Release);
    }
}
