//! A trial: fewer requests in flight than asked for, for long enough to see the effect.
//!
//! A trial takes three steps. First everything in flight beyond its limit is answered. Then the rest is answered, and
//! one request that came after it, so that nothing is left of the time before. Then the rate is measured. A service in
//! which requests queued gives as much as before: they only waited. A service without a queue gives less, in
//! proportion.
//!
//! Other users of the same service disturb that: they fill it, or their requests are answered first. While requests
//! take longer and longer, or less and less, a lower rate says nothing, and a proof goes on.

use super::REACHED;
use super::window::{Seen, Window, seconds};
use std::time::{Duration, Instant};

/// It may take this many times as long as it should until no more than the limit are in flight,
const DRAINS_WITHIN: f64 = 1.7;
/// plus this many seconds.
const DRAINS_GRACE_S: f64 = 0.002;
/// In a proof, requests of others may be answered before: this many times.
const PROOF_DRAINS_WITHIN: f64 = 6.0;

/// A trial measures at least this many answers,
const ANSWERS_MIN: u32 = 32;
/// or this many times its limit,
const ANSWERS_PER_PLACE: u32 = 2;
/// where a larger limit counts as this,
const PLACES_MAX: u32 = 64;
/// and at least this many seconds.
const MEASURED_MIN_S: f64 = 0.01;
/// It also waits for this many answers,
const ANSWERS_ENOUGH: u32 = 400;
/// unless that takes more than this many seconds: when service times vary, rates do too.
const MEASURED_ENOUGH_S: f64 = 0.25;
/// A proof measures again unless requests take as long as before, up to this factor,
const ALIKE: f64 = 1.5;
/// but at most this many times.
const MEASURED_MOST: u32 = 6;
/// Measuring ends after this many times what it should take,
const GIVEN_UP_AFTER: f64 = 2.0;
/// and after this many seconds at least.
const GIVEN_UP_MIN_S: f64 = 0.5;
/// With fewer answers nothing can be seen,
const ANSWERS_LEAST: u32 = 4;
/// for at most this many seconds.
const UNANSWERED_MAX_S: f64 = 30.0;

#[derive(Debug)]
pub(super) struct Trial {
    limit: u32,
    /// How many were in flight when it began, and how many answers came a second.
    in_flight: u32,
    rate: f64,
    began: Instant,
    step: Step,
    /// The seconds that it measures, if they do not depend on answers.
    measures_s: Option<f64>,
    /// Seconds that a request was in flight at the last measurement, and how many measurements there were.
    sojourn: f64,
    measured: u32,
}

#[derive(Debug)]
enum Step {
    Drain,
    /// Until this many answers have come, or as much time has passed as a request was in flight before.
    Settle {
        answers: u32,
        until: Instant,
    },
    Measure,
}

/// How far a trial has come.
#[derive(Debug, Clone, Copy)]
pub(super) enum Progress {
    Goes,
    /// What was in flight is answered much more slowly than before the trial. So it is at work, for `sojourn` seconds
    /// each.
    DrainsSlowly {
        sojourn: f64,
    },
    /// The measurement is complete.
    Measured(Seen),
}

impl Trial {
    /// A trial with `limit`, when `in_flight` were in flight and `rate` answers came a second.
    pub(super) fn new(limit: f64, rate: f64, in_flight: u32, now: Instant) -> Self {
        Self {
            limit: (limit as u32).max(1),
            in_flight,
            rate: rate.max(1e-9),
            began: now,
            step: Step::Drain,
            measures_s: None,
            sojourn: f64::from(in_flight) / rate.max(1e-9),
            measured: 0,
        }
    }

    /// A trial that measures for a fixed time, as long as those that begin elsewhere at the same time.
    pub(super) fn measuring_for(self, seconds: f64) -> Self {
        Self {
            measures_s: Some(seconds),
            ..self
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Answers a second before the trial.
    pub(super) fn rate_before(&self) -> f64 {
        self.rate
    }

    /// Goes on to the next step, if time and answers allow.
    pub(super) fn turn(&mut self, now: Instant, window: &mut Window) -> Progress {
        let in_flight = window.in_flight();
        let sojourn = f64::from(self.in_flight) / self.rate;
        match self.step {
            Step::Drain if in_flight <= self.limit => {
                self.step = Step::Settle {
                    answers: in_flight + 1,
                    until: now + Duration::from_secs_f64(sojourn.min(1e6)),
                };
            }
            Step::Drain => {
                let beyond = f64::from(self.in_flight.saturating_sub(self.limit));
                let within = if self.is_proof() {
                    PROOF_DRAINS_WITHIN
                } else {
                    DRAINS_WITHIN
                };
                let takes = within * beyond / self.rate + DRAINS_GRACE_S;
                if seconds(self.began, now) > takes {
                    return Progress::DrainsSlowly { sojourn };
                }
            }
            Step::Settle { answers, until } if answers == 0 || now >= until => {
                self.step = Step::Measure;
                window.begin(now);
            }
            Step::Settle { .. } => {}
            Step::Measure => {
                let seen = window.see();
                if self.is_measured(&seen) {
                    window.begin(now);
                    if self.conclude(&seen) {
                        return Progress::Measured(seen);
                    }
                }
            }
        }
        Progress::Goes
    }

    pub(super) fn on_answer(&mut self) {
        if let Step::Settle { answers, .. } = &mut self.step {
            *answers = answers.saturating_sub(1);
        }
    }

    /// Whether the rate has stayed: it is closer to the rate before than to that of requests without a queue.
    pub(super) fn has_stayed(&self, seen: &Seen) -> bool {
        let share = f64::from(self.limit) / f64::from(self.in_flight.max(1));
        seen.rate_full > self.rate * share.sqrt()
    }

    /// Whether it decides about a new limit, rather than testing an existing one.
    fn is_proof(&self) -> bool {
        self.measures_s.is_none()
    }

    /// Takes note of a measurement. Returns whether what was `seen` cannot be an effect of other users.
    fn conclude(&mut self, seen: &Seen) -> bool {
        let before = std::mem::replace(&mut self.sojourn, seen.sojourn);
        self.measured += 1;
        let is_alike = (before / ALIKE..before * ALIKE).contains(&seen.sojourn);
        let may_be_others = self.is_proof() && seen.full > REACHED && !self.has_stayed(seen);
        !may_be_others || is_alike || self.measured >= MEASURED_MOST
    }

    /// Seconds since it began.
    pub(super) fn took(&self, now: Instant) -> f64 {
        seconds(self.began, now)
    }

    /// Whether the measurement is long enough, or answers are so slow that it never will be.
    fn is_measured(&self, seen: &Seen) -> bool {
        if let Some(measures_s) = self.measures_s {
            return seen.time >= measures_s || seen.answers_full >= ANSWERS_ENOUGH;
        }
        let answers = ANSWERS_MIN.max(ANSWERS_PER_PLACE * self.limit.min(PLACES_MAX));
        let long = MEASURED_MIN_S.max(f64::from(self.limit) / self.rate);
        let is_enough = seen.answers_full >= ANSWERS_ENOUGH || seen.time >= MEASURED_ENOUGH_S;
        let is_whole = seen.answers_full >= answers && seen.time >= long && is_enough;
        let too_long = GIVEN_UP_AFTER * (f64::from(answers) / self.rate).max(long);
        let most_s = if seen.answers < ANSWERS_LEAST {
            UNANSWERED_MAX_S
        } else {
            GIVEN_UP_MIN_S
        };
        is_whole || seen.time > too_long.max(most_s)
    }
}
