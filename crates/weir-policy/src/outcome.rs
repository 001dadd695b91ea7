//! How a request ended, as far as the policies need it.

use std::time::Duration;

/// How a request ended. The caller decides what counts as a failure (which statuses, which broken connections).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered well, after this time.
    Success(Duration),
    /// It was answered badly or not at all, after this time. A missed deadline is a failure with the time waited.
    Failure(Duration),
    /// It says nothing about the other side: the client left, or the request never got there.
    Ignored,
}

impl Outcome {
    /// How long it took; `None` when that says nothing.
    pub fn latency(self) -> Option<Duration> {
        match self {
            Self::Success(latency) | Self::Failure(latency) => Some(latency),
            Self::Ignored => None,
        }
    }
}
