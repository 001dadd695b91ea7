//! What an endpoint has shown, and whether it stands out from what is typical.
//!
//! This file judges; it does not know states, and moves no endpoint.

use super::ages::{AGE_MAX, Ages};
use super::{Reason, Settings};
use crate::histogram::Histogram;
use crate::outcome::Outcome;
use crate::window::Window;
use std::time::{Duration, Instant};

/// A latency loses half of its weight in this time: an endpoint that becomes slow is slow by its median a second later.
const LATENCY_HALF_LIFE: Duration = Duration::from_secs(1);

/// A median of fewer latencies says nothing.
const LATENCIES_MIN: f64 = 5.0;

/// What is typical is taken from the answers of all endpoints together while none has a median of its own; these lose half
/// of their weight in this time. Five answers make it known, and then one in three seconds keeps it so.
const TYPICAL_HALF_LIFE: Duration = Duration::from_secs(10);

/// A trial lasts no longer than this while nothing is typical. Then an answer is not slow, and silence says nothing.
const UNKNOWN_TRIAL: Duration = Duration::from_secs(60);

/// A sibling fails clearly less often that fails no more than this much as often.
const CLEARLY: f64 = 1.0 / 3.0;

/// Standard deviations can be tiny; a success rate that is less than this below the mean does not stand out.
const BELOW_MEAN_MIN: f64 = 0.05;

const REQUESTS: usize = 0;
const FAILURES: usize = 1;

#[derive(Debug)]
pub(super) struct Evidence {
    window: Window<2>,
    latencies: Histogram,
    ages: Ages,
    failures_in_a_row: u32,
    last_answer_at: Instant,
    /// Taken back without having shown that it is well.
    is_suspect: bool,
}

impl Evidence {
    pub(super) fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            window: Window::new(settings.window, now),
            latencies: Histogram::new(LATENCY_HALF_LIFE, now),
            ages: Ages::new(now),
            failures_in_a_row: 0,
            last_answer_at: now,
            is_suspect: false,
        }
    }

    /// What is known of an endpoint that stays when others come or go. Its requests in flight report elsewhere.
    pub(super) fn succeed(&self, settings: &Settings, now: Instant) -> Self {
        Self {
            window: self.window.clone(),
            latencies: self.latencies.clone(),
            failures_in_a_row: self.failures_in_a_row,
            is_suspect: self.is_suspect,
            ..Self::new(settings, now)
        }
    }

    /// Forgets what was before the endpoint came back.
    pub(super) fn restart(&mut self, now: Instant) {
        self.window.clear(now);
        self.latencies.clear(now);
        self.ages = Ages::new(now);
        self.failures_in_a_row = 0;
        self.last_answer_at = now;
        self.is_suspect = false;
    }

    pub(super) fn suspect(&mut self) {
        self.is_suspect = true;
    }

    pub(super) fn on_start(&mut self, now: Instant) {
        self.ages.on_start(now);
    }

    pub(super) fn on_finish(
        &mut self,
        now: Instant,
        started_at: Instant,
        outcome: Outcome,
        typical: &mut Typical,
    ) {
        self.ages.on_finish(now, started_at);
        match outcome {
            Outcome::Ignored => return,
            Outcome::Success(latency) => {
                self.failures_in_a_row = 0;
                self.is_suspect &= typical.is_slow(latency);
                self.latencies.record(now, latency);
                typical.latencies.record(now, latency);
            }
            Outcome::Failure(_) => {
                self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                self.window.add(now, FAILURES, 1);
            }
        }
        self.window.add(now, REQUESTS, 1);
        self.last_answer_at = now;
    }

    pub(super) fn fails_in_a_row(&self, settings: &Settings) -> bool {
        let limit = settings.consecutive_failures;
        limit.is_some_and(|limit| self.failures_in_a_row >= limit.max(1))
    }

    /// Why the endpoint stands out, if it does.
    pub(super) fn speaks(
        &mut self,
        settings: &Settings,
        typical: &Typical,
        now: Instant,
    ) -> Option<Reason> {
        if self.is_suspect || self.fails_in_a_row(settings) {
            return Some(Reason::ConsecutiveFailures);
        }
        let silence = now.saturating_duration_since(self.last_answer_at);
        if let Some(silent_after) = typical.silent_after
            && silence > silent_after
            && self.ages.older_than(now, silent_after) >= settings.silent_requests.max(1)
        {
            return Some(Reason::Silent);
        }
        if self.fails_too_often(settings, typical, now) {
            return Some(Reason::FailureShare);
        }
        let median = self.median(now);
        let is_slow = median.is_some_and(|median| typical.is_slow(median));
        is_slow.then_some(Reason::Slow)
    }

    fn fails_too_often(&mut self, settings: &Settings, typical: &Typical, now: Instant) -> bool {
        let [requests, failures] = self.window.counts(now);
        if requests < f64::from(settings.min_requests) || failures < 1.0 {
            return false;
        }
        let share = failures / requests;
        let siblings_share =
            (typical.failures - failures).max(0.0) / (typical.requests - requests).max(1.0);
        let is_bad = share >= settings.failure_share && siblings_share <= share * CLEARLY;
        let below = typical.success_mean - (1.0 - share);
        let is_outlier = typical.counted >= settings.sigma_endpoints_min
            && below >= BELOW_MEAN_MIN
            && below > settings.sigma * typical.success_deviation;
        is_bad || is_outlier
    }

    fn median(&self, now: Instant) -> Option<Duration> {
        median(&self.latencies, now)
    }
}

fn median(latencies: &Histogram, now: Instant) -> Option<Duration> {
    if latencies.count(now) < LATENCIES_MIN {
        return None;
    }
    latencies.quantile(0.5)
}

/// What the endpoints in the rotation have in common.
#[derive(Debug)]
pub(super) struct Typical {
    /// Of all of them together.
    latencies: Histogram,
    /// An answer is slow that takes longer. `None`: nobody knows.
    slow_after: Option<Duration>,
    /// Silence is suspicious that lasts longer. `None`: nobody knows, or it is longer than ages are counted.
    silent_after: Option<Duration>,
    /// A trial without an answer has failed after this time. Never less than `slow_after`.
    pub(super) trial_after: Duration,
    /// Of all of them.
    requests: f64,
    failures: f64,
    /// Those with enough requests, and the mean and standard deviation of their shares of successes.
    counted: usize,
    success_mean: f64,
    success_deviation: f64,
    /// Kept from one time to the next, to allocate nothing.
    medians: Vec<Duration>,
}

impl Typical {
    pub(super) fn new(endpoints: usize, now: Instant) -> Self {
        Self {
            latencies: Histogram::new(TYPICAL_HALF_LIFE, now),
            slow_after: None,
            silent_after: None,
            trial_after: UNKNOWN_TRIAL,
            requests: 0.0,
            failures: 0.0,
            counted: 0,
            success_mean: 1.0,
            success_deviation: 0.0,
            medians: Vec::with_capacity(endpoints),
        }
    }

    /// What is typical when endpoints come or go, until it is found again.
    pub(super) fn succeed(&self, endpoints: usize, now: Instant) -> Self {
        Self {
            latencies: self.latencies.clone(),
            slow_after: self.slow_after,
            silent_after: self.silent_after,
            trial_after: self.trial_after,
            ..Self::new(endpoints, now)
        }
    }

    /// Whether an answer that took this long is slow, as far as anybody knows.
    pub(super) fn is_slow(&self, latency: Duration) -> bool {
        self.slow_after
            .is_some_and(|slow_after| latency > slow_after)
    }

    pub(super) fn find<'a>(
        &mut self,
        settings: &Settings,
        now: Instant,
        endpoints: impl Iterator<Item = &'a mut Evidence>,
    ) {
        (self.requests, self.failures, self.counted) = (0.0, 0.0, 0);
        self.medians.clear();
        let (mut sum, mut sum_of_squares) = (0.0, 0.0);
        for evidence in endpoints {
            let [requests, failures] = evidence.window.counts(now);
            self.requests += requests;
            self.failures += failures;
            if requests >= f64::from(settings.min_requests.max(1)) {
                let share = 1.0 - failures / requests;
                self.counted += 1;
                sum += share;
                sum_of_squares += share * share;
            }
            self.medians.extend(evidence.median(now));
        }
        let counted = self.counted.max(1) as f64;
        self.success_mean = sum / counted;
        let variance = sum_of_squares / counted - self.success_mean * self.success_mean;
        self.success_deviation = variance.max(0.0).sqrt();
        self.find_bounds(settings, now);
    }

    fn find_bounds(&mut self, settings: &Settings, now: Instant) {
        self.medians.sort_unstable();
        // The median of their medians, the lower one of two.
        let middle = self.medians.len().saturating_sub(1) / 2;
        let of_each = self.medians.get(middle).copied();
        let typical = of_each.or_else(|| median(&self.latencies, now));
        let slow = typical.map(|median| median.mul_f64(settings.slow_factor.max(1.0)));
        let silent = slow.map(|slow| slow.max(settings.silent_min));
        self.slow_after = slow.map(|slow| slow.max(settings.slow_min));
        self.silent_after = silent.filter(|silent| *silent <= AGE_MAX);
        self.trial_after = silent.max(self.slow_after).unwrap_or(UNKNOWN_TRIAL);
    }
}
