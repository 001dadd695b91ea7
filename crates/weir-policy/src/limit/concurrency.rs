//! How many requests a service holds at once, and who waits for a place.
//!
//! A [`Limiter`] joins three things: the number of requests in flight, a limit on it, and the [`Queue`] of those who
//! wait. The limit is either fixed or adaptive (`adaptive`: learned from how fast answers come). The limiter never
//! reads a clock and never calls anybody. After [`Limiter::acquire`], [`Limiter::release`] or [`Limiter::cancel`], and
//! at [`Limiter::next_deadline`], the caller takes decisions about waiters from [`Limiter::decide`] until there is none
//! left, and tells the waiters.
//!
//! An admitted request has a place while the service works on it. A request that goes on without being work (an event
//! stream, a transfer that waits for its client) can be [set apart](Limiter::set_apart). It gives its place to the next
//! request and counts as a *stream*; streams have a bound of their own. So streams displace only streams, and the
//! service never holds more than the limit and that bound together.
//!
//! Every call costs the same however many wait or are in flight, and nothing is allocated after [`Limiter::new`]. The
//! memory is that of the queue, `waiters_max` × (size of `T` + 48 bytes), and about 500 bytes.

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
    /// As many as the service can hold with little queueing.
    Adaptive(AdaptiveSettings),
}

/// A limit and the queue in front of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How many requests may be in flight.
    pub limit: Limit,
    /// Who may wait. Whatever `waiters_max` says, no more wait than half as many as may be in flight: a longer queue
    /// would double the time that the service itself takes. If the service is known to answer more than that within
    /// [`queue::Settings::target`], that many may wait. Requests that are held for a moment do not count here.
    pub queue: queue::Settings,
    /// How many streams there may be in addition. With 0 none is set apart: each keeps its place to its end.
    pub streams_max: u32,
}

impl Settings {
    /// [`Settings::streams_max`], unless configured otherwise. Most services spend little more than a connection on a
    /// stream.
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

/// The right to have one request in flight. It must come back through [`Limiter::release`] exactly once, whatever
/// happens to the request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is lost is a place that stays taken"]
pub struct Permit {
    admitted_at: Instant,
    /// The tag by which an adaptive limit knows it.
    tag: Option<Tag>,
    /// Whether it counts as a stream.
    is_apart: bool,
}

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The limit is reached and the queue is full.
    QueueFull,
    /// It waited for the longest allowed time.
    WaitedTooLong,
    /// A newer or more important request took its place in the queue.
    Displaced,
    /// Requests of a higher priority are already refused, so there are no places for this one.
    Outranked,
    /// It is a stream, and the number of streams is at its limit.
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

/// What happens to a new request.
#[derive(Debug, PartialEq, Eq)]
pub enum Acquired<T> {
    /// It is admitted.
    Admitted(Permit),
    /// It waits. If a waiter had to leave for it, that one is refused as [`Refusal::Displaced`].
    Queued(Queued<T>),
    /// It is refused.
    Refused(Refusal),
}

/// What happens to a waiter.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision<T> {
    /// It is admitted.
    Admitted(T, Permit),
    /// It is refused.
    Refused(T, Refusal),
}

/// What the admin API shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// How many requests may be in flight now.
    pub limit: u32,
    /// How many are in flight, without streams and [lost](Limiter::lose) requests.
    pub in_flight: u32,
    /// How many streams there are in addition.
    pub streams: u32,
    /// How many wait.
    pub waiting: usize,
    /// Whether the queue is overloaded, so that new requests wait only for [`queue::Settings::target`].
    pub is_overloaded: bool,
    /// The adaptive limit's estimate of the service's latency without queueing.
    pub base_latency: Option<Duration>,
}

/// Admits, queues and refuses the requests to one service.
#[derive(Debug)]
pub struct Limiter<T> {
    in_flight: u32,
    /// How many of these are given up.
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
    /// `epoch` is an instant before `now` that is the same for all limiters in front of one service. For those of other
    /// gateways it may differ by whole multiples of 1,024 seconds, as when the seconds since 1970 were such a multiple.
    /// An adaptive limit measures at times counted from it, so that none measures the queue of another.
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

    /// Changes a fixed limit. An adaptive one stays as it is.
    pub fn set_fixed(&mut self, limit: u32) {
        if let Gauge::Fixed(fixed) = &mut self.gauge {
            *fixed = limit.max(1);
        }
    }

    /// The service has become so many times as large: 2/3 when one of three endpoints has left, 3/2 when it is back. An
    /// adaptive limit expects so many times as many answers, until it has measured; without a limit nothing changes, and a
    /// fixed one stays as it is.
    pub fn scale(&mut self, now: Instant, factor: f64) {
        if let Gauge::Adaptive(adaptive) = &mut self.gauge {
            adaptive.scale(now, factor);
        }
    }

    /// A request arrives. `waiter` is only called if it has to wait.
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

    /// A place for a request that can do without one: at once, or not at all. `None` does not count as a refusal.
    pub fn try_acquire(&mut self, now: Instant) -> Option<Permit> {
        let permit = self.place(now)?;
        self.note_offer(now);
        Some(permit)
    }

    /// The request goes on as a stream, which frees its place; [`Limiter::decide`] says for whom. A request that is a
    /// stream already stays as it is, and so does every request if `streams_max` is 0.
    ///
    /// # Errors
    /// The number of streams is at its limit. The request still has its place, and must be ended.
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

    /// The service works on a stream again. It counts as in flight, even beyond the limit; new requests then wait.
    pub fn bring_back(&mut self, now: Instant, permit: &mut Permit) {
        if std::mem::take(&mut permit.is_apart) {
            self.streams = self.streams.saturating_sub(1);
            self.in_flight += 1;
            self.note_in_flight(now);
        }
    }

    /// This many requests in flight are at an endpoint that does not answer. Their places go to others, as
    /// [`Limiter::decide`] says, although none has come back. Each must be [recovered](Limiter::recover) when it ends,
    /// before it is released.
    pub fn lose(&mut self, requests: u32) {
        self.lost += requests;
    }

    /// One lost request counts as in flight again.
    pub fn recover(&mut self) {
        self.lost = self.lost.saturating_sub(1);
    }

    /// A request has ended, which frees its place; [`Limiter::decide`] says for whom.
    ///
    /// Only an [`Outcome::Success`] teaches an adaptive limit, by the time from the admission until now, in which the
    /// place was taken. The latency in `outcome` is not read. Failures are often quick and would make the service look
    /// faster than it is. A stream teaches nothing.
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

    /// The next waiter whose wait is over. Must be called until there is none.
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

    /// A waiter leaves by itself. `None` when it has been decided about already. An admission on its way to a waiter
    /// that has left must be given back as [`Outcome::Ignored`].
    pub fn cancel(&mut self, ticket: Ticket) -> Option<T> {
        self.queue.remove(ticket)
    }

    /// When [`Limiter::decide`] may next have something to decide, if no other call comes before.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let of_queue = self.queue.next_deadline()?;
        Some(self.hold_ends(now).unwrap_or(of_queue))
    }

    /// How many requests may be in flight.
    pub fn limit(&self) -> u32 {
        match &self.gauge {
            Gauge::Fixed(limit) => *limit,
            Gauge::Adaptive(adaptive) => adaptive.limit(),
        }
    }

    /// The same, ignoring a hold.
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

    /// Takes a place at once, if nobody waits for one.
    fn place(&mut self, now: Instant) -> Option<Permit> {
        self.turn(now);
        let is_first = self.let_held_go() || self.queue.is_empty();
        let is_free = is_first && self.at_work() < self.limit();
        is_free.then(|| self.admit(now))
    }

    /// Lets all held requests go on, if there is no room to hold more. Returns whether it did.
    fn let_held_go(&mut self) -> bool {
        let is_full = self.queue.len() >= self.waiters_max().min(self.queue.capacity());
        match &mut self.gauge {
            Gauge::Adaptive(adaptive) if is_full && adaptive.is_free() => adaptive.let_go(),
            Gauge::Adaptive(_) | Gauge::Fixed(_) => return false,
        }
        true
    }

    /// Whether nobody is refused, although some may be held for a moment.
    fn is_free(&self) -> bool {
        matches!(&self.gauge, Gauge::Adaptive(adaptive) if adaptive.is_free())
    }

    /// When the held requests go on, if there are any. That is before their deadline in the queue, so nobody is
    /// refused.
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

    /// How many requests in flight the service still works on.
    fn at_work(&self) -> u32 {
        self.in_flight.saturating_sub(self.lost)
    }
}
