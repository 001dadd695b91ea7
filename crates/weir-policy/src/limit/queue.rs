//! The short queue in front of a concurrency limit.
//!
//! A queue turns a burst into a small delay, and an overload into a long one for everybody. This queue does the first
//! and refuses to do the second, by the rules that Facebook describes (Maurer, "Fail at Scale", ACM Queue 2015), which
//! take the idea from `CoDel` (RFC 8289):
//!
//! - While the queue has been empty within the last `interval`, a newcomer is *patient*: it waits for up to `interval`,
//!   and the oldest of its priority goes first.
//! - Once the queue has not been empty for an `interval`, nor has anybody been admitted who had waited for less than
//!   `target` as the oldest, it is overloaded: a newcomer is *hurried*. It waits for up to `target` and the newest goes
//!   first, so that whoever is served is served fresh and the others learn soon. That lasts for as long as a third of
//!   them are refused (`overload`).
//!
//! What a waiter was promised when it came stays true: those who came as patient still go before the hurried, and so a
//! queue that becomes overloaded refuses nobody late. There are never more of them than fit in the queue.
//!
//! A higher [`Priority`] always goes first, and the overload of lower ones is not its own: for each priority, only those
//! who wait with that priority or a higher one count. While one is overloaded, lower ones are
//! [outranked](Queue::is_outranked). In a full queue a newcomer takes the place of the hurried waiter that has waited longest
//! among the lowest priority, if that priority is not above its own.
//!
//! The queue does not know what it is a queue for. It holds a `T` for each waiter (a waker, a number) and gives it back
//! exactly once: from [`Queue::pop`], [`Queue::pop_expired`], [`Queue::remove`], or as the displaced one from
//! [`Queue::push`]. All of them cost the same however many wait, and nothing is allocated after [`Queue::new`].

mod lines;
mod overload;
#[cfg(test)]
mod tests;

use super::priority::Priority;
use lines::{Line, Lines};
use overload::Overload;
use std::time::{Duration, Instant};

/// How long waiters wait, and how many of them there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The most waiters at once. Each takes the size of `T` and about 48 bytes, allocated at the start.
    pub waiters_max: usize,
    /// The longest wait while the queue is overloaded.
    pub target: Duration,
    /// How long the queue must have had waiters who wait for longer than `target` to be overloaded, and the longest wait
    /// until then.
    pub interval: Duration,
}

impl Settings {
    /// [`Settings::waiters_max`], unless configured otherwise.
    pub const WAITERS_MAX_DEFAULT: usize = 1_024;
    /// [`Settings::target`], unless configured otherwise. Facebook's is 5 ms; with a timer that fires a millisecond
    /// late, refusals still leave within 5 ms.
    pub const TARGET_DEFAULT: Duration = Duration::from_millis(3);
    /// [`Settings::interval`], unless configured otherwise. Facebook's and `CoDel`'s.
    pub const INTERVAL_DEFAULT: Duration = Duration::from_millis(100);
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            waiters_max: Self::WAITERS_MAX_DEFAULT,
            target: Self::TARGET_DEFAULT,
            interval: Self::INTERVAL_DEFAULT,
        }
    }
}

/// One waiter's place in the queue. It outlives the wait: a ticket of somebody who has left finds nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    slot: u32,
    generation: u32,
}

/// A place in the queue, and whoever had to leave for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Queued<T> {
    /// The place.
    pub ticket: Ticket,
    /// When the wait is up: the waiter is decided about by then, if somebody asks then.
    pub deadline: Instant,
    /// The waiter that gave up its place and is now refused.
    pub displaced: Option<T>,
}

/// Waiters, and the order in which they leave.
#[derive(Debug)]
pub struct Queue<T> {
    settings: Settings,
    lines: Lines<T>,
    /// Whether those of a priority and of higher ones are too many.
    overloads: [Overload; Priority::COUNT],
}

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            lines: Lines::new(settings.waiters_max),
            overloads: [Overload::default(); Priority::COUNT],
        }
    }

    /// Puts a waiter in, if fewer than `capacity` wait (and fewer than `waiters_max`) or one of them gives way.
    ///
    /// `waiter` is only called for somebody who gets a place.
    pub fn push(
        &mut self,
        now: Instant,
        priority: Priority,
        capacity: usize,
        waiter: impl FnOnce() -> T,
    ) -> Option<Queued<T>> {
        let is_overloaded = self.is_overloaded_for(now, priority);
        let displaced = if self.len() < capacity.min(self.settings.waiters_max) {
            None
        } else {
            Some(self.displace(now, priority)?)
        };
        let (line, wait) = if is_overloaded {
            (Line::hurried(priority), self.settings.target)
        } else {
            (Line::patient(priority), self.settings.interval)
        };
        let deadline = now + wait;
        let (slot, generation) = self.lines.push(line, deadline, waiter());
        for overload in &mut self.overloads[..=priority.index()] {
            overload.on_busy(now);
        }
        Some(Queued {
            ticket: Ticket { slot, generation },
            deadline,
            displaced,
        })
    }

    /// The waiter to admit next: the highest priority, in it the patient before the hurried, the oldest of the patient
    /// or the newest of the hurried. Callers let [`Queue::pop_expired`] go first.
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let waiter = Priority::ALL.into_iter().rev().find_map(|priority| {
            self.note_short_wait(now, priority);
            let waiter = self
                .lines
                .pop_oldest(Line::patient(priority))
                .or_else(|| self.lines.pop_newest(Line::hurried(priority)))?;
            self.note_decision(now, priority, false);
            Some(waiter)
        });
        self.note_empty();
        waiter
    }

    /// A waiter whose time is up, if there is one.
    pub fn pop_expired(&mut self, now: Instant) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let due = Line::ALL
            .into_iter()
            .find(|&line| self.lines.deadline(line).is_some_and(|at| at <= now));
        let waiter = due.and_then(|line| {
            self.note_decision(now, line.priority(), true);
            self.lines.pop_oldest(line)
        });
        self.note_empty();
        waiter
    }

    /// When the first of all waits is up.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = Line::ALL.into_iter();
        deadlines.filter_map(|line| self.lines.deadline(line)).min()
    }

    /// Takes a waiter out that no longer wants to wait. `None` when it has left already: then its decision is on its
    /// way to it.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let waiter = self.lines.remove(ticket.slot, ticket.generation);
        self.note_empty();
        waiter
    }

    /// [`Settings::target`].
    pub fn target(&self) -> Duration {
        self.settings.target
    }

    /// [`Settings::waiters_max`].
    pub fn capacity(&self) -> usize {
        self.settings.waiters_max
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether newcomers are hurried.
    pub fn is_overloaded(&self, now: Instant) -> bool {
        self.is_overloaded_for(now, Priority::Low)
    }

    /// Whether those of a higher priority are too many already. Hurried as they are, they cannot wait for the places that
    /// come free at once when a service answers in lumps; so these places are kept for those of them that come next.
    pub fn is_outranked(&self, now: Instant, priority: Priority) -> bool {
        let higher = &self.overloads[priority.index() + 1..];
        higher
            .iter()
            .any(|overload| overload.is_on(now, self.settings.interval))
    }

    fn is_overloaded_for(&self, now: Instant, priority: Priority) -> bool {
        self.overloads[priority.index()].is_on(now, self.settings.interval)
    }

    /// Somebody of this priority was admitted or refused. To be told of those who never came to the queue; of its waiters it
    /// knows.
    pub fn note_decision(&mut self, now: Instant, priority: Priority, is_refusal: bool) {
        for overload in &mut self.overloads[..=priority.index()] {
            overload.on_decision(now, self.settings.interval, is_refusal);
        }
    }

    /// Takes out whoever makes room for a newcomer of this priority; otherwise it is the newcomer who is refused.
    fn displace(&mut self, now: Instant, priority: Priority) -> Option<T> {
        let displaced = Priority::ALL
            .into_iter()
            .take_while(|&lower| lower <= priority)
            .find_map(|lower| {
                let hurried = self.lines.pop_oldest(Line::hurried(lower));
                // A patient waiter was promised its turn, and keeps it against its like.
                let waiter = hurried.or_else(|| {
                    (lower < priority)
                        .then(|| self.lines.pop_newest(Line::patient(lower)))
                        .flatten()
                });
                waiter.map(|waiter| (lower, waiter))
            });
        let refused = displaced.as_ref().map_or(priority, |(lower, _)| *lower);
        self.note_decision(now, refused, true);
        displaced.map(|(_, waiter)| waiter)
    }

    /// Before the oldest patient waiter of this priority leaves, who are the first to go. A queue that is never empty and
    /// short all the same, because the service is fast, is not overloaded.
    fn note_short_wait(&mut self, now: Instant, priority: Priority) {
        let Some(deadline) = self.lines.deadline(Line::patient(priority)) else {
            return;
        };
        if deadline > now + self.settings.interval.saturating_sub(self.settings.target) {
            let overloads = self.overloads[priority.index()..].iter_mut();
            overloads.for_each(|overload| overload.on_short_wait(now));
        }
    }

    fn note_empty(&mut self) {
        for priority in Priority::ALL.into_iter().rev() {
            let lines = [Line::patient(priority), Line::hurried(priority)];
            if lines
                .iter()
                .any(|&line| self.lines.deadline(line).is_some())
            {
                return;
            }
            self.overloads[priority.index()].on_empty();
        }
    }
}
