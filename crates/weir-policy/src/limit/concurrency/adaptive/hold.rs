//! Newcomers wait for a moment in front of the service, and not inside it, while it shows whether it can take so many.
//!
//! A service that is overrun from one moment to the next fills until there is evidence, and what fills it is answered late. Many more
//! in flight than ever lately are a reason to look, and none to refuse: nobody is refused while a hold goes on, and it ends before
//! anybody has waited for long. Who waits in front of a service that has all its hands full loses nothing by it; where it has not,
//! those who are held lose so much time, once.
//!
//! What a hold finds is believed without a proof. Gateways that are overrun together would spoil each other's: the first to cut gives
//! its places to the others, and finds no queue. The limit lets in enough, and its trials begin together (`limited`).

use super::BRIEF_S;
use super::base::Base;
use super::evidence::{self, Evidence};
use super::window::{Seen, seconds};
use std::time::{Duration, Instant};

/// So many in flight are no reason to look, nor are so many times the most that went away by themselves lately, nor so many times
/// what the service holds without queueing;
const LEAST: f64 = 16.0;
const UNUSUAL: f64 = 2.0;
const ROOM: f64 = 1.2;
/// nor is a burst: what comes in so many seconds.
const BURST_S: f64 = 0.005;

/// A hold ends after so many seconds, and this share of the longest that anybody may wait, before the queue takes it for an overload.
/// There is none where that is less than so much.
const ENDS_S: f64 = 0.08;
const WAITS_SHARE: f64 = 0.8;
const WAITS_MIN_S: f64 = 0.02;
/// Nor where the service is known to take so long: nothing could be told. As long as it is not known, a hold ends after so many seconds
/// without an answer.
const TELLS_S: f64 = 0.04;

/// Something is seen after so many answers, or fewer when the hold ends, and base latencies.
pub(super) const ANSWERS_MIN: u32 = 16;
const ANSWERS_LAST: u32 = 4;
const BASES: f64 = 2.0;

/// A service is busy that is full for this share of the time, with so many times what it holds by Little's law. One that is not gets
/// [`ROOM`].
const FULL: f64 = 0.8;
const BUSY: f64 = 2.0;

/// There is a queue if the service is busy, and so many times as much is asked for as answered, at so many instants; so many of
/// the last answers, of which so many count, took so many times as long as half of them do usually, or have taken that and are not
/// there: where others ask the same service there are few;
const SURGE: f64 = 1.4;
const INSTANTS: u32 = 8;
const LATE_LAST: u32 = 8;
const LAST: u32 = 16;
const LATE: f64 = 2.0;
/// so many did not, in the last second or the one before, so that what is usual is known, or there were fewer than so many in all;
const QUICK_LATELY: u32 = 8;
const LATELY_S: f64 = 1.0;
const ANSWERS_FIRST: u32 = 32;
/// so many wait as are answered in so many seconds, and base latencies, and the last who came did so no longer ago than so many times
/// the mean gap;
const GROWN_S: f64 = 0.035;
const GROWN_BASES: f64 = 1.5;
const GAPS: f64 = 8.0;
/// and so many times as many ask as were answered lately, and so many standard deviations more than chance would have it. Where as
/// many ask as ever, the service has become slower, and that may pass.
const MORE_THAN_LATELY: f64 = 1.3;
const CHANCE: f64 = 2.0;

/// Where the first answers took longer than those to come, nothing will be late, and a service that queues shows it otherwise: it gets
/// room for so many times as many, and with as many more at least it gives less than so many times as many answers after so many base
/// latencies, or fewer when the hold ends.
const MORE: f64 = 2.0;
const MORE_MIN: f64 = 1.5;
const NO_GAIN: f64 = 1.1;
const NO_GAIN_BASES: f64 = 1.75;
const NO_GAIN_BASES_LAST: f64 = 1.25;

/// The most in flight lately is forgotten in so many seconds.
const FORGOTTEN_S: f64 = 1800.0;
/// So many holds may end with room for all, one after the other, before there are as few as the service holds without queueing: a queue
/// that grows slowly is for [`evidence`] to find, which sees nothing meanwhile.
const ROOMS: u32 = 3;
/// After a hold in vain there is none for so many seconds, unless the service catches up before.
const VAIN_S: f64 = 60.0;

/// Whether newcomers are held, and from how many on.
#[derive(Debug)]
pub(super) struct Hold {
    /// Seconds that one goes on.
    most_s: f64,
    /// The most in flight lately that went away by itself.
    usual: f64,
    /// The most since there were as few as the service holds without queueing.
    peak: f64,
    /// Since when there are unusually many.
    unusual_since: Option<Instant>,
    /// Since when newcomers wait, and how many are in flight meanwhile.
    held: Option<(Instant, u32)>,
    /// Seconds that take long, and which answers took longer, the last one in the lowest bit.
    late_s: f64,
    late: u32,
    /// How many of those that were in flight when the hold began have taken longer, and are not answered.
    unanswered: u32,
    /// How many did not, in this second, which began then, and in the one before.
    quick: [u32; 2],
    quick_since: Option<Instant>,
    /// All of them.
    answers: u32,
    /// There was one, and there are still more in flight than the service holds without queueing. Another would tell no more, for so
    /// many seconds.
    in_vain_s: f64,
    /// How many ended with room for all since then.
    rooms: u32,
    /// How many answers a second came before the one that goes on found room, if with that there are many more in flight.
    before_room: Option<f64>,
}

/// What a hold has come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Found {
    Nothing,
    /// The service can take more, and gets more.
    Room,
    /// A queue, while so many answers came a second.
    Queue(f64),
}

impl Hold {
    /// Where nobody may wait for longer than `most`.
    pub(super) fn new(most: Duration) -> Self {
        Self {
            most_s: ENDS_S.min(WAITS_SHARE * most.as_secs_f64()),
            usual: 0.0,
            peak: 0.0,
            unusual_since: None,
            held: None,
            late_s: 0.0,
            late: 0,
            unanswered: 0,
            quick: [0; 2],
            quick_since: None,
            answers: 0,
            in_vain_s: 0.0,
            rooms: 0,
            before_room: None,
        }
    }

    /// How many may be in flight, if newcomers are held.
    pub(super) fn limit(&self) -> Option<u32> {
        self.held.map(|(_, in_flight)| in_flight)
    }

    /// When it may have come to its end, from now on, if nothing happens before.
    pub(super) fn ends(&self, now: Instant, is_known: bool) -> Option<Instant> {
        let (since, _) = self.held?;
        let after = |seconds| since + Duration::from_secs_f64(seconds);
        let may_say_nothing = !is_known && now < after(TELLS_S);
        Some(after(if may_say_nothing {
            TELLS_S
        } else {
            self.most_s
        }))
    }

    /// So many seconds had as many in flight at most, and there are so many now. If the service holds as many without queueing,
    /// what queued went away by itself, and so it will if as much comes again.
    pub(super) fn was(&mut self, time: f64, most: f64, now: f64, holds: f64) {
        self.usual *= (-time / FORGOTTEN_S).exp();
        self.peak = self.peak.max(most);
        if now <= holds {
            self.usual = self.usual.max(std::mem::take(&mut self.peak));
            self.in_vain_s = 0.0;
            self.rooms = 0;
        }
        self.in_vain_s = (self.in_vain_s - time).max(0.0);
    }

    /// So many came at once, and went away by themselves.
    pub(super) fn went_away(&mut self, in_flight: f64) {
        self.usual = self.usual.max(in_flight);
    }

    /// It has come to nothing.
    pub(super) fn give_up(&mut self) {
        self.let_go();
        self.in_vain_s = VAIN_S;
    }

    /// An answer took so long.
    pub(super) fn on_answer(&mut self, now: Instant, latency: f64, base: &Base) {
        self.answers = self.answers.saturating_add(1);
        self.turn(now);
        // As long as nothing is known, nothing is late.
        let usual = if self.is_cold() {
            base.tenth()
        } else {
            base.median()
        };
        self.late_s = LATE * usual;
        let is_late = usual > 0.0 && latency > self.late_s;
        self.late = self.late << 1 | u32::from(is_late);
        if !is_late {
            self.quick[0] = self.quick[0].saturating_add(1);
        }
    }

    /// The first answers take longer than those to come, but for the quickest.
    fn is_cold(&self) -> bool {
        self.answers < ANSWERS_FIRST
    }

    /// What is known of how long requests take when nothing queues.
    fn known(&self, base: &Base) -> Option<f64> {
        let latency = base.latency()?;
        Some(if self.is_cold() {
            base.tenth()
        } else {
            latency
        })
    }

    /// Another second may have begun.
    fn turn(&mut self, now: Instant) {
        let since = *self.quick_since.get_or_insert(now);
        let passed = seconds(since, now) / LATELY_S;
        if passed >= 1.0 {
            self.quick = [0, if passed < 2.0 { self.quick[0] } else { 0 }];
            self.quick_since = Some(now);
        }
    }

    /// Whether it is known what is usual now.
    fn knows_usual(&self) -> bool {
        self.quick[0] + self.quick[1] >= QUICK_LATELY || self.is_cold()
    }

    /// Whether so many in flight may be a reason to look.
    pub(super) fn may_begin(&mut self, in_flight: u32, base: &Base) -> bool {
        let few = f64::from(in_flight) < LEAST;
        if few {
            self.unusual_since = None;
        }
        let is_of_use =
            self.most_s >= WAITS_MIN_S && self.in_vain_s == 0.0 && !takes_long(self.known(base));
        !few && is_of_use && self.held.is_none()
    }

    /// Nothing is held, whatever comes of it.
    pub(super) fn let_go(&mut self) {
        self.held = None;
        self.unusual_since = None;
    }

    /// Whether a hold begins, where it [may](Self::may_begin), with so many in flight, of which the service holds so many without
    /// queueing.
    pub(super) fn begins(&mut self, now: Instant, in_flight: u32, holds: f64) -> bool {
        let most = (UNUSUAL * self.usual).max(LEAST).max(ROOM * holds);
        if f64::from(in_flight) < most {
            self.unusual_since = None;
            return false;
        }
        let since = *self.unusual_since.get_or_insert(now);
        let begins = seconds(since, now) >= BURST_S;
        if begins {
            self.held = Some((now, in_flight));
            self.before_room = None;
        }
        begins
    }

    /// Looks at what was `seen` since it began, or since it found room; so many wait.
    pub(super) fn look(
        &mut self,
        seen: &Seen,
        base: &Base,
        waiting: u32,
        evidence: &Evidence,
        now: Instant,
    ) -> Found {
        let base = self.known(base);
        let Some((since, in_flight)) = self.held else {
            return Found::Nothing;
        };
        let says_nothing = base.map_or(seen.answers == 0, |base| takes_long(Some(base)));
        let ends_s = if says_nothing { TELLS_S } else { self.most_s };
        let is_over = seconds(since, now) >= ends_s;
        // As long as nothing is known, nothing is late.
        self.unanswered = if self.late_s > 0.0 && seconds(since, now) >= self.late_s {
            in_flight.saturating_sub(seen.answers)
        } else {
            0
        };
        if let Some(base) = base.filter(|base| self.shows_something(seen, *base, is_over)) {
            let is_busy = seen.full > FULL && f64::from(in_flight) > BUSY * seen.rate * base;
            if !is_busy {
                self.give_room(seen, base, waiting, now);
                return Found::Room;
            }
            if self.knows_usual() && is_overrun(seen, base, waiting, evidence) {
                if self.late() >= LATE_LAST || self.has_not_gained(seen, base, is_over) {
                    self.let_go();
                    return Found::Queue(seen.rate);
                }
                let sojourn = f64::from(in_flight) / seen.rate;
                if self.before_room.is_none() && sojourn < self.late_s {
                    // What more of them comes to shows whether they wait for each other.
                    self.let_in(f64::from(in_flight) * MORE, seen, waiting, now);
                    return Found::Room;
                }
            }
        }
        if is_over {
            self.give_up();
        }
        Found::Nothing
    }

    /// Lets in as many as it can take without queueing, as far as that is known.
    fn give_room(&mut self, seen: &Seen, base: f64, waiting: u32, now: Instant) {
        let holds = seen.rate * (evidence::STANDING * base + BRIEF_S);
        self.let_in(ROOM * holds, seen, waiting, now);
    }

    /// Lets in more, and everybody if that is enough for all. Of the others the first has waited since so many came.
    fn let_in(&mut self, most: f64, seen: &Seen, waiting: u32, now: Instant) {
        if let Some((since, in_flight)) = &mut self.held {
            let there = *in_flight + waiting;
            let is_much = most >= MORE_MIN * f64::from(*in_flight);
            self.before_room = is_much.then_some(seen.rate);
            *in_flight = (*in_flight).max(most as u32);
            let left = there.saturating_sub(*in_flight);
            let waited_s = f64::from(left) * seen.time / f64::from(seen.offers.max(1));
            let came = now.checked_sub(Duration::from_secs_f64(waited_s));
            *since = came.map_or(*since, |came| came.max(*since));
            if *in_flight >= there {
                self.rooms += 1;
                self.let_go();
                if self.rooms >= ROOMS {
                    self.give_up();
                }
            }
        }
    }

    /// Whether something can be told by now: at the end of the hold, by less.
    fn shows_something(&self, seen: &Seen, base: f64, is_over: bool) -> bool {
        let waits_in_vain = self.before_room.is_some() && self.late() >= LATE_LAST;
        let shows_queue = waits_in_vain || self.has_not_gained(seen, base, is_over);
        let answers_min = if is_over { ANSWERS_LAST } else { ANSWERS_MIN };
        seen.answers >= answers_min && (shows_queue || seen.time >= BASES * base)
    }

    /// Whether the service has got room for many more, and gives no more answers.
    fn has_not_gained(&self, seen: &Seen, base: f64, is_over: bool) -> bool {
        let bases = if is_over {
            NO_GAIN_BASES_LAST
        } else {
            NO_GAIN_BASES
        };
        let is_no_more = |before: f64| seen.rate < NO_GAIN * before;
        seen.time >= bases * base && self.before_room.is_some_and(is_no_more)
    }

    /// How many of the last took long: those that are not answered yet, and answers.
    fn late(&self) -> u32 {
        let unanswered = self.unanswered.min(LAST);
        unanswered + (self.late & ((1 << (LAST - unanswered)) - 1)).count_ones()
    }
}

/// Whether so many ask that they wait for each other, if the service has all its hands full.
fn is_overrun(seen: &Seen, base: f64, waiting: u32, evidence: &Evidence) -> bool {
    let (offers, answers) = (f64::from(seen.offers), f64::from(seen.answers));
    let lately = MORE_THAN_LATELY * evidence.best().rate() * seen.time;
    let grown_s = evidence.tolerance() * (GROWN_BASES * base).max(GROWN_S);
    offers > SURGE * answers
        && seen.instants >= INSTANTS
        && f64::from(waiting) > grown_s * seen.rate
        && seen.quiet < (GAPS * seen.time / offers.max(1.0)).max(BURST_S)
        && evidence.best().is_near(seen.rate)
        && offers > lately + CHANCE * lately.sqrt()
}

/// Whether a service is known to take so long that nothing is to be seen in time.
fn takes_long(base: Option<f64>) -> bool {
    base.is_some_and(|base| base > TELLS_S)
}
