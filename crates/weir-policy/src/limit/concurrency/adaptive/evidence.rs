//! What counts as evidence that requests queue inside a service: a queue that grows.
//!
//! A service holds, by Little's law, as many requests as it answers in its base latency. While more than three times as many
//! are in flight *all of the time*, and hardly an answer comes as soon as usual, something waits. Most queues go away by
//! themselves: a burst fills a service for a moment, a pause does, and so does chance. So the least number in flight counts (as
//! `CoDel` has it for the time that packets wait; Nichols and Jacobson, ACM Queue 2012), and a queue is evidence only if
//!
//! - it *lasts*: it stands for a second or more, longer than those that went away by themselves lately, and long beside the
//!   pauses between arrivals; and its least length is greater in the later half of that time than in the one before. Clients that
//!   wait for their answers before they ask again make a queue that stands and does not grow: to refuse some makes none of the
//!   others better off;
//! - or it is a *surge*: so many more are asked for than answered that waiting for that would take seconds to mend.

use super::BRIEF_S;
use super::base::Base;
use super::window::{Seen, seconds};
use std::time::Instant;

/// So many times what the service holds without queueing: that much more it may take for a while, and no queue.
pub(super) const STANDING: f64 = 3.0;
/// With no more in flight, nothing queues that is worth a limit.
const LEAST_MIN: f64 = 2.0;

/// With more than this share of answers as soon as usual, those that are late do not wait for all the others. A service that takes
/// whom it pleases has more of them: as many as it holds of those in flight, and chance; so many at most. Of the last so many answers.
const QUICK_SHARE: f64 = 0.1;
const QUICK_CHANCE: f64 = 2.0;
const QUICK_SHARE_MAX: f64 = 0.5;
const QUICK_OF: f64 = 64.0;
/// As soon as usual: in so many times what a tenth of the answers take, and [`BRIEF_S`].
const QUICK: f64 = 3.0;

/// A window counts with so many answers, after so many seconds, and base latencies.
const ANSWERS_MIN: u32 = 16;
const WINDOW_MIN_S: f64 = 0.01;
const WINDOW_BASES: f64 = 2.0;
/// Where so many times as many are asked for, half of it does.
const HURRIED: u32 = 4;

/// A queue lasts after so many seconds, and base latencies,
const LASTS_S: f64 = 1.0;
const LASTS_BASES: f64 = 5.0;
/// so many times as long as those that went away by themselves,
const LONGER: f64 = 3.0;
/// and as nobody asked meanwhile,
const GAPS: f64 = 8.0;
/// if it is so many times as long as it was in the half of the time before.
const GROWS: f64 = 1.15;

/// Queues that went away by themselves are forgotten in so many seconds, and base latencies.
const FORGOTTEN_S: f64 = 30.0;
const FORGOTTEN_BASES: f64 = 100.0;
/// So long a queue is remembered at most.
const REMEMBERED_S: f64 = 10.0;
const REMEMBERED_BASES: f64 = 50.0;

/// A surge: so many times as much is asked for as answered, at so many instants and in so many windows,
const SURGE: f64 = 2.5;
const SURGE_INSTANTS: u32 = 8;
const SURGE_WINDOWS: u32 = 2;
/// and the queue has grown by what is answered in so many seconds, and base latencies.
const SURGE_S: f64 = 0.1;
const SURGE_BASES: f64 = 5.0;
/// A service that gives less than this share of what it gave in its best tenth of a second lately is ill rather than overrun, and
/// that may pass.
const BEST_SHARE: f64 = 0.5;
const STRETCH_S: f64 = 0.1;
const BEST_FORGOTTEN_S: f64 = 10.0;

/// What has turned out to be no overload makes queues that many times less suspicious, up to a bound. What has turned out to be
/// one takes some of that back.
const TOLERANCE: f64 = 3.0;
const TOLERANCE_MAX: f64 = 30.0;
const TOLERANCE_LOST: f64 = 0.7;

#[derive(Debug)]
pub(super) struct Evidence {
    standing: Option<Standing>,
    /// Seconds that queues stood lately which went away by themselves.
    went_away_s: f64,
    tolerance: f64,
    best: Best,
    /// The share of answers that came as soon as usual, lately, and of how many that is known.
    quick: f64,
    quick_of: f64,
}

/// A queue, as it looks.
#[derive(Debug)]
struct Standing {
    since: Instant,
    answers: f64,
    /// The most seconds in which nobody asked.
    gap_s: f64,
    halves: Halves,
    surge: Surge,
}

/// The least length of a queue by halves of the time that it stands: in the last that is over, and in the one that goes on.
#[derive(Debug)]
struct Halves {
    before: f64,
    least: f64,
    /// Seconds after which the one that goes on is over.
    ends_s: f64,
    /// Whether the last was longer than the one before.
    grows: bool,
}

/// What is asked for and answered while the one is much more than the other.
#[derive(Debug, Default)]
struct Surge {
    windows: u32,
    instants: u32,
    offers: f64,
    answers: f64,
    time: f64,
}

/// Answers a second in the best stretch lately.
#[derive(Debug, Default)]
pub(super) struct Best {
    rate: f64,
    /// Of the stretch that goes on.
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

    /// What is no longer than this, in seconds, is as soon as usual.
    pub(super) fn quick_s(base: &Base) -> f64 {
        QUICK * base.tenth() + BRIEF_S
    }

    /// Whether so much was seen that it says something.
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

    /// Looks at one window more. With evidence, says how many answers a second came while the queue stood.
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

    /// How well the service has done lately.
    pub(super) fn best(&self) -> &Best {
        &self.best
    }

    /// It is put to the proof.
    pub(super) fn use_up(&mut self) {
        self.standing = None;
    }

    /// It was no overload.
    pub(super) fn trust_less(&mut self) {
        self.tolerance = (self.tolerance * TOLERANCE).min(TOLERANCE_MAX);
    }

    /// It goes on.
    pub(super) fn trust_more(&mut self) {
        self.tolerance = (self.tolerance * TOLERANCE_LOST).max(1.0);
    }

    /// How many times as long it takes to be sure.
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

    /// Adds a window, and says for how many seconds it stands.
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

    /// Whether so many answers a second are not far from it.
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
