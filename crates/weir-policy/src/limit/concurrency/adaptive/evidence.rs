//! The evidence that requests queue inside a service: a queue that grows.
//!
//! By Little's law, a service holds as many requests as it answers in its base latency. If more than three times as
//! many are in flight *all of the time*, and hardly an answer comes as soon as usual, requests wait for something. Most
//! queues go away by themselves: bursts, pauses and chance fill a service for a moment. So the smallest number in
//! flight counts (as `CoDel` has it for the time that packets wait; Nichols and Jacobson, ACM Queue 2012), and a queue
//! is evidence only if
//!
//! - it *lasts*: it stands for a second or more, longer than recent queues that went away by themselves, and long
//!   compared with the pauses between arrivals. Its least length must also be greater in the later half of that time
//!   than in the half before. Clients that wait for an answer before they ask again make a queue that stands and does
//!   not grow; refusing some of them helps none of the others;
//! - or it is a *surge*: requests come so much faster than answers that waiting for proof would take seconds to mend.

use super::BRIEF_S;
use super::base::Base;
use super::window::{Seen, seconds};
use std::time::Instant;

/// The service may hold this many times what it holds without queueing for a while. That is no queue.
pub(super) const STANDING: f64 = 3.0;
/// Fewer requests in flight are not worth a limit.
const LEAST_MIN: f64 = 2.0;

/// With more than this share of answers as soon as usual, late answers do not wait for all the others.
const QUICK_SHARE: f64 = 0.1;
/// A service that answers in any order has more quick answers. The share is then this many times the part of those in
/// flight that it holds without queueing,
const QUICK_CHANCE: f64 = 2.0;
/// but at most this.
const QUICK_SHARE_MAX: f64 = 0.5;
/// The share is taken from this many of the last answers.
const QUICK_OF: f64 = 64.0;
/// An answer comes as soon as usual within this many times what the quickest tenth take, plus [`BRIEF_S`].
const QUICK: f64 = 3.0;

/// A window counts with at least this many answers ...
const ANSWERS_MIN: u32 = 16;
/// ... after this many seconds,
const WINDOW_MIN_S: f64 = 0.01;
/// and this many base latencies.
const WINDOW_BASES: f64 = 2.0;
/// Half of the answers and of the base latencies is enough if this many times as many requests come as answers.
const HURRIED: u32 = 4;

/// A queue lasts if it stands for this many seconds,
const LASTS_S: f64 = 1.0;
/// for this many base latencies,
const LASTS_BASES: f64 = 5.0;
/// for this many times as long as those that went away by themselves,
const LONGER: f64 = 3.0;
/// for this many times the longest gap between arrivals,
const GAPS: f64 = 8.0;
/// and if it is this many times as long as in the half before.
const GROWS: f64 = 1.15;

/// Queues that went away by themselves are forgotten in this many seconds,
const FORGOTTEN_S: f64 = 30.0;
/// or this many base latencies, if that is longer.
const FORGOTTEN_BASES: f64 = 100.0;
/// A queue is remembered as having stood for this many seconds at most,
const REMEMBERED_S: f64 = 10.0;
/// or this many base latencies, if that is longer.
const REMEMBERED_BASES: f64 = 50.0;

/// In a surge this many times as many requests come as answers,
const SURGE: f64 = 2.5;
/// at this many instants at least
const SURGE_INSTANTS: u32 = 8;
/// and in this many windows at least,
const SURGE_WINDOWS: u32 = 2;
/// and the queue has grown by what is answered in this many seconds,
const SURGE_S: f64 = 0.1;
/// or in this many base latencies, if that is longer.
const SURGE_BASES: f64 = 5.0;
/// A service that gives less than this share of its best recent rate is ill rather than overrun, and that may pass.
const BEST_SHARE: f64 = 0.5;
/// The seconds over which a rate is taken for the best one.
const STRETCH_S: f64 = 0.1;
/// The best rate is forgotten in this many seconds.
const BEST_FORGOTTEN_S: f64 = 10.0;

/// A queue that turned out to be no overload makes queues this many times less suspicious,
const TOLERANCE: f64 = 3.0;
/// up to this bound.
const TOLERANCE_MAX: f64 = 30.0;
/// A queue that turned out to be an overload takes the tolerance back by this factor.
const TOLERANCE_LOST: f64 = 0.7;

#[derive(Debug)]
pub(super) struct Evidence {
    standing: Option<Standing>,
    /// How many seconds recent queues stood that went away by themselves.
    went_away_s: f64,
    tolerance: f64,
    best: Best,
    /// The recent share of answers that came as soon as usual, and how many answers it is taken from.
    quick: f64,
    quick_of: f64,
}

/// A queue that seems to stand.
#[derive(Debug)]
struct Standing {
    since: Instant,
    answers: f64,
    /// The longest time without an arrival, in seconds.
    gap_s: f64,
    halves: Halves,
    surge: Surge,
}

/// The least length of a queue in each half of the time that it stands: the last complete one, and the current one.
#[derive(Debug)]
struct Halves {
    before: f64,
    least: f64,
    /// Seconds after which the current half ends.
    ends_s: f64,
    /// Whether the queue was longer in the last half than in the one before.
    grows: bool,
}

/// Requests and answers while there are many more of the one than of the other.
#[derive(Debug, Default)]
struct Surge {
    windows: u32,
    instants: u32,
    offers: f64,
    answers: f64,
    time: f64,
}

/// The answers a second in the best recent stretch.
#[derive(Debug, Default)]
pub(super) struct Best {
    rate: f64,
    /// The current stretch.
    answers: f64,
    time: f64,
}

impl Evidence {
    pub(super) fn new() -> Self {
        Self {
            standing: None,
            went_away_s: 0.0,
            tolerance: 1.0,
            best: Best::default(),
            quick: 1.0,
            quick_of: 0.0,
        }
    }

    /// An answer is as soon as usual if it takes no longer than this, in seconds.
    pub(super) fn quick_s(base: &Base) -> f64 {
        QUICK * base.tenth() + BRIEF_S
    }

    /// Whether enough was seen to say something.
    pub(super) fn is_enough(seen: &Seen, base: &Base, in_flight: u32) -> bool {
        let latency = base.latency();
        let long = latency.map_or(STANDING * seen.sojourn, |base| WINDOW_BASES * base);
        let (answers, long) = if seen.offers >= HURRIED * seen.answers {
            (ANSWERS_MIN / 2, long / 2.0)
        } else {
            (ANSWERS_MIN, long)
        };
        let is_long = seen.answers >= in_flight || seen.time >= long;
        seen.answers >= answers && seen.time >= WINDOW_MIN_S && is_long
    }

    /// Looks at one more window. With evidence, returns how many answers a second came while the queue stood.
    pub(super) fn look(&mut self, seen: &Seen, base: f64, now: Instant) -> Option<f64> {
        self.best.add(seen);
        let holds = seen.rate * (STANDING * base + BRIEF_S);
        let answers = f64::from(seen.answers);
        self.quick_of = (self.quick_of + answers).min(QUICK_OF);
        self.quick += (seen.quick - self.quick) * (answers / self.quick_of).min(1.0);
        let quick_most =
            (QUICK_CHANCE * holds / seen.least.max(1.0)).clamp(QUICK_SHARE, QUICK_SHARE_MAX);
        let queues = seen.quick.min(self.quick) < quick_most && seen.least > holds.max(LEAST_MIN);
        if !queues {
            self.went_away(seen.time, base, now);
            return None;
        }
        let lasts_s = self.tolerance * (LASTS_BASES * base).max(LASTS_S);
        let Some(standing) = &mut self.standing else {
            self.standing = Some(Standing::new(seen, lasts_s / 4.0, now));
            return None;
        };
        let stood_s = standing.add(seen, now);
        let rate = standing.answers / stood_s;
        let enough_s = lasts_s
            .max(LONGER * self.went_away_s)
            .max(GAPS * standing.gap_s);
        let lasts = standing.halves.grows && stood_s > enough_s;
        let grown_s = self.tolerance * (SURGE_BASES * base).max(SURGE_S);
        let surges =
            standing.surge.has_grown_by(grown_s * rate) && self.best.is_near(standing.surge.rate());
        (lasts || surges).then_some(rate)
    }

    /// The best recent rate of the service.
    pub(super) fn best(&self) -> &Best {
        &self.best
    }

    /// The evidence is put to the proof.
    pub(super) fn use_up(&mut self) {
        self.standing = None;
    }

    /// The queue was no overload.
    pub(super) fn trust_less(&mut self) {
        self.tolerance = (self.tolerance * TOLERANCE).min(TOLERANCE_MAX);
    }

    /// The overload goes on.
    pub(super) fn trust_more(&mut self) {
        self.tolerance = (self.tolerance * TOLERANCE_LOST).max(1.0);
    }

    /// How many times as long it takes to be certain.
    pub(super) fn tolerance(&self) -> f64 {
        self.tolerance
    }

    fn went_away(&mut self, time: f64, base: f64, now: Instant) {
        if let Some(standing) = self.standing.take() {
            let most_s = (REMEMBERED_BASES * base).max(REMEMBERED_S);
            let stood_s = seconds(standing.since, now).min(most_s);
            self.went_away_s = self.went_away_s.max(stood_s);
        }
        self.went_away_s *= (-time / (FORGOTTEN_BASES * base).max(FORGOTTEN_S)).exp();
    }
}

impl Standing {
    fn new(seen: &Seen, half_s: f64, now: Instant) -> Self {
        Self {
            since: now,
            answers: 0.0,
            gap_s: seen.gap,
            halves: Halves {
                before: f64::INFINITY,
                least: seen.least,
                ends_s: half_s,
                grows: false,
            },
            surge: Surge::default(),
        }
    }

    /// Adds a window. Returns for how many seconds the queue has stood.
    fn add(&mut self, seen: &Seen, now: Instant) -> f64 {
        let stood_s = seconds(self.since, now);
        self.answers += f64::from(seen.answers);
        self.gap_s = self.gap_s.max(seen.gap);
        self.halves.add(stood_s, seen.least);
        self.surge.add(seen);
        stood_s
    }
}

impl Halves {
    fn add(&mut self, stood_s: f64, least: f64) {
        self.least = self.least.min(least);
        if stood_s >= self.ends_s {
            self.grows = self.least >= GROWS * self.before;
            (self.before, self.least) = (self.least, f64::INFINITY);
            self.ends_s = (2.0 * self.ends_s).max(stood_s);
        }
    }
}

impl Surge {
    fn add(&mut self, seen: &Seen) {
        self.windows += 1;
        self.instants += seen.instants;
        self.offers += f64::from(seen.offers);
        self.answers += f64::from(seen.answers);
        self.time += seen.time;
        if self.offers < SURGE * self.answers {
            *self = Self::default();
        }
    }

    fn has_grown_by(&self, requests: f64) -> bool {
        self.windows >= SURGE_WINDOWS
            && self.instants >= SURGE_INSTANTS
            && self.offers - self.answers > requests
    }

    /// Answers a second.
    fn rate(&self) -> f64 {
        self.answers / self.time.max(1e-9)
    }
}

impl Best {
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether a rate of answers is not far from the best one.
    pub(super) fn is_near(&self, rate: f64) -> bool {
        rate > BEST_SHARE * self.rate
    }

    fn add(&mut self, seen: &Seen) {
        self.answers += f64::from(seen.answers);
        self.time += seen.time;
        if self.time >= STRETCH_S {
            let before = self.rate * (-self.time / BEST_FORGOTTEN_S).exp();
            *self = Self {
                rate: before.max(self.answers / self.time),
                ..Self::default()
            };
        }
    }
}
