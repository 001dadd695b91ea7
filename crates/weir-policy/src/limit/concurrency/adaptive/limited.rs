//! A limit that keeps a service busy, and no more.
//!
//! The rate is measured while the limit is reached, so that it is the service's and not its clients'. The base is
//! measured in *trials* with a little less than the service holds, when nothing queues for certain. Both have errors:
//! service times vary, and a trial is short. So the limit leaves some room, and every error corrects itself: a base
//! that is too long lets a trial lose nothing, and with a base that is too short, requests take longer even in a trial.

use super::base::Base;
use super::beats::Beats;
use super::trial::{Progress, Trial};
use super::window::{Seen, Window, seconds};
use super::{BRIEF_S, Settings};
use std::time::Instant;

/// How many times what the service holds without queueing may be in flight, in addition to what it answers in
/// [`BRIEF_S`].
const GAIN: f64 = 2.5;

/// The rate is known after this many answers while the limit is reached.
const ANSWERS_FULL_MIN: u32 = 8;

/// A window is complete after this many answers,
const ANSWERS_MIN: u32 = 16;
/// this many seconds,
const WINDOW_MIN_S: f64 = 0.01;
/// and this many base latencies.
const WINDOW_BASES: f64 = 2.0;

/// The rate falls at most to a third in this many seconds. A service that has become slower, and so holds more, is
/// starved by its limit at first; this gives it time until the next trial.
const FALLS_S: f64 = 2.0;
/// In base latencies, if that is longer.
const FALLS_BASES: f64 = 20.0;

/// A trial lets in this share of what the service holds.
const TRIED: f64 = 0.8;
/// If the rate stays above this share in a trial, by more than chance, the service holds less. The next trial then lets
/// in half of this one.
const HOLDS_LESS: f64 = 0.86;
/// A trial measures for this many seconds,
const MEASURED_S: f64 = 0.25;
/// or this many base latencies, if that is longer.
const MEASURED_BASES: f64 = 5.0;
/// Trials are this many times as far apart as one lasts,
const APART: f64 = 10.0;
/// and at least this many seconds, at beats: few enough for all limiters to meet there.
const APART_S: f64 = 8.0;

/// A longer base must have made answers slower. It is believed up to this many times the loss of rate; more is a wait
/// behind the requests of others.
const LONGER: f64 = 1.2;
/// The first trial is believed up to this many times the old base, which may have been known badly.
const LONGER_FIRST: f64 = 2.0;

/// A limit ends when nobody was refused for this many seconds,
const CALM_S: f64 = 1.0;
/// or this many base latencies, if that is longer.
const CALM_BASES: f64 = 10.0;
/// A limit that is reached for more than this share of the time is not calm.
const CALM_FULL: f64 = 0.5;

/// A limit also ends when the service can take all load, over this many seconds,
const DEMAND_S: f64 = 2.0;
/// or this many base latencies, if that is longer.
const DEMAND_BASES: f64 = 20.0;
/// Without a proof before, this share of that time is enough.
const DEMAND_HASTY: f64 = 0.25;

#[derive(Debug)]
pub(super) struct Limited {
    settings: Settings,
    beats: Beats,
    limit: u32,
    /// Answers a second while the limit was reached: the highest recent rate, and the last one.
    rate: f64,
    recent: f64,
    /// Whether the limit was reached in the last window.
    is_reached: bool,
    trial: Option<Trial>,
    /// Answers a second when the last trial ended.
    rate_then: Option<f64>,
    next_trial: Instant,
    calm_since: Option<Instant>,
    demand: Demand,
    /// The share of the time over which load is compared, this time.
    demand_share: f64,
    /// Whether more came than the service can take, even under the limit.
    is_overload: bool,
}

/// How a [`Limited`] ends or goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The load is an overload: more comes than the service can take. If `goes_on` is false, it was none.
    Overload { goes_on: bool },
    /// The overload is over.
    Calm,
}

/// How many requests come, and how many the service could answer.
#[derive(Debug)]
struct Demand {
    since: Instant,
    offers: u32,
    /// Answers while the limit was reached, and for how many seconds it was.
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

    /// Whether the service could take all requests of this many seconds.
    fn is_met(&self, seconds: f64) -> bool {
        f64::from(self.offers) * self.full_s < f64::from(self.answers) * seconds
    }
}

impl Limited {
    /// For a service that answered `rate` requests a second, each of which takes `base` seconds without queueing.
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

    /// A limit without a proof: it ends sooner if the service can take all load.
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

    /// The service has become so many times as large. If it has not, because something else holds it back, the room in the
    /// limit shows that within a few windows. A trial in progress would compare it with what it was.
    pub(super) fn scale(&mut self, now: Instant, factor: f64, base: f64) {
        for rate in [&mut self.rate, &mut self.recent]
            .into_iter()
            .chain(&mut self.rate_then)
        {
            *rate *= factor;
        }
        if self.trial.take().is_some() {
            self.next_trial = self.beats.next(now, APART_S);
        }
        self.is_reached = false;
        self.calm_since = None;
        self.demand = Demand::new(now);
        self.set_limit(base);
    }

    /// Makes the changes that time alone causes.
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

    /// Follows the service through another window.
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

/// Seconds without a refusal after which a limit ends.
pub(super) fn calm_s(base: f64) -> f64 {
    CALM_S.max(CALM_BASES * base)
}

/// How long a trial measures.
fn measures_s(base: f64) -> f64 {
    MEASURED_S.max(MEASURED_BASES * base)
}

/// The base after a trial. It counts more, the more answers the trial saw; but at most half, unless the result is quite
/// different.
fn judge(known: f64, seen: &Seen) -> f64 {
    let is_alike = (known / 2.0..known * 2.0).contains(&seen.sojourn);
    let share = f64::from(seen.answers) / f64::from(ANSWERS_MIN);
    let weight = share.min(if is_alike { 0.5 } else { 1.0 });
    known + (seen.sojourn - known) * weight
}
