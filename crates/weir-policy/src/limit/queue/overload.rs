//! When a queue is overloaded: how that begins, and how long it lasts.
//!
//! It begins when there have been waiters for an interval and even the oldest waited longer than the target. From then
//! on nobody waits for long, so an empty queue says little: a service that answers in batches empties it with each
//! batch. So an overload goes on for an interval at a time, as long as a third of the decisions of the last one were
//! refusals. This file knows nothing about waiters and their order.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Overload {
    /// When the time began in which there have been waiters and none was admitted within the target.
    busy_since: Option<Instant>,
    /// The decisions in the last interval of an overload.
    count: Option<Count>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    ends: Instant,
    admitted: u32,
    refused: u32,
}

impl Overload {
    pub(super) fn is_on(&self, now: Instant, interval: Duration) -> bool {
        let is_busy = |since| now.saturating_duration_since(since) >= interval;
        self.busy_since.is_some_and(is_busy)
            || self.count.is_some_and(|count| count.is_on(now, interval))
    }

    /// There are waiters.
    pub(super) fn on_busy(&mut self, now: Instant) {
        self.busy_since.get_or_insert(now);
    }

    /// The oldest waiter was admitted within the target.
    pub(super) fn on_short_wait(&mut self, now: Instant) {
        if let Some(since) = &mut self.busy_since {
            *since = now;
        }
    }

    /// There are no waiters.
    pub(super) fn on_empty(&mut self) {
        self.busy_since = None;
    }

    /// A request was admitted or refused.
    pub(super) fn on_decision(&mut self, now: Instant, interval: Duration, is_refusal: bool) {
        if !self.is_on(now, interval) {
            self.count = None;
            return;
        }
        let running = self.count.filter(|count| now < count.ends);
        let count = self.count.insert(running.unwrap_or(Count {
            ends: now + interval,
            admitted: 0,
            refused: 0,
        }));
        if is_refusal {
            count.refused += 1;
        } else {
            count.admitted += 1;
        }
    }
}

impl Count {
    /// Whether the overload goes on: in the counted interval, and in the next one if a third were refused.
    fn is_on(&self, now: Instant, interval: Duration) -> bool {
        now < self.ends || 2 * self.refused > self.admitted && now < self.ends + interval
    }
}
