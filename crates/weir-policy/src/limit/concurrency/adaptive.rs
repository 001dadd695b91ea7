//! The adaptive limit: how many requests a service holds before they begin to queue in it.
//!
//! By Little's law a service that answers `rate` requests a second, each in `base` when nothing queues, holds
//! `pipe = rate × base` of them. More in flight do not raise the rate, they only wait inside. TCP's BBR (Cardwell et
//! al., ACM Queue 2016) finds the length of a network path like this; here the path is a service:
//!
//! - **The rate** (`round`) is measured only while the limit is reached. What an idle service does not answer says
//!   nothing, so traffic that never fills the limit never moves it.
//! - **The base latency** (`base`) is learned only from requests that were admitted while the service held no more than
//!   three quarters of `pipe`: those cannot have waited inside. It is an average, not a minimum, so that service times
//!   may vary.
//! - **The limit** is `2 × pipe + 1.5 × √pipe`. Twice, so that a service which becomes half as fast, or an estimate that
//!   is half of the truth, throttles nobody; the root, so that a small service keeps a little queue to bridge the gaps
//!   between arrivals. Where more are answered within 3 ms, it is `pipe` and these: a wait that short does no harm, and a
//!   service that answers in microseconds is fast because it gets many requests at a time.
//!
//! Under lasting overload nobody is ever admitted to a service with room, and a base latency that is never refreshed
//! goes wrong in both directions. So while most of the time the limit is reached *and requests are refused anyway*, the
//! limit *dips* to three quarters of `pipe` every ten seconds, until as many requests were admitted as it takes to know
//! the base again. Traffic that is not being refused never sees a dip.
//!
//! Several limiters can share a service: those of two routes, or of two gateways. If one dips alone, it measures the
//! queue of the others. So dips begin at whole multiples of ten seconds after an `epoch` which all of them know.
//!
//! `docs/decisions/0005-adaptive-concurrency.md` compares this with Gradient2 and Vegas. This file knows nothing about
//! queues and priorities.

mod base;
mod round;

use base::Base;
use round::Round;
use std::time::{Duration, Instant};

/// The bounds of an adaptive limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The limit until more is known.
    pub initial: u32,
    /// Never fewer, at least 1 (0 counts as 1).
    pub min: u32,
    /// Never more.
    pub max: u32,
}

impl Settings {
    /// [`Settings::initial`], unless configured otherwise.
    pub const INITIAL_DEFAULT: u32 = 20;
    /// [`Settings::min`], unless configured otherwise.
    pub const MIN_DEFAULT: u32 = 2;
    /// [`Settings::max`], unless configured otherwise.
    pub const MAX_DEFAULT: u32 = 10_000;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            initial: Self::INITIAL_DEFAULT,
            min: Self::MIN_DEFAULT,
            max: Self::MAX_DEFAULT,
        }
    }
}

/// How many times `pipe` may be in flight.
const GAIN: f64 = 2.0;

/// And this many times its root on top.
const HEADROOM: f64 = 1.5;

/// So long may a request wait inside the service, however short the service's own latency is.
const BRIEF: Duration = Duration::from_millis(3);

/// A service that holds no more than this share of `pipe` has no queue, even if `pipe` is a third too large.
const UNQUEUED_SHARE: f64 = 0.75;

/// How much of a round's result goes into `pipe`.
const PIPE_WEIGHT: f64 = 0.5;

/// `pipe` having changed by this share unsettles the base: either the rate has changed, or the base has.
const UNSETTLING_CHANGE: f64 = 0.3;

/// How often the base is measured under overload, unless that would take more than this share of the time.
const DIP_EVERY_S: u64 = 10;
const DIP_SHARE_MAX: f64 = 0.05;

/// The same while the base is unsettled, every second at most.
const DIP_UNSETTLED_SHARE_MAX: f64 = 0.25;

#[derive(Debug)]
pub(super) struct Adaptive {
    settings: Settings,
    /// What the service holds without queueing. `None` until the limit has been reached for a round.
    pipe: Option<f64>,
    /// The limit outside of dips.
    limit: u32,
    base: Base,
    /// `pipe` when the base was last known to be right; zero before.
    pipe_settled: f64,
    round: Round,
    dip: Option<Dip>,
    /// Whether all limiters of the service dip at the same time as this one did last.
    is_on_beat: bool,
    epoch: Instant,
    /// When it is considered next whether to dip: whole seconds after the epoch.
    next_second: Instant,
}

/// The limit while the base latency is measured again.
#[derive(Debug)]
struct Dip {
    limit: u32,
    admissions_left: u32,
    until: Instant,
}

impl Adaptive {
    /// `epoch` lies before `now`.
    pub(super) fn new(settings: Settings, now: Instant, epoch: Instant) -> Self {
        let min = settings.min.max(1);
        let max = settings.max.max(min);
        Self {
            settings: Settings {
                min,
                max,
                ..settings
            },
            pipe: None,
            limit: settings.initial.clamp(min, max),
            base: Base::new(),
            pipe_settled: 0.0,
            round: Round::first(now),
            dip: None,
            is_on_beat: true,
            epoch,
            next_second: seconds_since(epoch, now).1,
        }
    }

    pub(super) fn limit(&self) -> u32 {
        let dip = self.dip.as_ref().map_or(u32::MAX, |dip| dip.limit);
        self.limit.min(dip)
    }

    pub(super) fn base_latency(&self) -> Option<Duration> {
        self.base.latency()
    }

    /// How many answers come in `time`, as far as that is known.
    pub(super) fn answers_within(&self, time: Duration) -> u32 {
        let Some(base) = self.base.latency() else {
            return 0;
        };
        let held = self.pipe.unwrap_or(f64::from(self.limit));
        (held * time.as_secs_f64() / base.as_secs_f64().max(1e-9)) as u32
    }

    pub(super) fn on_admission(&mut self) {
        if let Some(dip) = &mut self.dip {
            dip.admissions_left = dip.admissions_left.saturating_sub(1);
        }
    }

    pub(super) fn on_refusal(&mut self) {
        self.round.on_refusal();
    }

    /// Does what time alone does: before the limit is asked.
    pub(super) fn turn(&mut self, now: Instant) {
        let is_over = |dip: &Dip| dip.admissions_left == 0 || now >= dip.until;
        if self.dip.as_ref().is_some_and(is_over) {
            self.dip = None;
            self.round = Round::new(now);
        }
    }

    /// Says how many are in flight, after every change that stays.
    pub(super) fn on_in_flight(&mut self, now: Instant, in_flight: u32) {
        // A dip is no measure of what the service can do.
        let is_full = in_flight >= self.limit && self.dip.is_none();
        self.round.on_fullness(now, is_full, self.base.latency());
    }

    /// A request was answered that was admitted as the `in_flight`-th, `latency` ago.
    pub(super) fn on_answer(&mut self, now: Instant, latency: Duration, in_flight: u32) {
        if in_flight <= self.unqueued_max()
            && let Some(change) = self.base.learn(latency, self.rise_max())
        {
            self.on_batch(change);
        }
        // Overload can come before the first request that found the service with room was answered.
        let base = self.base.latency().unwrap_or(latency);
        self.round.on_answer(now, base);
        if let Some(rate) = self.round.finish(now, base, self.base.batch_size()) {
            // No service held more than was in flight. Answers that come in lumps can look as if.
            let held = (rate * base.as_secs_f64()).min(f64::from(self.limit));
            let pipe = self.pipe.unwrap_or(held);
            self.set_pipe(pipe + PIPE_WEIGHT * (held - pipe));
        }
        self.consider_dip(now, base);
    }

    fn set_pipe(&mut self, pipe: f64) {
        self.pipe = Some(pipe);
        let short_queue = GAIN * pipe + HEADROOM * pipe.sqrt();
        let brief_queue = pipe + f64::from(self.answers_within(BRIEF));
        let limit = short_queue.max(brief_queue);
        self.limit = (limit as u32).clamp(self.settings.min, self.settings.max);
    }

    /// The base has become `change` times what it was.
    fn on_batch(&mut self, change: f64) {
        if self.is_on_beat || self.base.is_settled() {
            self.pipe_settled = self.pipe.unwrap_or(0.0) * change;
        }
        self.is_on_beat = true;
    }

    /// By how much the base may rise.
    ///
    /// Off the beat others do not dip, and what looks like a slower service may be their queue. A service that became
    /// slower answers less, though, and holds no more than it did.
    fn rise_max(&self) -> f64 {
        match self.pipe {
            Some(pipe) if !self.is_on_beat && self.pipe_settled > 0.0 => {
                (self.pipe_settled / pipe.max(0.1)).max(1.0)
            }
            _ => f64::INFINITY,
        }
    }

    fn consider_dip(&mut self, now: Instant, base: Duration) {
        if now < self.next_second {
            return;
        }
        let (second, next_second) = seconds_since(self.epoch, now);
        self.next_second = next_second;
        if self.dip.is_some() || self.pipe.is_none() || !self.round.is_overload(now) {
            return;
        }
        let dip = Dip::new(now, self.unqueued_max(), self.base.batch_size(), base);
        let takes_s = dip.until.saturating_duration_since(now).as_secs_f64() / 2.0;
        // Powers of two, so that the beats of limiters with longer and shorter dips meet.
        let beat_s = DIP_EVERY_S * periods(takes_s, DIP_SHARE_MAX, DIP_EVERY_S);
        self.is_on_beat = second.is_multiple_of(beat_s);
        let unsettled_beat_s = periods(takes_s, DIP_UNSETTLED_SHARE_MAX, 1);
        if self.is_on_beat || !self.is_settled() && second.is_multiple_of(unsettled_beat_s) {
            self.dip = Some(dip);
        }
    }

    fn is_settled(&self) -> bool {
        let pipe = self.pipe.unwrap_or(0.0);
        let change = (pipe - self.pipe_settled).abs();
        self.base.is_settled() && change <= UNSETTLING_CHANGE * self.pipe_settled
    }

    /// How many may be in flight for certain without queueing.
    fn unqueued_max(&self) -> u32 {
        let unqueued = match self.pipe {
            Some(pipe) if self.is_on_beat => pipe * UNQUEUED_SHARE,
            Some(pipe) => pipe.max(self.pipe_settled) * UNQUEUED_SHARE,
            None => f64::from(self.limit) / GAIN,
        };
        (unqueued as u32).max(1)
    }
}

impl Dip {
    fn new(now: Instant, limit: u32, batch: u32, base: Duration) -> Self {
        // Some of those who are admitted will fail, and teach nothing.
        let admissions = batch + batch / 4;
        // What is in flight drains in about three base latencies, then `limit` are answered in each. Twice that is
        // plenty, and bounds what it costs if the service has just become much slower.
        let latencies = 2 * (3 + admissions.div_ceil(limit));
        Self {
            limit,
            admissions_left: admissions,
            until: now + base * latencies,
        }
    }
}

/// How many whole seconds have passed, and when there is one more.
fn seconds_since(epoch: Instant, now: Instant) -> (u64, Instant) {
    let seconds = now.saturating_duration_since(epoch).as_secs();
    (seconds, epoch + Duration::from_secs(seconds + 1))
}

/// How many periods apart dips of `takes_s` are, to take at most `share_max` of the time: a power of two.
fn periods(takes_s: f64, share_max: f64, period_s: u64) -> u64 {
    let periods = takes_s / share_max / period_s as f64;
    (periods.ceil() as u64)
        .clamp(1, 1 << 16)
        .next_power_of_two()
}
