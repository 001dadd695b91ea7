//! A limit that keeps a service busy, and no more.
//!
//! The rate is measured while the limit is reached, so that it is the service's and not that of its clients; the base in
//! *trials* of a little less than the service holds, where nothing queues for certain. Both err: service times vary, and a trial is
//! short. So there is room for it in the limit, and every error mends itself. A base that is too long shows in a trial that
//! lacks nothing; a base that is too short in requests that take longer than it even then.

use super::base::Base;
use super::beats::Beats;
use super::trial::{Progress, Trial};
use super::window::{Seen, Window, seconds};
use super::{BRIEF_S, Settings};
use std::time::Instant;

/// How many times what the service holds without queueing may be in flight, besides what it answers in [`BRIEF_S`].
const GAIN: f64 = 2.5;

/// So many answers while the limit is reached say how many come a second.
const ANSWERS_FULL_MIN: u32 = 8;

/// A window: answers, seconds, base latencies.
const ANSWERS_MIN: u32 = 16;
const WINDOW_MIN_S: f64 = 0.01;
const WINDOW_BASES: f64 = 2.0;

/// The rate falls no faster than to a third in so many seconds, and base latencies. A service that has become slower, and so
/// holds more, is starved by its limit at first; this gives it time until the next trial.
const FALLS_S: f64 = 2.0;
const FALLS_BASES: f64 = 20.0;

/// A trial lets in this share of what the service holds.
const TRIED: f64 = 0.8;
/// If the rate stays above this share even so, and as much as chance may add, the service holds less, and the next trial lets in
/// half of this one.
const HOLDS_LESS: f64 = 0.86;
/// It measures for so many seconds, and base latencies.
const MEASURED_S: f64 = 0.25;
const MEASURED_BASES: f64 = 5.0;
/// Trials begin at beats so many times as long as one takes, and so many seconds: few enough for all limiters to meet at them.
const APART: f64 = 10.0;
const APART_S: f64 = 8.0;

/// A base that is longer than it was has made answers come more slowly, but for so many times. What is longer without that waits
/// behind what others have in the service.
const LONGER: f64 = 1.2;
/// At first it may have been known badly: so many times.
const LONGER_FIRST: f64 = 2.0;

/// Nobody refused for so many seconds, and base latencies, ends the limit.
const CALM_S: f64 = 1.0;
const CALM_BASES: f64 = 10.0;
/// With more than this share of the time at its limit, it is not calm.
const CALM_FULL: f64 = 0.5;

/// So does load that the service can take, over so many seconds, and base latencies.
const DEMAND_S: f64 = 2.0;
const DEMAND_BASES: f64 = 20.0;
/// If it has not been put to the proof, over this share of that.
const DEMAND_HASTY: f64 = 0.25;

#[derive(Debug)]
pub(super) struct Limited {
    settings: Settings,
    beats: Beats,
    limit: u32,
    /// Answers a second while the limit was reached: the most lately, and the last.
    rate: f64,
    recent: f64,
    /// Whether the limit was reached in the last window.
    is_reached: bool,
    trial: Option<Trial>,
    /// Answers a second when the last one had ended.
    rate_then: Option<f64>,
    next_trial: Instant,
    calm_since: Option<Instant>,
    demand: Demand,
    /// The share of the time that load is looked at, this time.
    demand_share: f64,
    /// More than the service can take was asked for even after it was limited.
    is_overload: bool,
}

/// What a [`Limited`] has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// More is asked for than the service can take, or, if that never was so, less.
    Overload { goes_on: bool },
    /// There is no overload any more.
    Calm,
}

/// How many ask, and how many the service could answer.
#[derive(Debug)]
struct Demand {
    since: Instant,
    offers: u32,
    /// Answers while the limit was reached, and the seconds of that.
    answers: u32,
    full_s: f64,
}

impl Demand {
    fn new(since: Instant) -> Self {
        Self {
            since,
            offers: 0,
            answers: 0,
            full_s: 0.0,
        }
    }

    fn add(&mut self, seen: &Seen) {
        self.offers = self.offers.saturating_add(seen.offers);
        self.answers = self.answers.saturating_add(seen.answers_full);
        self.full_s += seen.full * seen.time;
    }

    /// Whether the service can take it all, after so many seconds.
    fn is_met(&self, seconds: f64) -> bool {
        f64::from(self.offers) * self.full_s < f64::from(self.answers) * seconds
    }
}

impl Limited {
    /// For a service that has answered `rate` requests a second, each of which takes `base` seconds when nothing queues.
    pub(super) fn new(
        settings: Settings,
        beats: Beats,
        rate: f64,
        base: f64,
        now: Instant,
    ) -> Self {
        let mut limited = Self {
            settings,
            beats,
            limit: 0,
            rate,
            recent: rate,
            is_reached: false,
            trial: None,
            rate_then: None,
            next_trial: now,
            calm_since: None,
            demand: Demand::new(now),
            demand_share: 1.0,
            is_overload: false,
        };
        limited.set_limit(base);
        limited
    }

    /// One for what has not been put to the proof: it ends sooner where the service can take all that is asked for.
    pub(super) fn hasty(self) -> Self {
        Self {
            demand_share: DEMAND_HASTY,
            ..self
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.trial.as_ref().map_or(self.limit, Trial::limit)
    }

    /// Answers a second that the service can give.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn on_answer(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.on_answer();
        }
    }

    /// Does what time alone does.
    pub(super) fn turn(&mut self, now: Instant, window: &mut Window, base: &mut Base) {
        let known = base.latency();
        let Some(trial) = &mut self.trial else {
            if self.is_reached && now >= self.next_trial {
                self.try_less(known.unwrap_or_default(), window.in_flight(), now);
            }
            return;
        };
        let found = match trial.turn(now, window) {
            Progress::Goes => return,
            Progress::DrainsSlowly { sojourn } => known.unwrap_or(sojourn).max(sojourn),
            Progress::Measured(seen) => {
                self.demand.add(&seen);
                let known = known.unwrap_or(seen.sojourn);
                let chance = 1.0 / f64::from(seen.answers_full.max(1)).sqrt();
                let stays = seen.rate_full > (HOLDS_LESS + chance) * trial.rate_before();
                if stays && trial.limit() > 1 && seen.answers_full >= ANSWERS_FULL_MIN {
                    base.set(seen.sojourn.min(known));
                    let half = f64::from(trial.limit()) / 2.0;
                    let measures_s = measures_s(seen.sojourn.min(known));
                    *trial = Trial::new(half, seen.rate_full, window.in_flight(), now)
                        .measuring_for(measures_s);
                    return;
                }
                judge(known, &seen)
            }
        };
        let longer = self
            .rate_then
            .map_or(LONGER_FIRST, |then| (LONGER * then / self.recent).max(1.0));
        let found = found.min(known.map_or(found, |known| longer * known));
        base.set(found);
        self.rate_then = Some(self.recent);
        self.next_trial = self.beats.next(now, (APART * trial.took(now)).max(APART_S));
        self.trial = None;
        self.set_limit(found);
    }

    /// How does the service do?
    pub(super) fn follow(
        &mut self,
        now: Instant,
        window: &mut Window,
        base: &Base,
        tolerance: f64,
    ) -> Option<End> {
        let seen = window.see();
        let base = base.latency().unwrap_or(seen.sojourn);
        let long = WINDOW_MIN_S.max(WINDOW_BASES * base);
        if self.trial.is_some() || seen.answers < ANSWERS_MIN || seen.time < long {
            return None;
        }
        window.begin(now);
        self.demand.add(&seen);
        self.is_reached = seen.answers_full >= ANSWERS_FULL_MIN;
        if self.is_reached {
            self.recent = f64::midpoint(self.recent, seen.rate_full);
            let falls = (-seen.time / (FALLS_BASES * base).max(FALLS_S)).exp();
            self.rate = self.recent.max(self.rate * falls);
        }
        self.set_limit(base);
        if seen.refusals == 0 && seen.full < CALM_FULL {
            let since = *self.calm_since.get_or_insert(now);
            let is_over = seconds(since, now) > calm_s(base);
            return is_over.then_some(End::Calm);
        }
        self.calm_since = None;
        let counted = seconds(self.demand.since, now);
        if counted > self.demand_share * tolerance * DEMAND_S.max(DEMAND_BASES * base) {
            self.demand_share = 1.0;
            let is_met = self.demand.is_met(counted);
            if is_met && self.is_overload {
                return Some(End::Calm);
            }
            self.is_overload = true;
            self.demand = Demand::new(now);
            return Some(End::Overload { goes_on: !is_met });
        }
        None
    }

    fn try_less(&mut self, base: f64, in_flight: u32, now: Instant) {
        let tried = TRIED * self.recent * base;
        let trial = Trial::new(tried, self.recent, in_flight, now);
        self.trial = Some(trial.measuring_for(measures_s(base)));
        self.calm_since = None;
    }

    fn set_limit(&mut self, base: f64) {
        let limit = self.rate * (GAIN * base + BRIEF_S) + 1.0;
        self.limit = (limit as u32).clamp(self.settings.min, self.settings.max);
    }
}

/// Seconds after which a limit ends that refuses nobody.
pub(super) fn calm_s(base: f64) -> f64 {
    CALM_S.max(CALM_BASES * base)
}

/// How long a trial measures.
fn measures_s(base: f64) -> f64 {
    MEASURED_S.max(MEASURED_BASES * base)
}

/// The base after a trial: the more answers it saw, the more it counts, and half at most unless it says something quite
/// different.
fn judge(known: f64, seen: &Seen) -> f64 {
    let is_alike = (known / 2.0..known * 2.0).contains(&seen.sojourn);
    let share = f64::from(seen.answers) / f64::from(ANSWERS_MIN);
    let weight = share.min(if is_alike { 0.5 } else { 1.0 });
    known + (seen.sojourn - known) * weight
}
