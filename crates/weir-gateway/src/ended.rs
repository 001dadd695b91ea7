//! How asking an endpoint ended, and what that says of it.

use std::time::Duration;

use weir_policy::Outcome;

use crate::failure::{Failure, Fault};

/// Whether a status says that the upstream is not well, where no setting names others. It has those of
/// [`StatusSet::server_errors`](crate::settings::StatusSet::server_errors), for the reason given there.
pub(crate) fn is_server_error(status: u16) -> bool {
    matches!(status, 500..=599) && !matches!(status, 501 | 505)
}

/// How asking an endpoint ended, up to the head of its response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    Answered(u16),
    /// The same after the client had kept it waiting for the request's body: how long it took is the client's doing.
    Delayed(u16),
    Failed(Failure),
}

impl Ended {
    /// The head of a response of `status` is here.
    pub(crate) fn answered(status: u16, was_delayed: bool) -> Self {
        if was_delayed {
            Self::Delayed(status)
        } else {
            Self::Answered(status)
        }
    }

    /// What that says about the endpoint, by which statuses are failures, when it took `latency`.
    pub(crate) fn outcome(self, is_failure: impl Fn(u16) -> bool, latency: Duration) -> Outcome {
        match self {
            Self::Answered(status) if !is_failure(status) => Outcome::Success(latency),
            Self::Delayed(status) if !is_failure(status) => Outcome::Ignored,
            Self::Failed(failure) if failure.fault() != Fault::Upstream => Outcome::Ignored,
            Self::Answered(_) | Self::Delayed(_) | Self::Failed(_) => Outcome::Failure(latency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::StatusSet;

    #[test]
    fn what_a_client_can_provoke_is_no_failure() {
        let failures = StatusSet::server_errors();
        for status in 100..=999 {
            let expected = match status {
                501 | 505 => false,
                500..=599 => true,
                _ => false,
            };
            assert_eq!(is_server_error(status), expected, "{status}");
            assert_eq!(failures.has(status), expected, "{status}");
        }
        for (ended, expected) in [
            (Ended::Answered(501), Outcome::Success(Duration::ZERO)),
            (Ended::Delayed(505), Outcome::Ignored),
            (Ended::Answered(431), Outcome::Success(Duration::ZERO)),
            (Ended::Answered(503), Outcome::Failure(Duration::ZERO)),
            (Ended::Failed(Failure::ClientGone), Outcome::Ignored),
        ] {
            let outcome = ended.outcome(is_server_error, Duration::ZERO);
            assert_eq!(outcome, expected, "{ended:?}");
        }
    }
}
