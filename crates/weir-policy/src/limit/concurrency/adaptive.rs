//! The adaptive limit: none without evidence that requests queue inside the service, then as many as keep it busy.
//!
//! A limit that is too low does what it should prevent: it refuses what the service could answer. How many a service
//! can hold cannot be seen while it has room. So nothing is refused then, whatever its latencies are:
//!
//! ```text
//!         a queue grows (`evidence`)            the rate stays
//!   Free ────────────────────────────► Proof ──────────────────► Limited
//!    ▲ │                                 │                        ▲ │
//!    │ └─ a queue, of what comes all at once (`hold`) ────────────┘ │
//!    ├──── the rate falls: no queue ─────┘                          │
//!    └──── the service can take all that is asked for ──────────────┘
//! ```
//!
//! - **Free**: the limit is the maximum. The base latency is learned (`base`). Requests of a sudden surge are held for
//!   a moment, in which the service shows whether it can take so many.
//! - **Proof**: what looks like a queue may be a service that has become slower, and holds more without queueing.
//!   Holding some requests back for a while tells the two apart (`trial`).
//! - **Limited**: by Little's law a service holds rate × base without queueing. The limit is a little more, so that the
//!   service never waits for work. Under lasting overload only trials with less show the base again (`limited`).
//!
//! Several limiters can share a service, such as those of gateways side by side. One that holds back alone gives its
//! places to the others, and sees its rate fall. So trials under a limit begin at common times (`beats`), and a proof
//! that finds no queue is repeated at such a time before it is believed.
//!
//! `docs/decisions/0008-evidence-of-a-queue.md` has the measurements and the alternatives. This file knows nothing
//! about priorities and queues in front of the service.

mod base;
mod beats;
mod evidence;
mod hold;
mod limited;
mod trial;
mod window;

pub(super) use base::Tag;

use base::Base;
use beats::Beats;
use evidence::Evidence;
use hold::{Found, Hold};
use limited::{End as LimitedEnd, Limited};
use std::time::{Duration, Instant};
use trial::{Progress, Trial};
use window::{Seen, Window};

/// The bounds of an adaptive limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The lowest limit, at least 1 (0 counts as 1).
    pub min: u32,
    /// The highest limit.
    pub max: u32,
}

impl Settings {
    /// [`Settings::min`], unless configured otherwise.
    pub const MIN_DEFAULT: u32 = 2;
    /// [`Settings::max`], unless configured otherwise.
    pub const MAX_DEFAULT: u32 = 10_000;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min: Self::MIN_DEFAULT,
            max: Self::MAX_DEFAULT,
        }
    }
}

/// A wait inside the service of this many seconds harms nobody.
const BRIEF_S: f64 = 0.008;

/// A proof lets in this many times what the service seems to hold. Even if the base is a third of the true one, that
/// does not starve the service.
const PROOF: f64 = 3.0;
/// But it lets in at least this share of what is in flight,
const PROOF_SHARE_MIN: f64 = 1.0 / 16.0;
/// and at most this share, so that the proof of a nonsense base does little harm.
const PROOF_SHARE_MAX: f64 = 0.5;

/// A limit that is reached for less than this share of the time holds nobody back.
const REACHED: f64 = 0.3;

#[derive(Debug)]
pub(super) struct Adaptive {
    settings: Settings,
    beats: Beats,
    base: Base,
    evidence: Evidence,
    hold: Hold,
    window: Window,
    /// How many requests wait in front of the limit.
    waiting: u32,
    state: State,
    /// Answers a second in the last window.
    rate: f64,
    /// How many there were when the limit began without a proof, until that has turned out to be an overload.
    surge: Option<f64>,
    /// The last proof found no queue. The next one is at a beat, and is believed.
    is_in_doubt: bool,
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// It was answered, after a time that says how long requests take.
    Answered(Duration),
    /// It failed or was not answered, so an answer takes at least this time. A quick failure says nothing.
    Failed(Duration),
    /// How long it took is unknown.
    Unknown,
}

#[derive(Debug)]
enum State {
    /// Evidence may wait for a beat: when that is, and the answers a second.
    Free {
        proof: Option<(Instant, f64)>,
    },
    Proof(Trial),
    Limited(Limited),
}

impl Adaptive {
    /// Nobody may wait for longer than `waits`; `epoch` is before `now`.
    pub(super) fn new(settings: Settings, waits: Duration, now: Instant, epoch: Instant) -> Self {
        let min = settings.min.max(1);
        Self {
            settings: Settings {
                min,
                max: settings.max.max(min),
            },
            beats: Beats::new(epoch),
            base: Base::new(),
            evidence: Evidence::new(),
            hold: Hold::new(waits),
            window: Window::new(now, 0),
            waiting: 0,
            state: State::Free { proof: None },
            rate: 0.0,
            surge: None,
            is_in_doubt: false,
        }
    }

    pub(super) fn limit(&self) -> u32 {
        let held = self.hold.limit().unwrap_or(u32::MAX);
        held.min(self.limit_without_hold())
    }

    /// The limit, ignoring a hold.
    pub(super) fn limit_without_hold(&self) -> u32 {
        match &self.state {
            State::Free { .. } => self.settings.max,
            State::Proof(trial) => trial.limit(),
            State::Limited(limited) => limited.limit(),
        }
    }

    pub(super) fn base_latency(&self) -> Option<Duration> {
        self.base.latency().map(Duration::from_secs_f64)
    }

    /// How many answers come in `time`, as far as that is known.
    pub(super) fn answers_within(&self, time: Duration) -> u32 {
        let rate = match &self.state {
            State::Free { .. } => 0.0,
            State::Proof(trial) => trial.rate_before(),
            State::Limited(limited) => limited.rate(),
        };
        (rate * time.as_secs_f64()) as u32
    }

    /// Makes the changes that time alone causes; must be called before the limit is read. `waiting` is how many wait.
    pub(super) fn turn(&mut self, now: Instant, waiting: usize) {
        self.waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        self.advance(now);
    }

    fn advance(&mut self, now: Instant) {
        self.window.pass(now, self.limit());
        let is_quiet = self.is_quiet(now);
        match &mut self.state {
            State::Free { proof } => {
                if let Some((at, rate)) = *proof
                    && now >= at
                {
                    self.prove(rate, now);
                } else {
                    self.look_at_hold(now);
                }
            }
            State::Proof(trial) => match trial.turn(now, &mut self.window) {
                Progress::Goes => {}
                Progress::DrainsSlowly { sojourn } => self.refuted(sojourn, now),
                Progress::Measured(seen) => self.conclude(&seen, now),
            },
            State::Limited(_) if is_quiet => self.set_free(now),
            State::Limited(limited) => limited.turn(now, &mut self.window, &mut self.base),
        }
    }

    /// The service has become so many times as large. What a limit knows of it is from before; the rest is measured anew.
    /// Evidence of a queue and its proof need nothing: both look at what comes back.
    pub(super) fn scale(&mut self, now: Instant, factor: f64) {
        self.advance(now);
        let base = self.base.latency().unwrap_or_default();
        if let State::Limited(limited) = &mut self.state {
            self.window.begin(now);
            limited.scale(now, factor, base);
        }
    }

    /// When the held requests go on, if there are any. [`Adaptive::turn`] must be called then.
    pub(super) fn hold_ends(&self, now: Instant) -> Option<Instant> {
        self.hold.ends(now, self.base.latency().is_some())
    }

    /// A request arrives.
    pub(super) fn on_offer(&mut self, now: Instant) {
        self.advance(now);
        self.window.offered();
    }

    /// Whether nobody is refused, although new requests may be held for a moment.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, State::Free { .. }) && self.window.in_flight() < self.settings.max
    }

    /// There is no room for those who are held, so they go on.
    pub(super) fn let_go(&mut self) {
        if self.hold.limit().is_some() {
            self.hold.give_up();
        }
    }

    /// A request is admitted; `in_flight` are now in flight.
    pub(super) fn on_admission(&mut self, now: Instant, in_flight: u32) -> Tag {
        self.on_in_flight(now, in_flight);
        if matches!(self.state, State::Free { proof: None }) {
            self.hold_after(now, in_flight);
        }
        self.base.admitted(now, in_flight)
    }

    /// Begins a hold after the admission of this request, if there is reason to.
    fn hold_after(&mut self, now: Instant, in_flight: u32) {
        if !self.hold.consider(in_flight, &self.base) {
            return;
        }
        let seen = self.window.see();
        let is_known = seen.answers >= hold::ANSWERS_MIN / 2;
        let rate = self.rate.max(if is_known { seen.rate } else { 0.0 });
        let holds = rate * (evidence::STANDING * self.base.latency().unwrap_or_default() + BRIEF_S);
        if self.hold.begin(now, in_flight, holds) {
            self.window.begin(now);
        }
    }

    /// A request is refused.
    pub(super) fn on_refusal(&mut self) {
        self.window.refused();
    }

    /// A request goes on as a stream: it is no work for the service, so it says nothing about how long that takes. For
    /// the service it is over, as if it was answered.
    pub(super) fn on_set_apart(&mut self, tag: Tag) {
        self.base.lost(tag);
        self.note_answer(None);
    }

    fn note_answer(&mut self, is_quick: Option<bool>) {
        let limit = self.limit();
        self.window.answered(is_quick, limit);
        match &mut self.state {
            State::Free { .. } => {}
            State::Proof(trial) => trial.on_answer(),
            State::Limited(limited) => limited.on_answer(),
        }
    }

    /// `in_flight` requests are in flight now.
    pub(super) fn on_in_flight(&mut self, now: Instant, in_flight: u32) {
        self.window.pass(now, self.limit());
        self.window.set_in_flight(in_flight);
    }

    /// A request has ended, and `in_flight` are left.
    pub(super) fn on_end(&mut self, now: Instant, tag: Tag, end: End, in_flight: u32) {
        let is_quick = match end {
            End::Answered(latency) => {
                let latency = latency.as_secs_f64();
                self.base.answered(tag, latency);
                self.hold.on_answer(now, latency, &self.base);
                Some(latency <= Evidence::quick_s(&self.base))
            }
            End::Failed(after) => {
                self.base.lost(tag);
                let is_late = after.as_secs_f64() > Evidence::quick_s(&self.base);
                is_late.then_some(false)
            }
            End::Unknown => {
                self.base.lost(tag);
                None
            }
        };
        self.note_answer(is_quick);
        self.on_in_flight(now, in_flight);
        let is_free = matches!(self.state, State::Free { .. });
        self.base.turn(now, !is_free);
        self.advance(now);
        match &mut self.state {
            State::Free { .. } => self.look(now),
            State::Proof(_) => {}
            State::Limited(limited) => {
                let tolerance = self.evidence.tolerance();
                let end = limited.follow(now, &mut self.window, &self.base, tolerance);
                match end {
                    None => return,
                    Some(LimitedEnd::Overload { goes_on: true }) => {
                        self.surge = None;
                        return self.evidence.trust_more();
                    }
                    Some(LimitedEnd::Overload { goes_on: false }) => self.evidence.trust_less(),
                    Some(LimitedEnd::Calm) => {}
                }
                self.set_free(now);
            }
        }
    }

    /// Acts on what a hold has found, if it has found something.
    fn look_at_hold(&mut self, now: Instant) {
        if self.hold.limit().is_none() {
            return;
        }
        let seen = self.window.see();
        let found = self
            .hold
            .look(&seen, &self.base, self.waiting, &self.evidence, now);
        match found {
            Found::Nothing => {}
            Found::Room => {
                self.rate = seen.rate;
                self.window.begin(now);
            }
            Found::Queue(rate) => {
                self.evidence.use_up();
                let base = self.base.latency().unwrap_or_default();
                let limited = Limited::new(self.settings, self.beats, rate, base, now);
                self.window.begin(now);
                self.surge = Some(f64::from(self.window.in_flight() + self.waiting));
                self.state = State::Limited(limited.hasty());
            }
        }
    }

    /// Looks for a queue, if enough was seen.
    fn look(&mut self, now: Instant) {
        if self.hold.limit().is_some() {
            return;
        }
        let seen = self.window.see();
        if Evidence::is_enough(&seen, &self.base, self.window.in_flight()) {
            self.weigh(&seen, now);
        }
    }

    /// Looks for a queue in what was seen.
    fn weigh(&mut self, seen: &Seen, now: Instant) {
        self.window.begin(now);
        let base = self.base.latency();
        let found = base.and_then(|base| self.evidence.look(seen, base, now));
        self.rate = seen.rate;
        let holds = seen.rate * (evidence::STANDING * base.unwrap_or_default() + BRIEF_S);
        let in_flight = f64::from(self.window.in_flight());
        self.hold.was(seen.time, seen.most, in_flight, holds);
        let (State::Free { proof }, Some(rate)) = (&mut self.state, found) else {
            self.state = State::Free { proof: None };
            return;
        };
        if !self.is_in_doubt {
            self.prove(rate, now);
        } else if let Some((_, before)) = proof {
            *before = rate;
        } else {
            *proof = Some((self.beats.next(now, 0.0), rate));
        }
    }

    /// Begins a proof: there is evidence of a queue, at a time with `rate` answers a second.
    fn prove(&mut self, rate: f64, now: Instant) {
        let in_flight = f64::from(self.window.in_flight());
        let base = self.base.latency().unwrap_or_default();
        let holds = rate * (PROOF * base + BRIEF_S);
        let least = PROOF_SHARE_MIN * in_flight;
        let tried = holds.max(least).min(PROOF_SHARE_MAX * in_flight);
        self.evidence.use_up();
        self.hold.let_go();
        self.state = State::Proof(Trial::new(tried, rate, self.window.in_flight(), now));
    }

    /// Draws the conclusion from a proof.
    fn conclude(&mut self, seen: &Seen, now: Instant) {
        let State::Proof(trial) = &self.state else {
            return;
        };
        if trial.has_stayed(seen) {
            self.is_in_doubt = false;
            let base = self.base.latency().unwrap_or(seen.sojourn);
            let limited = Limited::new(self.settings, self.beats, seen.rate_full, base, now);
            self.state = State::Limited(limited);
        } else if seen.full < REACHED {
            self.evidence.trust_less();
            self.set_free(now);
        } else {
            self.refuted(seen.sojourn, now);
        }
    }

    /// Requests take `sojourn` seconds at work, without a queue. Or other limiters have taken the places that were
    /// left.
    fn refuted(&mut self, sojourn: f64, now: Instant) {
        if self.is_in_doubt {
            self.base.raise(sojourn);
        }
        self.is_in_doubt = !self.is_in_doubt;
        self.set_free(now);
    }

    /// Whether nobody has asked for so long that the overload is over.
    fn is_quiet(&self, now: Instant) -> bool {
        let base = self.base.latency().unwrap_or_default();
        self.window.quiet_s(now) > limited::calm_s(base)
    }

    fn set_free(&mut self, now: Instant) {
        if let Some(surge) = self.surge.take() {
            self.hold.went_away(surge);
        }
        self.base.begin_again();
        self.hold.let_go();
        self.window.begin(now);
        self.state = State::Free { proof: None };
    }
}
