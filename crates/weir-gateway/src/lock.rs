//! Locks that are held for one call.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock that is held for one call which does not panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
