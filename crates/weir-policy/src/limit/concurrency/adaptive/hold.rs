//! A hold: new requests wait for a moment in front of the service, while it shows whether it can take so many.
//!
//! A service that is suddenly overrun fills up until there is evidence, and everything that fills it is answered late.
//! Many more requests in flight than lately are a reason to look, but not to refuse. Nobody is refused during a hold,
//! and it ends before anybody has waited for long. If the service is fully busy, waiting in front of it costs nothing.
//! If it is not, the held requests lose this time, once.
//!
//! What a hold finds is believed without a proof. Gateways that are overrun together would spoil each other's proofs:
//! the first one to cut gives its places to the others, and finds no queue. The limit lets in enough, and its trials
//! begin together (`limited`).

use super::BRIEF_S;
use super::base::Base;
use super::evidence::{self, Evidence};
use super::window::{Seen, seconds};
use std::time::{Duration, Instant};

/// Up to this many in flight are no reason to look,
const LEAST: f64 = 16.0;
/// nor up to this many times the largest recent number that went away by itself,
const UNUSUAL: f64 = 2.0;
/// nor up to this many times what the service holds without queueing,
const ROOM: f64 = 1.2;
/// nor a burst: what comes within this many seconds.
const BURST_S: f64 = 0.005;

/// A hold ends after this many seconds,
const ENDS_S: f64 = 0.08;
/// or after this share of the longest time that anybody may wait, before the queue takes it for an overload.
const WAITS_SHARE: f64 = 0.8;
/// There is no hold if that is less than this.
const WAITS_MIN_S: f64 = 0.02;
/// There is no hold if the service is known to take longer than this, since nothing could be seen in time. While its
/// latency is unknown, a hold without answers ends after this many seconds.
const TELLS_S: f64 = 0.04;

/// Something can be seen after this many answers,
pub(super) const ANSWERS_MIN: u32 = 16;
/// or this many when the hold ends,
const ANSWERS_LAST: u32 = 4;
/// and after this many base latencies.
const BASES: f64 = 2.0;

/// A service is busy if its limit is reached for this share of the time ...
const FULL: f64 = 0.8;
/// ... with this many times what it holds by Little's law. A service that is not busy gets [`ROOM`].
const BUSY: f64 = 2.0;

/// There is a queue if the service is busy and all of the following holds. This many times as many requests come as
/// answers,
const SURGE: f64 = 1.4;
/// at this many instants.
const INSTANTS: u32 = 8;
/// This many of the last requests were late: few are, where others use the same service.
const LATE_LAST: u32 = 8;
/// This many of the last requests count for that.
const LAST: u32 = 16;
/// A request is late after this many times the usual median, answered or not.
const LATE: f64 = 2.0;
/// So that the usual is known, this many requests were not late in the last second or the one before,
const QUICK_LATELY: u32 = 8;
/// where a second is this long,
const LATELY_S: f64 = 1.0;
/// or there were fewer than this many answers in all.
const ANSWERS_FIRST: u32 = 32;
/// More requests wait than are answered in this many seconds,
const GROWN_S: f64 = 0.035;
/// and in this many base latencies.
const GROWN_BASES: f64 = 1.5;
/// The last request came no longer ago than this many mean gaps.
const GAPS: f64 = 8.0;
/// This many times as many requests come as were answered lately. If no more come than before, the service has become
/// slower, and that may pass.
const MORE_THAN_LATELY: f64 = 1.3;
/// And they are this many standard deviations more, so that it is not chance.
const CHANCE: f64 = 2.0;

/// If the first answers took longer than the later ones, none will be late, and a queue shows itself in another way.
/// The service gets room for this many times as many,
const MORE: f64 = 2.0;
/// and if it has got room for at least this many times as many,
const MORE_MIN: f64 = 1.5;
/// but its rate stays below this many times the rate before,
const NO_GAIN: f64 = 1.1;
/// after this many base latencies,
const NO_GAIN_BASES: f64 = 1.75;
/// or this many when the hold ends, then there is a queue.
const NO_GAIN_BASES_LAST: f64 = 1.25;

/// The largest recent number in flight is forgotten in this many seconds.
const FORGOTTEN_S: f64 = 1800.0;
/// This many holds in a row may end with room for all, before the number in flight falls to what the service holds
/// without queueing. A queue that grows slowly is left to [`evidence`], which sees nothing during a hold.
const ROOMS: u32 = 3;
/// After a hold in vain there is none for this many seconds, unless the service catches up before.
const VAIN_S: f64 = 60.0;

/// Whether newcomers are held, and from how many on.
#[derive(Debug)]
pub(super) struct Hold {
    /// Seconds that a hold lasts.
    most_s: f64,
    /// The largest recent number in flight that went away by itself.
    usual: f64,
    /// The largest number since there were as few as the service holds without queueing.
    peak: f64,
    /// When the number became unusual.
    unusual_since: Option<Instant>,
    /// When new requests began to wait, and how many are in flight meanwhile.
    held: Option<(Instant, u32)>,
    /// The latency, in seconds, from which an answer is late; and which answers were late, the last one in the lowest
    /// bit.
    late_s: f64,
    late: u32,
    /// How many requests in flight at the beginning of the hold are late and not answered.
    unanswered: u32,
    /// How many answers were not late, in this second and the one before; and when this second began.
    quick: [u32; 2],
    quick_since: Option<Instant>,
    /// All answers.
    answers: u32,
    /// Seconds for which there is no other hold. There was one in vain, and still more are in flight than the service
    /// holds without queueing, so another would tell no more.
    in_vain_s: f64,
    /// How many holds have ended with room for all since then.
    rooms: u32,
    /// The answers a second before the current hold found room, if that let in many more.
    before_room: Option<f64>,
}

/// What a hold has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Found {
    Nothing,
    /// The service can take more, and gets more.
    Room,
    /// There is a queue, at this many answers a second.
    Queue(f64),
}

impl Hold {
    /// A hold where nobody may wait for longer than `most`.
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

    /// How many may be in flight, if a hold goes on.
    pub(super) fn limit(&self) -> Option<u32> {
        self.held.map(|(_, in_flight)| in_flight)
    }

    /// When it may end, if nothing happens before.
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

    /// In the last `time` seconds at most `most` were in flight, and `now` are left. If the service holds that many
    /// without queueing, the queue went away by itself, and will do so again for the same number.
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

    /// This many came at once, and went away by themselves.
    pub(super) fn went_away(&mut self, in_flight: f64) {
        self.usual = self.usual.max(in_flight);
    }

    /// The hold has found nothing.
    pub(super) fn give_up(&mut self) {
        self.let_go();
        self.in_vain_s = VAIN_S;
    }

    /// An answer took `latency` seconds.
    pub(super) fn on_answer(&mut self, now: Instant, latency: f64, base: &Base) {
        self.answers = self.answers.saturating_add(1);
        self.turn(now);
        // While nothing is known, nothing is late.
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

    /// At first, answers take longer than later ones, except for the quickest.
    fn is_cold(&self) -> bool {
        self.answers < ANSWERS_FIRST
    }

    /// The known latency without queueing.
    fn known(&self, base: &Base) -> Option<f64> {
        let latency = base.latency()?;
        Some(if self.is_cold() {
            base.tenth()
        } else {
            latency
        })
    }

    /// Begins a new second, if the last one is over.
    fn turn(&mut self, now: Instant) {
        let since = *self.quick_since.get_or_insert(now);
        let passed = seconds(since, now) / LATELY_S;
        if passed >= 1.0 {
            self.quick = [0, if passed < 2.0 { self.quick[0] } else { 0 }];
            self.quick_since = Some(now);
        }
    }

    /// Whether the usual latency of this time is known.
    fn knows_usual(&self) -> bool {
        self.quick[0] + self.quick[1] >= QUICK_LATELY || self.is_cold()
    }

    /// Takes note of the number in flight. Returns whether a hold may [begin](Self::begin).
    pub(super) fn consider(&mut self, in_flight: u32, base: &Base) -> bool {
        let few = f64::from(in_flight) < LEAST;
        if few {
            self.unusual_since = None;
        }
        let is_of_use =
            self.most_s >= WAITS_MIN_S && self.in_vain_s == 0.0 && !takes_long(self.known(base));
        !few && is_of_use && self.held.is_none()
    }

    /// Ends the hold, whatever it has found.
    pub(super) fn let_go(&mut self) {
        self.held = None;
        self.unusual_since = None;
    }

    /// Begins a hold if there are unusually many in flight; [`Hold::consider`] must allow it. The service holds
    /// `holds` of them without queueing. Returns whether it began.
    pub(super) fn begin(&mut self, now: Instant, in_flight: u32, holds: f64) -> bool {
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

    /// Looks at what was `seen` since it began, or since it found room. `waiting` is how many wait.
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
        // While nothing is known, nothing is late.
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
                    // The effect of more requests shows whether they wait for each other.
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

    /// Lets in as many as the service can take without queueing, as far as that is known.
    fn give_room(&mut self, seen: &Seen, base: f64, waiting: u32, now: Instant) {
        let holds = seen.rate * (evidence::STANDING * base + BRIEF_S);
        self.let_in(ROOM * holds, seen, waiting, now);
    }

    /// Lets in more requests, and all if there is room for all. If not, the hold counts from when the first of the
    /// others came.
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

    /// Whether something can be told by now. At the end of the hold, less is enough.
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

    /// How many of the last requests were late: those not answered yet, then answers.
    fn late(&self) -> u32 {
        let unanswered = self.unanswered.min(LAST);
        unanswered + (self.late & ((1 << (LAST - unanswered)) - 1)).count_ones()
    }
}

/// Whether so many requests come that they wait for each other, if the service is fully busy.
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

/// Whether the service is known to take so long that nothing can be seen in time.
fn takes_long(base: Option<f64>) -> bool {
    base.is_some_and(|base| base > TELLS_S)
}
