//! What all fills on their way to RAM hold together: a part of what the cache has there, so that answers that are asked
//! for and not read take no more of it than that. It counts; what does not fit is for the fills to send elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which part of the cache's RAM they may take; twice the largest object that RAM takes.
const PART: u64 = 4;

/// Bytes for all fills.
#[derive(Debug)]
pub(in crate::cache) struct Budget {
    used: AtomicU64,
    bytes_max: u64,
}

/// What one fill has of it; given back when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Taken {
    of: Option<Arc<Budget>>,
    bytes: u64,
}

impl Budget {
    pub(in crate::cache) fn of(memory_bytes: u64) -> Self {
        Self {
            used: AtomicU64::new(0),
            bytes_max: memory_bytes / PART,
        }
    }
}

#[cfg(test)]
impl Budget {
    /// What is taken of it.
    pub(in crate::cache) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Taken {
    /// Takes more, if there is so much.
    pub(super) fn add(&mut self, budget: &Arc<Budget>, bytes: u64) -> bool {
        let fits = |used: u64| Some(used + bytes).filter(|sum| *sum <= budget.bytes_max);
        let used = &budget.used;
        let has_room = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        if has_room.is_ok() {
            self.of.get_or_insert_with(|| Arc::clone(budget));
            self.bytes += bytes;
        }
        has_room.is_ok()
    }

    /// Gives back what is more than `bytes`.
    pub(super) fn shrink_to(&mut self, bytes: u64) {
        if let Some(budget) = &self.of {
            let surplus = self.bytes.saturating_sub(bytes);
            budget.used.fetch_sub(surplus, Ordering::Relaxed);
            self.bytes -= surplus;
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
