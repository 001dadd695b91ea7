//! Locks that are held for one call.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. Every critical section leaves its values whole, so that a thread which panicked in one has broken nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
