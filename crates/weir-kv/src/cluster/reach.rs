//! How another node is reached. Whoever keeps the connection to it says so, and all others look at it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How a node is reached.
#[derive(Debug, Default)]
pub(super) struct Reach {
    is_up: Arc<AtomicBool>,
    is_draining: AtomicBool,
    /// Why it takes no part, though it is there.
    apart: Mutex<Option<String>>,
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

    /// Why it does nothing that it is asked to, though it is there.
    pub(super) fn apart(&self) -> Option<String> {
        let apart = self.apart.lock().unwrap_or_else(PoisonError::into_inner);
        apart.clone()
    }

    fn note_apart(&self, why: Option<String>) {
        *self.apart.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// It is there, and does what it is asked to.
    pub(super) fn work(&self, is_draining: bool) {
        self.note_apart(None);
        self.is_draining.store(is_draining, Ordering::Release);
        self.is_up.store(true, Ordering::Release);
    }

    /// It is there, and counts as down, for this reason.
    pub(super) fn part(&self, why: String) {
        self.is_up.store(false, Ordering::Release);
        self.note_apart(Some(why));
    }

    /// Nothing is heard of it any more.
    pub(super) fn lose(&self) {
        self.note_apart(None);
        self.is_up.store(false, Ordering::Release);
        self.is_draining.store(false, Ordering::Release);
    }
}
