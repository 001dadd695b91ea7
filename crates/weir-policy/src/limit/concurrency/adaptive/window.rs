//! What happened in front of a service during some time.

use std::time::Instant;

/// Counts from some instant on.
#[derive(Debug)]
pub(super) struct Window {
    since: Instant,
    last: Instant,
    in_flight: u32,
    least: u32,
    most: u32,
    /// Request-seconds in flight.
    area: f64,
    /// Seconds in which the limit was reached.
    full: f64,
    answers: u32,
    answers_full: u32,
    timed: u32,
    quick: u32,
    offers: u32,
    refusals: u32,
    offered: Instant,
    instants: u32,
    /// The longest time without a request, in seconds.
    gap: f64,
}

/// The result of a [`Window`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The length in seconds.
    pub(super) time: f64,
    pub(super) answers: u32,
    /// Answers a second.
    pub(super) rate: f64,
    /// The fewest requests in flight at any time.
    pub(super) least: f64,
    /// The most requests in flight at any time.
    pub(super) most: f64,
    /// Seconds that a request is in flight, by Little's law, which holds for any mixture of short and long ones.
    pub(super) sojourn: f64,
    /// The share of the time in which the limit was reached; the answers in that time, and answers a second.
    pub(super) full: f64,
    pub(super) answers_full: u32,
    pub(super) rate_full: f64,
    /// The share of quick answers, as without queueing, among those for which that is known; 1 without any.
    pub(super) quick: f64,
    pub(super) offers: u32,
    pub(super) refusals: u32,
    /// At how many instants a request came.
    pub(super) instants: u32,
    /// The longest time without a request, and the time since the last one, in seconds.
    pub(super) gap: f64,
    pub(super) quiet: f64,
}

impl Window {
    pub(super) fn new(now: Instant, in_flight: u32) -> Self {
        Self {
            since: now,
            last: now,
            in_flight,
            least: u32::MAX,
            most: in_flight,
            area: 0.0,
            full: 0.0,
            answers: 0,
            answers_full: 0,
            timed: 0,
            quick: 0,
            offers: 0,
            refusals: 0,
            offered: now,
            instants: 0,
            gap: 0.0,
        }
    }

    /// Begins to count at `now`.
    pub(super) fn begin(&mut self, now: Instant) {
        *self = Self {
            offered: self.offered,
            ..Self::new(now, self.in_flight)
        };
    }

    /// Time has passed with the same number in flight, under `limit`.
    pub(super) fn pass(&mut self, now: Instant, limit: u32) {
        let time = seconds(self.last, now);
        self.last = self.last.max(now);
        self.area += time * f64::from(self.in_flight);
        self.least = self.least.min(self.in_flight);
        if self.in_flight >= limit {
            self.full += time;
        }
    }

    /// The number in flight changes.
    pub(super) fn set_in_flight(&mut self, in_flight: u32) {
        self.in_flight = in_flight;
        self.most = self.most.max(in_flight);
    }

    /// Seconds since the last request came.
    pub(super) fn quiet_s(&self, now: Instant) -> f64 {
        seconds(self.offered, now)
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// A request is answered, under `limit`. Must be called before it is taken off those in flight. It may be unknown
    /// whether the answer was quick.
    pub(super) fn answered(&mut self, is_quick: Option<bool>, limit: u32) {
        self.answers += 1;
        self.timed += u32::from(is_quick.is_some());
        self.answers_full += u32::from(self.in_flight >= limit);
        self.quick += u32::from(is_quick == Some(true));
    }

    pub(super) fn offered(&mut self) {
        self.offers += 1;
        self.instants += u32::from(self.last > self.offered);
        self.gap = self.gap.max(seconds(self.offered, self.last));
        self.offered = self.last;
    }

    pub(super) fn refused(&mut self) {
        self.refusals += 1;
    }

    pub(super) fn see(&self) -> Seen {
        let time = seconds(self.since, self.last).max(1e-9);
        let answers = f64::from(self.answers);
        Seen {
            time,
            answers: self.answers,
            rate: answers / time,
            least: f64::from(self.least),
            most: f64::from(self.most),
            sojourn: self.area / answers.max(1.0),
            full: self.full / time,
            answers_full: self.answers_full,
            rate_full: f64::from(self.answers_full) / self.full.max(1e-9),
            quick: if self.timed > 0 {
                f64::from(self.quick) / f64::from(self.timed)
            } else {
                1.0
            },
            offers: self.offers,
            refusals: self.refusals,
            instants: self.instants,
            gap: self.gap.max(seconds(self.offered, self.last)),
            quiet: seconds(self.offered, self.last),
        }
    }
}

/// The seconds between two instants.
pub(super) fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}
