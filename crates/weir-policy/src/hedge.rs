//! When to ask a second endpoint, because the first has not answered.
//!
//! A hedge is a second copy of an idempotent request, sent when the first takes longer than most; the first answer is
//! used (Dean & Barroso, "The Tail at Scale", CACM 2013). After the 95th percentile, one request in twenty is sent
//! twice. A request that is slow only because of its endpoint becomes as fast as the rest.
//!
//! The caller decides whether a request may be sent twice. The retry budget ([`crate::retry::Budget`]) pays for hedges:
//! when everything becomes slow, hedges stop instead of doubling the load. The caller records the latency of the copy
//! that answered, counted from the first sending. A first copy that was given up says little, but without it the hedge
//! would learn that nothing is slow.

use crate::histogram::Histogram;
use std::time::{Duration, Instant};

/// When hedges are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The share of answers, from 0 to 1, that are not slower than the delay of a hedge.
    pub quantile: f64,
    /// The shortest delay, however fast the answers are.
    pub min: Duration,
    /// How many answers must be known. Old ones count for less than one.
    pub samples_min: u32,
    /// An answer loses half of its weight in this time.
    pub half_life: Duration,
}

impl Default for Settings {
    /// After the 95th percentile of at least a hundred answers of the last minute or so.
    fn default() -> Self {
        Self {
            quantile: 0.95,
            min: Duration::from_millis(1),
            samples_min: 100,
            half_life: Duration::from_secs(30),
        }
    }
}

/// Knows how long the answers of one route take. It takes about 800 bytes. The delay is at most 100 ms or 64 answers
/// old, and at most an eighth too long.
#[derive(Debug)]
pub struct Hedge {
    settings: Settings,
    latencies: Histogram,
    delay: Option<Duration>,
    /// When the delay was computed, and how many answers came since.
    found_at: Instant,
    since: u32,
}

/// After this time or this many answers, the delay is computed again.
const DELAY_AGE_MAX: Duration = Duration::from_millis(100);
const DELAY_ANSWERS_MAX: u32 = 64;

impl Hedge {
    /// A hedge that knows nothing yet.
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            settings,
            latencies: Histogram::new(settings.half_life, now),
            delay: None,
            found_at: now,
            since: 0,
        }
    }

    /// A request was answered.
    pub fn on_answer(&mut self, now: Instant, latency: Duration) {
        self.latencies.record(now, latency);
        self.since += 1;
    }

    /// How long after the first copy the second is sent; `None` while too little is known.
    pub fn delay(&mut self, now: Instant) -> Option<Duration> {
        let age = now.saturating_duration_since(self.found_at);
        if age >= DELAY_AGE_MAX || self.since >= DELAY_ANSWERS_MAX {
            self.delay = self.find(now);
            self.found_at = now;
            self.since = 0;
        }
        self.delay
    }

    fn find(&self, now: Instant) -> Option<Duration> {
        if self.latencies.count(now) < f64::from(self.settings.samples_min) {
            return None;
        }
        let delay = self.latencies.quantile(self.settings.quantile)?;
        Some(delay.max(self.settings.min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::tests::start;

    #[test]
    fn the_delay_is_what_one_in_twenty_exceeds() {
        let ms = |ms| start() + Duration::from_millis(ms);
        let mut hedge = Hedge::new(Settings::default(), start());
        let answer = |hedge: &mut Hedge, from: u64, latency: u64| {
            (from..from + 100).for_each(|at| {
                let latency = if at % 20 == 0 { 1_000 } else { latency };
                hedge.on_answer(ms(at), Duration::from_millis(latency));
            });
        };
        assert_eq!(hedge.delay(ms(0)), None);
        answer(&mut hedge, 0, 20);
        assert_eq!(hedge.delay(ms(99)), None, "99 and a bit are fewer than 100");
        answer(&mut hedge, 100, 20);
        let delay = hedge.delay(ms(200)).expect("200 are enough");
        assert!((20..23).contains(&delay.as_millis()), "{delay:?}");

        // A minute later the route is slower.
        answer(&mut hedge, 60_000, 40);
        answer(&mut hedge, 60_100, 40);
        let delay = hedge.delay(ms(60_200)).expect("200 are enough");
        assert!((40..46).contains(&delay.as_millis()), "{delay:?}");
        assert_eq!(hedge.delay(ms(400_000)), None, "all of it is long ago");
    }

    #[test]
    fn a_route_that_answers_at_once_is_not_hedged_at_once() {
        let mut hedge = Hedge::new(Settings::default(), start());
        (0..200).for_each(|_| hedge.on_answer(start(), Duration::from_micros(20)));
        assert_eq!(hedge.delay(start()), Some(Duration::from_millis(1)));
    }
}
