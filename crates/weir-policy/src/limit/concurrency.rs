//! How many requests a service holds at once, and who waits for a place.
//!
//! A [`Limiter`] joins three things: the number of requests in flight, a limit on it that is either fixed or adaptive
//! (`adaptive`: found out from how fast answers come), and the [`Queue`] of those who wait. It never looks at a clock
//! and never calls anybody: after [`Limiter::acquire`], [`Limiter::release`], [`Limiter::cancel`] or when
//! [`Limiter::next_deadline`] has come, the caller takes out the decisions about waiters with [`Limiter::decide`] until
//! there is none left, and tells the waiters.
//!
//! A request that is let in has a place for as long as the service is at work on it. One that goes on without being work
//! (an event stream, a transfer that waits for its client) can be [set apart](Limiter::set_apart): it gives its place to
//! the next and is counted among the *streams*, which have a bound of their own. So streams crowd out streams and nobody
//! else, and the service never holds more than the limit and that bound together.
//!
//! Every call costs the same however many wait or are in flight, and nothing is allocated after [`Limiter::new`].
//! Memory: that of the queue, `waiters_max` × (size of `T` + 48 bytes), and about 500 bytes.

mod adaptive;
#[cfg(test)]
mod tests;

use super::priority::Priority;
use super::queue::{self, Queue, Queued, Ticket};
use crate::outcome::Outcome;
pub use adaptive::Settings as AdaptiveSettings;
use adaptive::{Adaptive, End, Tag};
use std::time::{Duration, Instant};

/// How many requests may be in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// This many, at least 1 (0 counts as 1).
    Fixed(u32),
    /// As many as the service turns out to hold without queueing much.
    Adaptive(AdaptiveSettings),
}

/// A limit and the queue in front of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How many requests may be in flight.
    pub limit: Limit,
    /// Who may wait. However large `waiters_max`, no more wait than half as many as may be in flight, but those who are held for a
    /// moment: a longer queue would double the time that the service itself takes. Where the service is known to be so fast that more are answered
    /// within [`queue::Settings::target`], so many wait.
    pub queue: queue::Settings,
    /// How many streams there may be besides. At 0 none is set apart: each keeps its place to its end.
    pub streams_max: u32,
}

impl Settings {
    /// [`Settings::streams_max`], unless configured otherwise: most services spend a connection on a stream and little else.
    pub const STREAMS_MAX_DEFAULT: u32 = 1_024;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit: Limit::Adaptive(AdaptiveSettings::default()),
            queue: queue::Settings::default(),
            streams_max: Self::STREAMS_MAX_DEFAULT,
        }
    }
}

/// The right to have one request in flight. It comes back through [`Limiter::release`], exactly once, whatever happens
/// to the request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is lost is a place that stays taken"]
pub struct Permit {
    admitted_at: Instant,
    /// What an adaptive limit knows it by.
    tag: Option<Tag>,
    /// Whether it is counted among the streams instead.
    is_apart: bool,
}

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The limit is reached, and so is the length of the queue.
    QueueFull,
    /// It waited for as long as a request may.
    WaitedTooLong,
    /// It gave up its place in the queue to a newer or more important request.
    Displaced,
    /// So many requests of a higher priority are refused that there are no places for this one.
    Outranked,
    /// It is a stream, and there are as many of them as there may be.
    StreamsFull,
}

impl Refusal {
    /// The name in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::WaitedTooLong => "waited-too-long",
            Self::Displaced => "displaced",
            Self::Outranked => "outranked",
            Self::StreamsFull => "streams-full",
        }
    }
}

/// What becomes of a newcomer.
#[derive(Debug, PartialEq, Eq)]
pub enum Acquired<T> {
    /// It may go on.
    Admitted(Permit),
    /// It waits. If somebody had to leave for it, that one is refused as [`Refusal::Displaced`].
    Queued(Queued<T>),
    /// It may not.
    Refused(Refusal),
}

/// What becomes of a waiter.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision<T> {
    /// It may go on.
    Admitted(T, Permit),
    /// It may not.
    Refused(T, Refusal),
}

/// What the admin API shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// How many requests may be in flight now.
    pub limit: u32,
    /// How many are, without the streams and those that are [lost](Limiter::lose).
    pub in_flight: u32,
    /// How many streams there are besides.
    pub streams: u32,
    /// How many wait.
    pub waiting: usize,
    /// Whether so many ask that newcomers wait for [`queue::Settings::target`] only.
    pub is_overloaded: bool,
    /// What the adaptive limit takes for the latency of the service when nothing queues in it.
    pub base_latency: Option<Duration>,
}

/// Admits, queues and refuses the requests to one service.
#[derive(Debug)]
pub struct Limiter<T> {
    in_flight: u32,
    /// Of these, how many are given up.
    lost: u32,
    streams: u32,
    streams_max: u32,
    gauge: Gauge,
    queue: Queue<T>,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each limit, not one for each request"
)]
enum Gauge {
    Fixed(u32),
    Adaptive(Adaptive),
}

impl<T> Limiter<T> {
    /// A limiter with nothing in flight.
    ///
    /// `epoch` is some instant before `now` that is the same for all limiters in front of one service, and for those of
    /// other gateways lies whole multiples of 1,024 seconds away: for example, one at which the seconds since 1970 were a
    /// multiple of that. An adaptive limit measures at such times, so that none measures the queue of another.
    pub fn new(settings: &Settings, now: Instant, epoch: Instant) -> Self {
        Self {
            in_flight: 0,
            lost: 0,
            streams: 0,
            streams_max: settings.streams_max,
            gauge: match settings.limit {
                Limit::Fixed(limit) => Gauge::Fixed(limit.max(1)),
                Limit::Adaptive(adaptive) => {
                    Gauge::Adaptive(Adaptive::new(adaptive, settings.queue.interval, now, epoch))
                }
            },
            queue: Queue::new(settings.queue),
        }
    }

    /// A fixed limit is another one from now on. An adaptive one stays as it is.
    pub fn set_fixed(&mut self, limit: u32) {
        if let Gauge::Fixed(fixed) = &mut self.gauge {
            *fixed = limit.max(1);
        }
    }

    /// A request arrives. `waiter` is called if it has to wait.
    pub fn acquire(
        &mut self,
        now: Instant,
        priority: Priority,
        waiter: impl FnOnce() -> T,
    ) -> Acquired<T> {
        self.note_offer(now);
        if !self.is_free() && self.queue.is_outranked(now, priority) {
            self.queue.note_decision(now, priority, true);
            self.note_refusal();
            return Acquired::Refused(Refusal::Outranked);
        }
        if let Some(permit) = self.place(now) {
            self.queue.note_decision(now, priority, false);
            return Acquired::Admitted(permit);
        }
        let capacity = self.waiters_max();
        let queued = self.queue.push(now, priority, capacity, waiter);
        let is_loss = queued
            .as_ref()
            .is_none_or(|queued| queued.displaced.is_some());
        if is_loss {
            self.note_refusal();
        }
        queued.map_or(Acquired::Refused(Refusal::QueueFull), Acquired::Queued)
    }

    /// A place for what can do without: at once and behind nobody, or not at all. That there is none is no refusal.
    pub fn try_acquire(&mut self, now: Instant) -> Option<Permit> {
        let permit = self.place(now)?;
        self.note_offer(now);
        Some(permit)
    }

    /// The request goes on as a stream: its place is free, [`Limiter::decide`] says for whom. One that is a stream already
    /// stays as it is, and so does every request where none is set apart.
    ///
    /// # Errors
    /// There are as many streams as there may be. The request still has its place, and is to be ended.
    pub fn set_apart(&mut self, permit: &mut Permit) -> Result<(), Refusal> {
        if permit.is_apart || self.streams_max == 0 {
            return Ok(());
        }
        if self.streams >= self.streams_max {
            return Err(Refusal::StreamsFull);
        }
        permit.is_apart = true;
        if let (Gauge::Adaptive(adaptive), Some(tag)) = (&mut self.gauge, permit.tag.take()) {
            adaptive.on_set_apart(tag);
        }
        self.streams += 1;
        self.in_flight = self.in_flight.saturating_sub(1);
        Ok(())
    }

    /// The service is at work on a stream again. It is in flight from now on, even beyond the limit: newcomers wait for that.
    pub fn bring_back(&mut self, now: Instant, permit: &mut Permit) {
        if std::mem::take(&mut permit.is_apart) {
            self.streams = self.streams.saturating_sub(1);
            self.in_flight += 1;
            self.note_in_flight(now);
        }
    }

    /// So many of the requests in flight are where nobody answers: their places are for others, as [`Limiter::decide`] says,
    /// though none has come back. Each that ends is [recovered](Limiter::recover) before it is released.
    pub fn lose(&mut self, requests: u32) {
        self.lost += requests;
    }

    /// One of those that were lost is in flight as any other.
    pub fn recover(&mut self) {
        self.lost = self.lost.saturating_sub(1);
    }

    /// A request has ended. Its place is free; [`Limiter::decide`] says for whom.
    ///
    /// Only a [`Outcome::Success`] teaches an adaptive limit, by the time from the admission until now: the time for
    /// which the place was taken. The latency in `outcome` is not read. Failures are often quick and would make the
    /// service look faster than it is. A stream teaches nothing.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a permit that has come back is gone"
    )]
    pub fn release(&mut self, now: Instant, permit: Permit, outcome: Outcome) {
        if permit.is_apart {
            self.streams = self.streams.saturating_sub(1);
            return;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        let at_work = self.at_work();
        if let (Gauge::Adaptive(adaptive), Some(tag)) = (&mut self.gauge, permit.tag) {
            let held_for = now.saturating_duration_since(permit.admitted_at);
            let end = match outcome {
                Outcome::Success(_) => End::Answered(held_for),
                Outcome::Failure(_) => End::Failed(held_for),
                Outcome::Ignored => End::Unknown,
            };
            adaptive.on_end(now, tag, end, at_work);
        }
    }

    /// The next waiter whose wait is over. To be called until there is none.
    pub fn decide(&mut self, now: Instant) -> Option<Decision<T>> {
        self.turn(now);
        if !self.is_free()
            && let Some(waiter) = self.queue.pop_expired(now)
        {
            self.note_refusal();
            return Some(Decision::Refused(waiter, Refusal::WaitedTooLong));
        }
        if self.at_work() < self.limit()
            && let Some(waiter) = self.queue.pop(now)
        {
            return Some(Decision::Admitted(waiter, self.admit(now)));
        }
        self.note_in_flight(now);
        None
    }

    /// A waiter leaves by itself. `None` when it has been decided about already; an admission that is on its way to
    /// somebody who has left must be given back, as [`Outcome::Ignored`].
    pub fn cancel(&mut self, ticket: Ticket) -> Option<T> {
        self.queue.remove(ticket)
    }

    /// When [`Limiter::decide`] may have something to decide, from `now` on, unless it is called for another reason before.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let of_queue = self.queue.next_deadline()?;
        Some(self.hold_ends(now).unwrap_or(of_queue))
    }

    /// How many may be in flight.
    pub fn limit(&self) -> u32 {
        match &self.gauge {
            Gauge::Fixed(limit) => *limit,
            Gauge::Adaptive(adaptive) => adaptive.limit(),
        }
    }

    /// The same, as if nobody were held for a moment.
    pub fn limit_without_hold(&self) -> u32 {
        match &self.gauge {
            Gauge::Fixed(limit) => *limit,
            Gauge::Adaptive(adaptive) => adaptive.limit_without_hold(),
        }
    }

    /// What the admin API shows.
    pub fn status(&self, now: Instant) -> Status {
        Status {
            limit: self.limit_without_hold(),
            in_flight: self.at_work(),
            streams: self.streams,
            waiting: self.queue.len(),
            is_overloaded: self.queue.is_overloaded(now),
            base_latency: match &self.gauge {
                Gauge::Fixed(_) => None,
                Gauge::Adaptive(adaptive) => adaptive.base_latency(),
            },
        }
    }

    fn waiters_max(&self) -> usize {
        let half = self.limit().div_ceil(2) as usize;
        match &self.gauge {
            Gauge::Fixed(_) => half,
            Gauge::Adaptive(adaptive) if adaptive.is_free() => usize::MAX,
            Gauge::Adaptive(adaptive) => {
                half.max(adaptive.answers_within(self.queue.target()) as usize)
            }
        }
    }

    /// A place at once, behind nobody but those for whom there is one already.
    fn place(&mut self, now: Instant) -> Option<Permit> {
        self.turn(now);
        let is_first = self.has_let_go() || self.queue.is_empty();
        let is_free = is_first && self.at_work() < self.limit();
        is_free.then(|| self.admit(now))
    }

    /// Whether so many were held for a moment that there is no room for more, so that all of them may go on.
    fn has_let_go(&mut self) -> bool {
        let is_full = self.queue.len() >= self.waiters_max().min(self.queue.capacity());
        match &mut self.gauge {
            Gauge::Adaptive(adaptive) if is_full && adaptive.is_free() => adaptive.let_go(),
            Gauge::Adaptive(_) | Gauge::Fixed(_) => return false,
        }
        true
    }

    /// Whether nobody is refused, though some may be held for a moment.
    fn is_free(&self) -> bool {
        matches!(&self.gauge, Gauge::Adaptive(adaptive) if adaptive.is_free())
    }

    /// When those go on who are held for a moment, if any are: before the deadline that they have in the queue, at which nobody is
    /// refused then.
    pub fn hold_ends(&self, now: Instant) -> Option<Instant> {
        match &self.gauge {
            Gauge::Adaptive(adaptive) => adaptive.hold_ends(now),
            Gauge::Fixed(_) => None,
        }
    }

    fn admit(&mut self, now: Instant) -> Permit {
        self.in_flight += 1;
        let at_work = self.at_work();
        let tag = match &mut self.gauge {
            Gauge::Fixed(_) => None,
            Gauge::Adaptive(adaptive) => Some(adaptive.on_admission(now, at_work)),
        };
        Permit {
            admitted_at: now,
            tag,
            is_apart: false,
        }
    }

    fn turn(&mut self, now: Instant) {
        if let Gauge::Adaptive(adaptive) = &mut self.gauge {
            adaptive.turn(now, self.queue.len());
        }
    }

    fn note_offer(&mut self, now: Instant) {
        if let Gauge::Adaptive(adaptive) = &mut self.gauge {
            adaptive.on_offer(now);
        }
    }

    fn note_refusal(&mut self) {
        if let Gauge::Adaptive(adaptive) = &mut self.gauge {
            adaptive.on_refusal();
        }
    }

    fn note_in_flight(&mut self, now: Instant) {
        let at_work = self.at_work();
        if let Gauge::Adaptive(adaptive) = &mut self.gauge {
            adaptive.on_in_flight(now, at_work);
        }
    }

    /// How many requests are in flight that somebody still works on.
    fn at_work(&self) -> u32 {
        self.in_flight.saturating_sub(self.lost)
    }
}
