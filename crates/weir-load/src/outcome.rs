//! What became of a request, and the latencies of each kind apart: a fast rejection must not make a server look fast.

use hdrhistogram::Histogram;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// A 2xx response, read to its end.
    Success,
    /// 3xx.
    Redirection,
    /// 4xx.
    ClientError,
    /// 5xx.
    ServerError,
    /// The connection was not accepted.
    Refused,
    /// The connection ended, or what came was not HTTP, before the response was whole.
    Reset,
    /// The response was not whole in time.
    Timeout,
}

impl Outcome {
    /// All, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Refused,
        Self::Reset,
        Self::Timeout,
    ];

    /// The name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
        }
    }

    /// Whether it counts as an answer: goodput is made of these.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Success | Self::Redirection)
    }
}

/// Counts and latencies by outcome, for a run or a part of one. Merging is exact.
#[derive(Debug, Clone)]
pub struct Outcomes {
    /// Nanoseconds from the intended sending to the end of the outcome, three significant digits, by [`Outcome::ALL`].
    by_outcome: [Histogram<u64>; Outcome::ALL.len()],
}
