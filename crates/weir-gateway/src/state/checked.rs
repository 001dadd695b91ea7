//! How the last check of an endpoint ended.

use std::sync::Mutex;

use crate::lock::lock;

/// How the last check of an endpoint ended: the error says what was wrong.
#[derive(Debug, Default)]
pub(crate) struct Checked(Mutex<Option<Result<(), String>>>);

impl Checked {
    /// `None` when it is not checked, or not yet.
    pub(crate) fn last(&self) -> Option<Result<(), String>> {
        lock(&self.0).clone()
    }

    pub(crate) fn ended(&self, how: Result<(), String>) {
        *lock(&self.0) = Some(how);
    }

    pub(crate) fn forget(&self) {
        *lock(&self.0) = None;
    }
}
