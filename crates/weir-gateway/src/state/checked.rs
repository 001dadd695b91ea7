//! How the last check of an endpoint ended.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

/// How the last check of an endpoint ended: the error says what was wrong.
#[derive(Debug, Default)]
pub(crate) struct Checked(Mutex<Option<Result<(), String>>>);

impl Checked {
    /// `None` when it is not checked, or was not yet.
    pub(crate) fn last(&self) -> Option<Result<(), String>> {
        self.lock().clone()
    }

    pub(crate) fn ended(&self, how: Result<(), String>) {
        *self.lock() = Some(how);
    }

    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Result<(), String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
