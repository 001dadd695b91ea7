//! Warnings that could come thousands of times a second.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;

/// How long nothing more is told.
const SILENT: Duration = Duration::from_secs(60);

/// Tells one warning a minute.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Tells it, unless another one was told in the last minute.
    pub(crate) fn tell(&self, what: fmt::Arguments<'_>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() > SILENT) {
            *last = Some(Instant::now());
            tell(Level::Warning, what);
        }
    }
}
