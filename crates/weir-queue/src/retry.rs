//! What becomes of a message after an attempt to deliver it.
//!
//! An attempt counts against a message only if the target has delivered something else since the one before: as long as everything
//! fails, it is the target that is ill, and no message is given up for that.

use std::time::Duration;

use weir_gateway::service::{Outcome, Unanswered};

/// How often a message is tried, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts that count, after which it is a dead letter.
    pub attempts_max: u32,
    /// How old it may be when it is to be tried again, whether attempts counted or not.
    pub age_max: Duration,
    /// The longest wait before the second attempt.
    pub backoff_min: Duration,
    /// The longest wait before any.
    pub backoff_max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts_max: 16,
            age_max: Duration::from_secs(3 * 24 * 3600),
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(600),
        }
    }
}

/// A wait that a target asks for is kept up to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// What an attempt says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Delivered,
    /// It would fail again however often it is tried.
    Futile,
    /// It may succeed later, no sooner than the target has asked for.
    Again(Option<Duration>),
    /// It was not tried: the gateway itself has held it back, or has nowhere to send it to.
    Untried(Option<Duration>),
}

/// Judges an attempt.
pub(crate) fn judge(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Answered(answered) => match answered.status {
            200..300 => Verdict::Delivered,
            // What is wrong with the request itself (RFC 9110 §15.5), and what the server will never have.
            400 | 405 | 406 | 410 | 411 | 413..=417 | 422 | 431 | 501 | 505 => Verdict::Futile,
            _ => Verdict::Again(answered.field("retry-after").and_then(seconds)),
        },
        Outcome::Unanswered(Unanswered {
            why: "malformed_errand",
            ..
        }) => Verdict::Futile,
        Outcome::Unanswered(unanswered) if unanswered.is_unheard => {
            Verdict::Untried(unanswered.retry_after)
        }
        Outcome::Unanswered(unanswered) => Verdict::Again(unanswered.retry_after),
    }
}

/// What an attempt has come to, in a few words for the operator.
pub(crate) fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answered(answered) => {
            let body = String::from_utf8_lossy(&answered.body);
            let line = body.lines().next().unwrap_or_default().trim();
            let line: String = line.chars().filter(|char| !char.is_control()).collect();
            let line: String = line.chars().take(200).collect();
            if line.is_empty() {
                format!("status {}", answered.status)
            } else {
                format!("status {}: {line}", answered.status)
            }
        }
        Outcome::Unanswered(unanswered) => unanswered.why.replace('_', " "),
    }
}

/// `Retry-After` in seconds (RFC 9110 §10.2.3). A date is not understood: backing off does for that.
fn seconds(value: &[u8]) -> Option<Duration> {
    let seconds = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

impl Retry {
    /// How long to wait after so many attempts: exponential, with full jitter (Brooker, Exponential Backoff and Jitter, 2015).
    /// `random` is from 0 to 1.
    pub(crate) fn wait(&self, attempts: u32, random: f64) -> Duration {
        let doubled = self
            .backoff_min
            .saturating_mul(1 << attempts.saturating_sub(1).min(31));
        doubled.min(self.backoff_max).mul_f64(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_gateway::service::Answered;

    fn answered(status: u16, lines: &str) -> Outcome {
        Outcome::Answered(Answered {
            status,
            lines: lines.as_bytes().to_vec(),
            body: b"sorry\r\nmore".to_vec(),
            is_whole: true,
        })
    }

    fn unanswered(why: &'static str, is_unheard: bool) -> Outcome {
        Outcome::Unanswered(Unanswered {
            why,
            is_unheard,
            retry_after: None,
        })
    }

    #[test]
    fn what_an_attempt_says() {
        let minute = Some(Duration::from_secs(60));
        for (outcome, verdict) in [
            (answered(200, ""), Verdict::Delivered),
            (answered(204, ""), Verdict::Delivered),
            (answered(302, ""), Verdict::Again(None)),
            (answered(400, ""), Verdict::Futile),
            (answered(422, ""), Verdict::Futile),
            (answered(404, ""), Verdict::Again(None)),
            (answered(500, ""), Verdict::Again(None)),
            (answered(503, "Retry-After: 60\r\n"), Verdict::Again(minute)),
            (
                answered(429, "retry-after: 9999999999\r\n"),
                Verdict::Again(Some(RETRY_AFTER_MAX)),
            ),
            (
                answered(503, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n"),
                Verdict::Again(None),
            ),
            (unanswered("timeout", false), Verdict::Again(None)),
            (unanswered("no_route", true), Verdict::Untried(None)),
            (unanswered("malformed_errand", true), Verdict::Futile),
        ] {
            assert_eq!(judge(&outcome), verdict, "{outcome:?}");
        }
    }

    #[test]
    fn it_is_told_in_a_line() {
        assert_eq!(describe(&answered(500, "")), "status 500: sorry");
        assert_eq!(
            describe(&unanswered("upstream_timeout", false)),
            "upstream timeout"
        );
    }

    #[test]
    fn waits_double_up_to_a_bound_and_are_spread() {
        let retry = Retry::default();
        let waits = [1, 2, 3, 10, 11, 60, u32::MAX].map(|attempts| retry.wait(attempts, 1.0));
        let seconds = waits.map(|wait| wait.as_secs());
        assert_eq!(seconds, [1, 2, 4, 512, 600, 600, 600]);
        assert_eq!(retry.wait(3, 0.0), Duration::ZERO);
        assert_eq!(retry.wait(3, 0.25), Duration::from_secs(1));
    }
}
