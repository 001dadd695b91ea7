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

/// Something is seen after so many answers, and base latencies.
pub(super) const ANSWERS_MIN: u32 = 16;
const BASES: f64 = 2.0;

/// A service is busy that is full for this share of the time, with so many times what it holds by Little's law. One that is not gets
/// [`ROOM`].
const FULL: f64 = 0.8;
const BUSY: f64 = 2.0;

/// There is a queue if the service is busy, and so many times as much is asked for as answered, at so many instants; so many of
/// the last answers, of which so many count, took so many times as long as half of them do usually;
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
    /// Which answers took long, the last one in the lowest bit.
    late: u32,
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
            late: 0,
            quick: [0; 2],
            quick_since: None,
            answers: 0,
            in_vain_s: 0.0,
            rooms: 0,
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
    pub(super) fn was_in_vain(&mut self) {
        self.let_go();
        self.in_vain_s = VAIN_S;
    }

    /// An answer took so long; half of them take so long usually.
    pub(super) fn on_answer(&mut self, now: Instant, latency: f64, median: f64) {
        self.answers = self.answers.saturating_add(1);
        self.turn(now);
        // As long as nothing is known, nothing is late.
        let is_late = median > 0.0 && latency > LATE * median;
        self.late = self.late << 1 | u32::from(is_late);
        if !is_late {
            self.quick[0] = self.quick[0].saturating_add(1);
        }
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
        self.quick[0] + self.quick[1] >= QUICK_LATELY || self.answers < ANSWERS_FIRST
    }

    /// Whether so many in flight may be a reason to look.
    pub(super) fn may_begin(&mut self, in_flight: u32, base: Option<f64>) -> bool {
        let few = f64::from(in_flight) < LEAST;
        if few {
            self.unusual_since = None;
        }
        let is_of_use = self.most_s >= WAITS_MIN_S && self.in_vain_s == 0.0 && !takes_long(base);
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
        }
        begins
    }

    /// Looks at what was `seen` since it began, or since it found room; so many wait.
    pub(super) fn look(
        &mut self,
        seen: &Seen,
        base: Option<f64>,
        waiting: u32,
        evidence: &Evidence,
        now: Instant,
    ) -> Found {
        let Some((since, in_flight)) = self.held else {
            return Found::Nothing;
        };
        if let Some(base) = base
            && seen.answers >= ANSWERS_MIN
            && seen.time >= BASES * base
        {
            let is_busy = seen.full > FULL && f64::from(in_flight) > BUSY * seen.rate * base;
            if !is_busy {
                self.give_room(seen, base, waiting);
                return Found::Room;
            }
            if self.knows_usual() && self.is_queue(seen, base, waiting, evidence) {
                self.let_go();
                return Found::Queue(seen.rate);
            }
        }
        let says_nothing = base.map_or(seen.answers == 0, |base| takes_long(Some(base)));
        let ends_s = if says_nothing { TELLS_S } else { self.most_s };
        if seconds(since, now) >= ends_s {
            self.was_in_vain();
        }
        Found::Nothing
    }

    /// Lets in more, and everybody if that is enough for all.
    fn give_room(&mut self, seen: &Seen, base: f64, waiting: u32) {
        let holds = seen.rate * (evidence::STANDING * base + BRIEF_S);
        if let Some((_, in_flight)) = &mut self.held {
            let there = *in_flight + waiting;
            *in_flight = (*in_flight).max((ROOM * holds) as u32);
            if *in_flight >= there {
                self.rooms += 1;
                self.let_go();
                if self.rooms >= ROOMS {
                    self.was_in_vain();
                }
            }
        }
    }

    /// Whether those who wait do so because the service has all its hands full, and too many ask.
    fn is_queue(&self, seen: &Seen, base: f64, waiting: u32, evidence: &Evidence) -> bool {
        let (offers, answers) = (f64::from(seen.offers), f64::from(seen.answers));
        let lately = MORE_THAN_LATELY * evidence.best().rate() * seen.time;
        let grown_s = evidence.tolerance() * (GROWN_BASES * base).max(GROWN_S);
        let late = (self.late & ((1 << LAST) - 1)).count_ones();
        late >= LATE_LAST
            && offers > SURGE * answers
            && seen.instants >= INSTANTS
            && f64::from(waiting) > grown_s * seen.rate
            && seen.quiet < GAPS * seen.time / offers.max(1.0)
            && evidence.best().is_near(seen.rate)
            && offers > lately + CHANCE * lately.sqrt()
    }
}

/// Whether a service is known to take so long that nothing is to be seen in time.
fn takes_long(base: Option<f64>) -> bool {
    base.is_some_and(|base| base > TELLS_S)
}
