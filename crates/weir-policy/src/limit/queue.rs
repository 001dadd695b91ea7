//! The short queue in front of a concurrency limit.
//!
//! A queue turns a burst into a small delay, and an overload into a long one for everybody. This queue does the first
//! and avoids the second, by the rules that Facebook describes (Maurer, "Fail at Scale", ACM Queue 2015), which take
//! the idea from `CoDel` (RFC 8289):
//!
//! - While the queue has been empty within the last `interval`, a new waiter is *patient*: it waits for up to
//!   `interval`, and the oldest of its priority goes first.
//! - The queue is overloaded once it has not been empty for an `interval`, and nobody was admitted in that time who had
//!   waited for less than `target` as the oldest. Then a new waiter is *hurried*: it waits for up to `target`, and the
//!   newest goes first, so that those who are served are served quickly and the others learn soon. That lasts as long
//!   as a third of them are refused (`overload`).
//!
//! A waiter keeps what it was promised when it came: patient waiters still go before hurried ones, so a queue that
//! becomes overloaded refuses nobody late. There are never more of them than fit in the queue.
//!
//! A higher [`Priority`] always goes first, and the overload of lower ones is not its own: for each priority, only
//! waiters of that or a higher priority count. While one is overloaded, lower ones are
//! [outranked](Queue::is_outranked). In a full queue a new waiter displaces the hurried waiter that has waited longest
//! among the lowest priority, if that priority is not above its own.
//!
//! The queue does not know what it is for. It holds a `T` for each waiter (a waker, a number) and gives it back exactly
//! once: from [`Queue::pop`], [`Queue::pop_expired`], [`Queue::remove`], or as the displaced one from [`Queue::push`].
//! All of these cost the same however many wait, and nothing is allocated after [`Queue::new`].

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
    /// The queue is overloaded after this time with waiters who wait for longer than `target`. It is also the longest
    /// wait until then.
    pub interval: Duration,
}

impl Settings {
    /// [`Settings::waiters_max`], unless configured otherwise.
    pub const WAITERS_MAX_DEFAULT: usize = 1_024;
    /// [`Settings::target`], unless configured otherwise. Facebook's is 5 ms. With a timer that fires a millisecond
    /// late, refusals still leave within 5 ms.
    pub const TARGET_DEFAULT: Duration = Duration::from_millis(3);
    /// [`Settings::interval`], unless configured otherwise. It is Facebook's and `CoDel`'s.
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

/// One waiter's place in the queue. It may outlive the wait: the ticket of a waiter that has left finds nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    slot: u32,
    generation: u32,
}

/// A place in the queue, and the waiter that had to leave for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Queued<T> {
    /// The place.
    pub ticket: Ticket,
    /// When the wait ends. The decision falls by then, if somebody asks for it.
    pub deadline: Instant,
    /// The waiter that gave up its place and is now refused.
    pub displaced: Option<T>,
}

/// Waiters, and the order in which they leave.
#[derive(Debug)]
pub struct Queue<T> {
    settings: Settings,
    lines: Lines<T>,
    /// For each priority, whether waiters of that and higher ones are too many.
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

    /// Adds a waiter, if fewer than `capacity` wait (and fewer than `waiters_max`) or one of them gives way.
    ///
    /// `waiter` is only called if there is a place.
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

    /// The waiter to admit next: the highest priority, in it patient before hurried, the oldest of the patient or the
    /// newest of the hurried. Callers must call [`Queue::pop_expired`] first.
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

    /// A waiter whose wait has expired, if there is one.
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

    /// When the first wait expires.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = Line::ALL.into_iter();
        deadlines.filter_map(|line| self.lines.deadline(line)).min()
    }

    /// Removes a waiter that no longer wants to wait. `None` when it has left already: then its decision is on its way.
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

    /// Whether new waiters are hurried.
    pub fn is_overloaded(&self, now: Instant) -> bool {
        self.is_overloaded_for(now, Priority::Low)
    }

    /// Whether requests of a higher priority are already too many. They are hurried, so they cannot wait for the places
    /// that become free together when a service answers in batches. These places are kept for the next of them.
    pub fn is_outranked(&self, now: Instant, priority: Priority) -> bool {
        let higher = &self.overloads[priority.index() + 1..];
        higher
            .iter()
            .any(|overload| overload.is_on(now, self.settings.interval))
    }

    fn is_overloaded_for(&self, now: Instant, priority: Priority) -> bool {
        self.overloads[priority.index()].is_on(now, self.settings.interval)
    }

    /// A request of this priority was admitted or refused. Must be called for those who never came to the queue; the
    /// queue knows about its waiters.
    pub fn note_decision(&mut self, now: Instant, priority: Priority, is_refusal: bool) {
        for overload in &mut self.overloads[..=priority.index()] {
            overload.on_decision(now, self.settings.interval, is_refusal);
        }
    }

    /// Removes the waiter that makes room for a new one of this priority. `None`: the new one is refused.
    fn displace(&mut self, now: Instant, priority: Priority) -> Option<T> {
        let displaced = Priority::ALL
            .into_iter()
            .take_while(|&lower| lower <= priority)
            .find_map(|lower| {
                let hurried = self.lines.pop_oldest(Line::hurried(lower));
                // A patient waiter was promised its turn, so only a higher priority displaces it.
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

    /// To be called before the oldest patient waiter of this priority leaves; these go first. A queue that is never
    /// empty but short, because the service is fast, is not overloaded.
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
