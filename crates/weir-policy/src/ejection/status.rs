//! What can be reported about an endpoint: where it is, and why.

use std::time::Duration;

/// Where an endpoint is, for the admin API.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    /// In the rotation.
    In,
    /// Out of the rotation for this much longer.
    Out(Duration),
    /// It gets one request at a time.
    Trial,
    /// It gets this share of its requests, from 0 to 1.
    Rising(f64),
}

/// Why an endpoint was ejected last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It failed several times in a row.
    ConsecutiveFailures,
    /// It fails more than its siblings.
    FailureShare,
    /// It answers much more slowly than its siblings.
    Slow,
    /// Requests wait for it, and it answers none.
    Silent,
    /// It failed or was slow on trial.
    Trial,
}

impl Reason {
    /// The name in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConsecutiveFailures => "consecutive-failures",
            Self::FailureShare => "failure-share",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::Trial => "trial",
        }
    }
}

/// What is known about one endpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Where it is.
    pub place: Place,
    /// Ejections since it was last healthy for a while.
    pub ejections: u32,
    /// All of its ejections.
    pub ejections_total: u64,
    /// Why it was ejected last.
    pub reason: Option<Reason>,
}
