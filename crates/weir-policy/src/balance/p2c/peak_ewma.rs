//! Peak EWMA: the recent latency of one endpoint, quick to believe bad news and slow to believe good news.
//!
//! The rules are those of Finagle (`PeakEwma` in finagle-core) and of Linkerd's proxy (`tower::load::PeakEwma`):
//! - a sample above the average replaces it at once;
//! - a sample below pulls the average down, by more the longer ago the last sample was: `exp(-elapsed / DECAY)`;
//! - without samples it decays towards zero, so that an endpoint which was slow is tried again some day.
//!
//! It knows neither load nor weight.

use std::time::{Duration, Instant};

/// The time in which the influence of the past falls to 1/e. Linkerd's default.
const DECAY: Duration = Duration::from_secs(10);

/// What is assumed before any sample, in nanoseconds: 30 ms, Linkerd's default. It decays like a sample does.
const LATENCY_DEFAULT_NS: f64 = 30e6;

/// A failure counts as an answer this many times slower than usual (or than the default, if that is more).
const FAILURE_FACTOR: f64 = 4.0;

/// Failures in a row raise the average no further than this, in nanoseconds: 10 s. An endpoint that comes back is thus
/// worth trying after a minute or two, not after hours.
const FAILURE_LATENCY_MAX_NS: f64 = 10e9;

/// Decay stops here, in nanoseconds: 1 µs, below any real answer. An average of zero would hide the requests in flight,
/// by which the average is multiplied.
const LATENCY_MIN_NS: f64 = 1e3;

#[derive(Debug, Clone, Copy)]
pub(super) struct PeakEwma {
    /// The average at `since`.
    average_ns: f64,
    /// When the last sample came, or when a pick first looked. `None` before either: there is no clock to ask.
    since: Option<Instant>,
}

impl Default for PeakEwma {
    fn default() -> Self {
        Self {
            average_ns: LATENCY_DEFAULT_NS,
            since: None,
        }
    }
}

impl PeakEwma {
    /// The average as it looks at `now`, in nanoseconds.
    pub(super) fn latency_ns(&mut self, now: Instant) -> f64 {
        (self.average_ns * self.remaining(now)).max(LATENCY_MIN_NS)
    }

    pub(super) fn on_answer(&mut self, latency: Duration, now: Instant) {
        self.observe(latency.as_secs_f64() * 1e9, now);
    }

    pub(super) fn on_failure(&mut self, now: Instant) {
        let current_ns = self.latency_ns(now).max(LATENCY_DEFAULT_NS);
        // The limit cannot make a failure good news for an endpoint that is even slower: a sample below the average
        // takes no more off it than time alone would have.
        let penalty_ns = (current_ns * FAILURE_FACTOR).min(FAILURE_LATENCY_MAX_NS);
        self.observe(penalty_ns, now);
    }

    fn observe(&mut self, sample_ns: f64, now: Instant) {
        let remaining = self.remaining(now);
        self.average_ns = if sample_ns >= self.average_ns {
            sample_ns
        } else {
            self.average_ns * remaining + sample_ns * (1.0 - remaining)
        };
        self.since = self.since.max(Some(now));
    }

    /// The part of the average that is left at `now`, from 1 (just sampled) to 0 (long ago).
    fn remaining(&mut self, now: Instant) -> f64 {
        let since = *self.since.get_or_insert(now);
        (-now.saturating_duration_since(since).as_secs_f64() / DECAY.as_secs_f64()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::start;
    use super::*;

    /// The average in milliseconds after a history such as "answer 500, wait 10, fail": latencies in milliseconds,
    /// times in seconds.
    fn average_ms_after(history: &str) -> f64 {
        let mut now = start() + Duration::from_secs(1_000);
        let mut average = PeakEwma::default();
        for event in history.split_terminator(", ") {
            let (event, number) = event.split_once(' ').unwrap_or((event, "0"));
            let number = number.parse().expect("an event ends in a number");
            match event {
                "look" => _ = average.latency_ns(now),
                "answer" => average.on_answer(Duration::from_millis(number), now),
                "fail" => average.on_failure(now),
                "wait" => now += Duration::from_secs(number),
                "turn-back" => now = now.checked_sub(Duration::from_secs(number)).unwrap(),
                _ => panic!("unknown event {event}"),
            }
        }
        average.latency_ns(now) / 1e6
    }

    #[test]
    fn peaks_are_believed_at_once_and_recovery_takes_its_time() {
        // exp(-1) = 0.3679, exp(-2) = 0.1353
        let table = [
            // The default waits for a first look and decays from then on.
            ("", 30.0),
            ("wait 10", 30.0),
            ("look, wait 10", 11.04),
            // A peak replaces the average at any time.
            ("answer 500", 500.0),
            ("answer 100, wait 1, answer 500", 500.0),
            // Good news does nothing at first, pulls down later, and much later replaces.
            ("answer 500, answer 1", 500.0),
            ("answer 500, wait 10, answer 100", 247.15),
            ("answer 500, wait 999, answer 100", 100.0),
            // Without samples the average decays, but never to nothing.
            ("answer 500, wait 20", 67.67),
            ("answer 500, wait 999999", 0.001),
            // A failure is slower than usual, and usual is no less than the default.
            ("fail", 120.0),
            ("answer 500, fail", 2_000.0),
            ("answer 500, wait 99, fail", 120.0),
            // Time that runs backwards stands still.
            ("answer 500, turn-back 9, answer 100", 500.0),
            ("answer 500, turn-back 9, answer 100, wait 9", 500.0),
        ];
        for (history, expected_ms) in table {
            let average_ms = average_ms_after(history);
            let is_close = (average_ms - expected_ms).abs() < expected_ms * 1e-3;
            assert!(is_close, "after {history:?}: {average_ms} ms");
        }
    }

    #[test]
    fn failures_pile_up_to_a_limit_that_never_flatters() {
        let now = start();
        let mut average = PeakEwma::default();
        (0..1_000).for_each(|_| average.on_failure(now));
        assert!((average.latency_ns(now) - FAILURE_LATENCY_MAX_NS).abs() < 1.0);

        average.on_answer(Duration::from_secs(25), now);
        average.on_failure(now);
        assert!(
            (average.latency_ns(now) - 25e9).abs() < 1.0,
            "25 s is worse than the limit and stays"
        );
    }
}
