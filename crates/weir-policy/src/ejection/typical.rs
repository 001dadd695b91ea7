//! What the endpoints in the rotation have in common, and what they have shown together.

use super::Settings;
use super::ages::AGE_MAX;
use super::chance::Shown;
use super::evidence::Evidence;
use super::kinds::Kinds;
use crate::histogram::{Histogram, Spread};
use std::time::{Duration, Instant};

/// While no endpoint has a median of its own, the typical latency comes from the answers of all together. These lose
/// half of their weight in this time. Five answers make it known, and then one in three seconds keeps it known.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// How many of these answers are needed.
const ANSWERS_MIN: f64 = 5.0;

/// The longest trial while nothing is typical. Then no answer is slow, and silence says nothing.
const UNKNOWN_TRIAL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Typical {
    /// The latencies of all endpoints together.
    pub(super) latencies: Histogram,
    pub(super) kinds: Kinds,
    /// All answers ever of the endpoints that are watched.
    pub(super) shown: Shown,
    /// An answer that takes longer is slow. `None`: unknown.
    slow_after: Option<Duration>,
    /// A longer silence is suspicious. `None`: unknown, or longer than ages are counted.
    pub(super) silent_after: Option<Duration>,
    /// A trial without an answer after this time has failed. Never less than `slow_after`.
    pub(super) trial_after: Duration,
    /// Answers of all endpoints in the window.
    pub(super) answers: Shown,
    /// Requests of all endpoints that ended in the window, or should have; late ones are bad.
    pub(super) in_time: Shown,
    /// How many requests have waited for longer than `silent_after`.
    pub(super) waiting: f64,
    /// The endpoints with enough requests, and the mean and standard deviation of their shares of successes.
    pub(super) counted: usize,
    pub(super) success_mean: f64,
    pub(super) success_deviation: f64,
    /// Recent latencies of all endpoints, if one of them is slow.
    pub(super) spread: Spread,
    /// Kept between calls, so that nothing is allocated.
    medians: Vec<Duration>,
    halved_at: Instant,
}

impl Typical {
    pub(super) fn new(endpoints: usize, now: Instant) -> Self {
        Self {
            latencies: Histogram::new(HALF_LIFE, now),
            kinds: Kinds::new(),
            shown: Shown::default(),
            slow_after: None,
            silent_after: None,
            trial_after: UNKNOWN_TRIAL,
            answers: Shown::default(),
            in_time: Shown::default(),
            waiting: 0.0,
            counted: 0,
            success_mean: 1.0,
            success_deviation: 0.0,
            spread: Spread::default(),
            medians: Vec::with_capacity(endpoints),
            halved_at: now,
        }
    }

    /// What is typical after endpoints came or went, until it is computed again.
    pub(super) fn succeed<'a>(
        &self,
        stay: impl ExactSizeIterator<Item = &'a Evidence>,
        now: Instant,
    ) -> Self {
        let mut next = Self {
            latencies: self.latencies.clone(),
            slow_after: self.slow_after,
            silent_after: self.silent_after,
            trial_after: self.trial_after,
            ..Self::new(stay.len(), now)
        };
        for evidence in stay {
            next.kinds.add_all(evidence.kinds());
            let shown = evidence.shown();
            next.shown.requests += shown.requests;
            next.shown.bad += shown.bad;
        }
        next
    }

    /// Whether an answer that took this long is slow, as far as that is known.
    pub(super) fn is_slow(&self, latency: Duration) -> bool {
        self.slow_after
            .is_some_and(|slow_after| latency > slow_after)
    }

    /// Halves the weight of the kinds, if it is time. Returns whether it was.
    pub(super) fn halve_if_due(&mut self, now: Instant, after: Duration) -> bool {
        let ages = now >= self.halved_at + after;
        if ages {
            self.halved_at = now;
            self.kinds.halve();
        }
        ages
    }

    pub(super) fn find<'a>(
        &mut self,
        settings: &Settings,
        now: Instant,
        endpoints: impl Iterator<Item = &'a mut Evidence>,
    ) {
        (self.answers, self.counted) = (Shown::default(), 0);
        self.medians.clear();
        let (mut sum, mut sum_of_squares) = (0.0, 0.0);
        for evidence in endpoints {
            let answers = evidence.answers(now);
            self.answers.add(answers);
            if answers.requests >= f64::from(settings.min_requests.max(1)) {
                let share = 1.0 - answers.bad / answers.requests;
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

    /// Computes what depends on the typical latency: how many wait longer, and the latencies of all, if one endpoint is
    /// slow.
    pub(super) fn compare<'a>(
        &mut self,
        now: Instant,
        endpoints: impl Iterator<Item = &'a mut Evidence>,
    ) {
        (self.in_time, self.waiting) = (Shown::default(), 0.0);
        self.spread = Spread::default();
        let is_one_slow = self
            .medians
            .last()
            .is_some_and(|&median| self.is_slow(median));
        for evidence in endpoints {
            let waiting = evidence.waiting(now, self.silent_after);
            self.in_time.add(evidence.in_time(now, waiting));
            self.waiting += waiting;
            if is_one_slow {
                evidence.add_latencies(now, &mut self.spread);
            }
        }
    }

    fn find_bounds(&mut self, settings: &Settings, now: Instant) {
        self.medians.sort_unstable();
        // The median of their medians; of two in the middle, the lower one.
        let middle = self.medians.len().saturating_sub(1) / 2;
        let of_each = self.medians.get(middle).copied();
        let of_all = || {
            let is_known = self.latencies.count(now) >= ANSWERS_MIN;
            is_known.then(|| self.latencies.quantile(0.5)).flatten()
        };
        let typical = of_each.or_else(of_all);
        let slow = typical.map(|median| median.mul_f64(settings.slow_factor.max(1.0)));
        let silent = slow.map(|slow| slow.max(settings.silent_min));
        self.slow_after = slow.map(|slow| slow.max(settings.slow_min));
        self.silent_after = silent.filter(|silent| *silent <= AGE_MAX);
        self.trial_after = silent.max(self.slow_after).unwrap_or(UNKNOWN_TRIAL);
    }
}
