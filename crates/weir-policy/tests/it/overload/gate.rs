//! What can stand in front of the simulated service.

use super::other_limits::Algorithm;
use super::simulation::start;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use weir_policy::Outcome;
use weir_policy::limit::concurrency::{
    Acquired, AdaptiveSettings, Decision, Limit, Limiter, Permit, Settings,
};
use weir_policy::limit::priority::Priority;
use weir_policy::limit::queue::{self, Queue, Queued};

/// What a gate says to a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Admitted,
    /// It waits; if somebody had to leave for it, that one is refused.
    Queued(Option<usize>),
    Refused,
}

/// Admits, queues and refuses requests, which are known by their number.
pub(crate) trait Gate {
    fn acquire(&mut self, now: Instant, priority: Priority, id: usize) -> Answer;
    fn release(&mut self, now: Instant, id: usize);
    /// A waiter that is now admitted (true) or refused.
    fn decide(&mut self, now: Instant) -> Option<(usize, bool)>;
    fn next_deadline(&self, now: Instant) -> Option<Instant>;
    fn limit(&self) -> u32;
}

/// The gate of this crate.
pub(crate) struct Weir {
    limiter: Limiter<usize>,
    permits: HashMap<usize, Permit>,
}

impl Weir {
    pub(crate) fn new(limit: Limit, now: Instant) -> Self {
        let settings = Settings {
            limit,
            ..Settings::default()
        };
        Self {
            limiter: Limiter::new(&settings, now, now),
            permits: HashMap::new(),
        }
    }

    /// With everything at its defaults, as old as the simulation.
    pub(crate) fn adaptive() -> Self {
        Self::new(Limit::Adaptive(AdaptiveSettings::default()), start())
    }
}

impl Gate for Weir {
    fn acquire(&mut self, now: Instant, priority: Priority, id: usize) -> Answer {
        match self.limiter.acquire(now, priority, || id) {
            Acquired::Admitted(permit) => {
                self.permits.insert(id, permit);
                Answer::Admitted
            }
            Acquired::Queued(queued) => Answer::Queued(queued.displaced),
            Acquired::Refused(_) => Answer::Refused,
        }
    }

    fn release(&mut self, now: Instant, id: usize) {
        let permit = self.permits.remove(&id).expect("it was admitted");
        // The limiter measures by itself; a latency that is wrong must not matter.
        self.limiter
            .release(now, permit, Outcome::Success(Duration::ZERO));
    }

    fn decide(&mut self, now: Instant) -> Option<(usize, bool)> {
        match self.limiter.decide(now)? {
            Decision::Admitted(id, permit) => {
                self.permits.insert(id, permit);
                Some((id, true))
            }
            Decision::Refused(id, _) => Some((id, false)),
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.limiter.next_deadline(now)
    }

    fn limit(&self) -> u32 {
        self.limiter.limit()
    }
}

/// The gate of this crate, which is told when the service becomes larger or smaller, by which factor.
pub(crate) struct Told {
    pub(crate) weir: Weir,
    pub(crate) changes: VecDeque<(Instant, f64)>,
}

impl Gate for Told {
    fn acquire(&mut self, now: Instant, priority: Priority, id: usize) -> Answer {
        while let Some(&(_, factor)) = self.changes.front().filter(|(at, _)| *at <= now) {
            let _ = self.changes.pop_front();
            self.weir.limiter.scale(now, factor);
        }
        self.weir.acquire(now, priority, id)
    }

    fn release(&mut self, now: Instant, id: usize) {
        self.weir.release(now, id);
    }

    fn decide(&mut self, now: Instant) -> Option<(usize, bool)> {
        self.weir.decide(now)
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.weir.next_deadline(now)
    }

    fn limit(&self) -> u32 {
        self.weir.limit()
    }
}

/// Nothing: what a plain proxy does.
pub(crate) struct Open;

impl Gate for Open {
    fn acquire(&mut self, _: Instant, _: Priority, _: usize) -> Answer {
        Answer::Admitted
    }

    fn release(&mut self, _: Instant, _: usize) {}

    fn decide(&mut self, _: Instant) -> Option<(usize, bool)> {
        None
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        None
    }

    fn limit(&self) -> u32 {
        u32::MAX
    }
}

/// Another adaptive limit behind the queue of this crate.
pub(crate) struct Other<A> {
    algorithm: A,
    queue: Queue<usize>,
    /// When each request in flight was admitted.
    in_flight: HashMap<usize, Instant>,
}

impl<A: Algorithm> Other<A> {
    pub(crate) fn new(algorithm: A) -> Self {
        Self {
            algorithm,
            queue: Queue::new(queue::Settings::default()),
            in_flight: HashMap::new(),
        }
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < self.algorithm.limit() as usize
    }
}

impl<A: Algorithm> Gate for Other<A> {
    fn acquire(&mut self, now: Instant, priority: Priority, id: usize) -> Answer {
        if self.has_room() && self.queue.is_empty() {
            self.in_flight.insert(id, now);
            return Answer::Admitted;
        }
        let capacity = self.algorithm.limit().div_ceil(2) as usize;
        match self.queue.push(now, priority, capacity, || id) {
            Some(Queued { displaced, .. }) => Answer::Queued(displaced),
            None => Answer::Refused,
        }
    }

    fn release(&mut self, now: Instant, id: usize) {
        let in_flight = self.in_flight.len();
        let admitted_at = self.in_flight.remove(&id).expect("it was admitted");
        self.algorithm.on_answer(now, now - admitted_at, in_flight);
    }

    fn decide(&mut self, now: Instant) -> Option<(usize, bool)> {
        if let Some(id) = self.queue.pop_expired(now) {
            return Some((id, false));
        }
        if !self.has_room() {
            return None;
        }
        let id = self.queue.pop(now)?;
        self.in_flight.insert(id, now);
        Some((id, true))
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        self.queue.next_deadline()
    }

    fn limit(&self) -> u32 {
        self.algorithm.limit()
    }
}
