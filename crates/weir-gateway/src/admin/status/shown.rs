//! How states are called before an operator: a word, why, and how bad it is.

use serde::Serialize;

use crate::admin::status::care::Details;
use crate::admin::status::{EndpointStatus, Refused};

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Tone {
    /// Clients suffer.
    Bad,
    /// Something is wrong, or was.
    Warn,
    /// Neither good nor bad: it waits for somebody to ask.
    Neutral,
    Good,
}

/// A state in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Shown {
    pub(super) tone: Tone,
    pub(super) word: String,
    pub(super) why: Option<String>,
}

impl Shown {
    fn new(tone: Tone, word: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            tone,
            word: word.into(),
            why: Some(why.into()),
        }
    }

    pub(super) fn good(word: &str) -> Self {
        Self {
            tone: Tone::Good,
            word: word.to_owned(),
            why: None,
        }
    }

    /// A breaker that has been in this state for so long.
    pub(super) fn of_breaker(details: &Details, for_ms: u64) -> Self {
        match *details {
            Details::Closed(_) => Self::good("closed"),
            Details::Open { remaining_ms } => {
                let again = format!("tries again in {}", span(remaining_ms));
                Self::new(Tone::Bad, "open", again)
            }
            // It was open, and nothing says that it would be again.
            Details::HalfOpen {
                in_flight: 0,
                successes: 0,
            } => {
                let why = format!("nobody has asked for {}", span(for_ms));
                Self::new(Tone::Neutral, "would try again", why)
            }
            Details::HalfOpen {
                in_flight,
                successes,
            } => {
                let why = format!("{in_flight} probes under way, {successes} were good");
                Self::new(Tone::Warn, "half-open", why)
            }
            Details::Recovering { share, .. } => {
                let why = format!("lets {} of the requests through", percent(share));
                Self::new(Tone::Warn, "recovering", why)
            }
        }
    }

    /// An endpoint to which no connection stood since.
    fn of_refused(refused: &Refused) -> Self {
        let error = &refused.error;
        if let Some(ms) = refused.remaining_ms {
            let why = format!("{error}; is tried again in {}", span(ms));
            return Self::new(Tone::Bad, "passed over", why);
        }
        // Nothing says that it would refuse again, and nothing that it would not.
        let ago = span(refused.ago_ms);
        let why = format!("{error} {ago} ago; the next request tries it");
        Self::new(Tone::Neutral, "on trial", why)
    }

    /// The worst that is known of an endpoint.
    pub(super) fn of_endpoint(endpoint: &EndpointStatus<'_>, is_draining: bool) -> Self {
        if is_draining {
            return Self::new(Tone::Neutral, "drained", "it gets no new requests");
        }
        if let Some(check) = &endpoint.check
            && !check.up
        {
            let error = check.error.as_deref();
            return Self::new(Tone::Bad, "down", error.unwrap_or("its checks fail"));
        }
        if let Some(refused) = &endpoint.refused {
            return Self::of_refused(refused);
        }
        if let Some(breaker) = &endpoint.breaker
            && !breaker.is_closed()
        {
            let word = format!("breaker {}", breaker.shown.word);
            return Self {
                word,
                ..breaker.shown.clone()
            };
        }
        let Some(place) = &endpoint.place else {
            return Self::good("up");
        };
        let reason = place.reason.map_or("it stood out", stands_out);
        match (place.state, place.remaining_ms, place.share) {
            ("out", Some(remaining_ms), _) => {
                let why = format!("{reason}; is tried again in {}", span(remaining_ms));
                Self::new(Tone::Bad, "out", why)
            }
            ("trial", ..) => Self::new(
                Tone::Neutral,
                "on trial",
                format!("was out: {reason}; the next requests decide"),
            ),
            ("rising", _, Some(share)) => {
                let why = format!("was out: {reason}; has {} of its share", percent(share));
                Self::new(Tone::Warn, "coming back", why)
            }
            _ => Self::good("up"),
        }
    }
}

/// Why an endpoint was left out, by the name of the reason.
fn stands_out(reason: &'static str) -> &'static str {
    match reason {
        "consecutive-failures" => "it failed several times in a row",
        "failure-share" => "it fails more than its siblings",
        "slow" => "it is slower than its siblings",
        "silent" => "it answers nothing",
        "trial" => "it failed when it was tried again",
        other => other,
    }
}

/// A time in words: whole seconds, at least one, then minutes, hours and days.
pub(super) fn span(ms: u64) -> String {
    let seconds = ms.div_ceil(1000).max(1);
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A share in words, with one digit behind the point below one per cent.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        0.0 => "0 %".to_owned(),
        ..0.1 => "less than 0.1 %".to_owned(),
        ..1.0 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::status::care::InWindow;

    #[test]
    fn times_and_shares_have_few_digits() {
        for (ms, said) in [
            (0, "1 s"),
            (8400, "9 s"),
            (119_000, "119 s"),
            (200_000, "3 min"),
            (7_200_000, "2 hours"),
            (200_000_000, "2 days"),
        ] {
            assert_eq!(span(ms), said);
        }
        for (share, said) in [
            (0.0, "0 %"),
            (0.0004, "less than 0.1 %"),
            (0.004, "0.4 %"),
            (0.374, "37 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(percent(share), said);
        }
    }

    #[test]
    fn a_breaker_that_nobody_asks_is_not_bad() {
        let counts = InWindow::default();
        for (details, for_ms, tone, word, why) in [
            (Details::Closed(counts), 9, Tone::Good, "closed", None),
            (
                Details::Open { remaining_ms: 4000 },
                1000,
                Tone::Bad,
                "open",
                Some("tries again in 4 s"),
            ),
            (
                Details::HalfOpen {
                    in_flight: 0,
                    successes: 0,
                },
                180_000,
                Tone::Neutral,
                "would try again",
                Some("nobody has asked for 3 min"),
            ),
            (
                Details::HalfOpen {
                    in_flight: 1,
                    successes: 2,
                },
                1,
                Tone::Warn,
                "half-open",
                Some("1 probes under way, 2 were good"),
            ),
            (
                Details::Recovering { share: 0.4, counts },
                1,
                Tone::Warn,
                "recovering",
                Some("lets 40 % of the requests through"),
            ),
        ] {
            let shown = Shown::of_breaker(&details, for_ms);
            assert_eq!((shown.tone, &*shown.word), (tone, word));
            assert_eq!(shown.why.as_deref(), why);
        }
    }
}
