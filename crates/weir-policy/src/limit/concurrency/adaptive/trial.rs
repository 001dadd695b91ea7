//! Fewer requests in flight than asked for, for as long as it takes to see what comes of it.
//!
//! A trial takes three steps. What is in flight beyond its limit is answered; then what was left, and one that came after it, so
//! that nothing is left of the time before; then the rate is measured. A service in which requests queued gives as much as before:
//! they only waited. One in which none queued gives less, in proportion.
//!
//! Others who ask the same service change that: they fill it, or what they have in it is answered first. While requests take longer
//! and longer, or less and less, a fall of the rate says nothing, and a proof goes on.

use super::REACHED;
use super::window::{Seen, Window, seconds};
use std::time::{Duration, Instant};

/// So many times what it should take may it take until no more than the limit are in flight, and so many seconds.
const DRAINS_WITHIN: f64 = 1.7;
const DRAINS_GRACE_S: f64 = 0.002;
/// In a proof, what others have in the service may be answered before: so many times.
const PROOF_DRAINS_WITHIN: f64 = 6.0;

/// So many answers are measured, or so many times the limit of a small one, within so many seconds at least.
const ANSWERS_MIN: u32 = 32;
const ANSWERS_PER_PLACE: u32 = 2;
const PLACES_MAX: u32 = 64;
const MEASURED_MIN_S: f64 = 0.01;
/// And so many answers, unless that takes longer than so many seconds: service times that vary make rates that do.
const ANSWERS_ENOUGH: u32 = 400;
const MEASURED_ENOUGH_S: f64 = 0.25;
/// It is measured again if requests take so many times as long as before, or a part of that; so often at most.
const ALIKE: f64 = 1.5;
const MEASURED_MOST: u32 = 6;
/// Measuring ends after so many times what it should take, and so many seconds.
const GIVEN_UP_AFTER: f64 = 2.0;
const GIVEN_UP_MIN_S: f64 = 0.5;
/// With fewer answers nothing is seen, for so many seconds.
const ANSWERS_LEAST: u32 = 4;
const UNANSWERED_MAX_S: f64 = 30.0;

#[derive(Debug)]
pub(super) struct Trial {
    limit: u32,
    /// How many were in flight when it began, and how many answers a second came.
    in_flight: u32,
    rate: f64,
    began: Instant,
    step: Step,
    /// Seconds that it measures, however many answers come.
    measures_s: Option<f64>,
    /// Seconds that a request was in flight when it was measured last, and how often it was.
    sojourn: f64,
    measured: u32,
}

#[derive(Debug)]
enum Step {
    Drain,
    /// So many answers are still to come, or as much time to pass as a request was in flight before.
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
    /// What was in flight is answered much more slowly than it was when nothing kept others out: it is at work, for so many
    /// seconds each.
    DrainsSlowly {
        sojourn: f64,
    },
    /// What there is to see has been seen.
    Measured(Seen),
}

impl Trial {
    /// A trial of `limit`, where so many were in flight, and `rate` answers came a second.
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

    /// One that measures for so many seconds, however many answers come: as long as those that begin at the same time elsewhere.
    pub(super) fn measuring_for(self, seconds: f64) -> Self {
        Self {
            measures_s: Some(seconds),
            ..self
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Answers a second before it.
    pub(super) fn rate_before(&self) -> f64 {
        self.rate
    }

    /// Does what time and answers do to it.
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
                    if self.concludes(&seen) {
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

    /// Whether the rate has stayed: nearer to what it was than to what requests that do not queue would make of it.
    pub(super) fn has_stayed(&self, seen: &Seen) -> bool {
        let share = f64::from(self.limit) / f64::from(self.in_flight.max(1));
        seen.rate_full > self.rate * share.sqrt()
    }

    /// Whether it is about a limit that there may be, and not under one that there is.
    fn is_proof(&self) -> bool {
        self.measures_s.is_none()
    }

    /// Whether what was `seen` can be told from what others do.
    fn concludes(&mut self, seen: &Seen) -> bool {
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

    /// Whether what was `seen` since measuring began says something. It does when answers come so slowly that it never will.
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
