//! How often requests may be sent again, and how long to wait before that.
//!
//! Retries help when one request in many fails, and do harm when all fail: then every request is sent several times to
//! a service that cannot answer one. A [`Budget`] allows retries as a share of recent requests, so they can never
//! multiply the load. Finagle (`RetryBudget`) and Linkerd have the same idea with the same figures.
//!
//! The caller decides which requests may be retried (idempotent ones, with nothing sent to the client yet). One budget
//! belongs to one upstream; it also pays for hedges ([`crate::hedge`]).

use crate::window::Window;
use std::time::{Duration, Instant};

/// How many retries there may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetSettings {
    /// Retries for each request, from 0.
    pub ratio: f64,
    /// Retries per second that are always allowed, so that a route of little traffic can retry at all.
    pub min_per_s: f64,
    /// How long a request counts. Unused retries collect for this long and no longer: with the defaults, a route
    /// without traffic may retry 30 times at once.
    pub ttl: Duration,
}

impl BudgetSettings {
    /// [`BudgetSettings::ratio`], unless configured otherwise: a fifth.
    pub const RATIO_DEFAULT: f64 = 0.2;
    /// [`BudgetSettings::min_per_s`], unless configured otherwise.
    pub const MIN_PER_S_DEFAULT: f64 = 3.0;
    /// [`BudgetSettings::ttl`], unless configured otherwise.
    pub const TTL_DEFAULT: Duration = Duration::from_secs(10);
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self {
            ratio: Self::RATIO_DEFAULT,
            min_per_s: Self::MIN_PER_S_DEFAULT,
            ttl: Self::TTL_DEFAULT,
        }
    }
}

/// Counts requests and retries over a sliding time (error: what happened within a tenth of it). It takes about 170
/// bytes.
#[derive(Debug)]
pub struct Budget {
    settings: BudgetSettings,
    window: Window<2>,
}

const REQUESTS: usize = 0;
const RETRIES: usize = 1;

impl Budget {
    /// A budget that has seen nothing yet.
    pub fn new(settings: BudgetSettings, now: Instant) -> Self {
        Self {
            settings,
            window: Window::new(settings.ttl, now),
        }
    }

    /// A request was sent for the first time.
    pub fn on_request(&mut self, now: Instant) {
        self.window.add(now, REQUESTS, 1);
    }

    /// Takes one retry or hedge out of the budget. False: there is none, and the request must not be sent again.
    pub fn try_spend(&mut self, now: Instant) -> bool {
        let may = self.remaining(now) >= 1.0;
        if may {
            self.window.add(now, RETRIES, 1);
        }
        may
    }

    /// How many retries the budget allows now.
    pub fn remaining(&mut self, now: Instant) -> f64 {
        let counts = self.window.counts(now);
        let floor = self.settings.min_per_s * self.settings.ttl.as_secs_f64();
        (self.settings.ratio * counts[REQUESTS] + floor - counts[RETRIES]).max(0.0)
    }
}

/// How long to wait before sending again: "full jitter" (Brooker, "Exponential Backoff And Jitter", AWS 2015).
///
/// A wait is drawn uniformly from zero to a limit that doubles with each attempt. Clients that failed together do not
/// come back together. Brooker compares several rules, and this one costs least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullJitter {
    /// The limit of the wait before the first retry.
    pub first: Duration,
    /// The limit of the wait before any retry.
    pub max: Duration,
}

/// The most doublings of the limit.
const DOUBLINGS_MAX: u32 = 31;

impl FullJitter {
    /// [`FullJitter::first`], unless configured otherwise.
    pub const FIRST_DEFAULT: Duration = Duration::from_millis(25);
    /// [`FullJitter::max`], unless configured otherwise.
    pub const MAX_DEFAULT: Duration = Duration::from_secs(1);

    /// The wait before retry number `retry`, of which the first is 1 (0 counts as 1).
    pub fn before(&self, retry: u32, random: &mut fastrand::Rng) -> Duration {
        let doublings = retry.saturating_sub(1).min(DOUBLINGS_MAX);
        let limit = self.first.saturating_mul(1 << doublings).min(self.max);
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(random.u64(0..=limit_ns))
    }
}

impl Default for FullJitter {
    fn default() -> Self {
        Self {
            first: Self::FIRST_DEFAULT,
            max: Self::MAX_DEFAULT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::tests::start;
    use proptest::prelude::*;

    fn secs(seconds: f64) -> Instant {
        start() + Duration::from_secs_f64(seconds)
    }

    fn spend_all(budget: &mut Budget, now: Instant) -> u32 {
        (0..10_000).take_while(|_| budget.try_spend(now)).count() as u32
    }

    #[test]
    fn a_budget_is_a_share_of_the_requests_of_late_and_a_floor() {
        // (requests at second 0, when, retries allowed then)
        let table = [
            (0, 0.0, 30),
            (100, 0.0, 50),
            (100, 9.9, 50),
            (100, 11.0, 30),
            (1_000, 5.0, 230),
        ];
        for (requests, seconds, retries) in table {
            let mut budget = Budget::new(BudgetSettings::default(), start());
            (0..requests).for_each(|_| budget.on_request(start()));
            let spent = spend_all(&mut budget, secs(seconds));
            assert_eq!(spent, retries, "{requests} requests, after {seconds} s");
        }
    }

    #[test]
    fn what_is_spent_comes_back_after_its_time() {
        let mut budget = Budget::new(BudgetSettings::default(), start());
        assert_eq!(spend_all(&mut budget, start()), 30);
        assert_eq!(spend_all(&mut budget, secs(9.9)), 0);
        assert_eq!(spend_all(&mut budget, secs(11.0)), 30);
    }

    #[test]
    fn jitter_is_full() {
        let jitter = FullJitter::default();
        let mut random = fastrand::Rng::with_seed(1);
        // (retry, longest wait in milliseconds)
        for (retry, longest_ms) in [(0, 25), (1, 25), (2, 50), (5, 400), (7, 1_000), (99, 1_000)] {
            let waits: Vec<Duration> = (0..2_000)
                .map(|_| jitter.before(retry, &mut random))
                .collect();
            let (shortest, longest) = (*waits.iter().min().unwrap(), *waits.iter().max().unwrap());
            let limit = Duration::from_millis(longest_ms);
            assert!(shortest < limit / 100, "retry {retry}: {shortest:?}");
            assert!(
                longest <= limit && longest > limit * 99 / 100,
                "retry {retry}: {longest:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The seed is part of the input, which proptest prints on failure.
        #[test]
        fn retries_never_exceed_the_share_and_the_floor(seed: u64, per_step in 0u32..50) {
            let settings = BudgetSettings::default();
            let mut random = fastrand::Rng::with_seed(seed);
            let mut budget = Budget::new(settings, start());
            let (mut requests, mut retries) = (0.0, 0.0);
            let mut now = start();
            while now < secs(60.0) {
                now += Duration::from_millis(random.u64(0..500));
                for _ in 0..random.u32(0..=per_step) {
                    budget.on_request(now);
                    requests += 1.0;
                }
                retries += f64::from(spend_all(&mut budget, now));
                // A request counts for at most 11 seconds, a retry for at least 9.
                let floor = 30.0 + 30.0 * (now - start()).as_secs_f64() / 9.0;
                prop_assert!(retries <= 0.2 * requests * 11.0 / 9.0 + floor);
            }
        }
    }
}
