//! The base latency: how long a service takes when nothing queues in it.
//!
//! It is learned from cohorts: a number of requests admitted one after the other, all of them answered. Single answers
//! would not do: if nine in ten take 20 ms and one takes 2 s, the first answers are the short ones.
//!
//! If requests queue, more of them take longer. So a base that rises with their number is not learned here, unless most
//! take as long as before: then a few take longer, and do not wait for the others. A trial finds out whether the base
//! has risen all the same (`trial`).

use super::window::seconds;
use std::time::Instant;

/// Requests in the largest cohort.
const COHORT: usize = 32;
/// Requests in the first cohort; each next one is twice as large.
const COHORT_FIRST: usize = 8;

/// One in this many of a cohort, and at least one, need not be answered ...
const MISSING_OF: usize = 16;
/// ... if the cohort's last admission was this many times its mean latency ago.
const MISSING_AFTER: f64 = 40.0;

/// The weight of a cohort beside what is known, once ten are known.
const WEIGHT_MIN: f64 = 0.1;

/// One cohort raises the base at most to this many times its value.
const RISE_MAX: f64 = 4.0;

/// A cohort may have queued if this many times as many were in flight ...
const MORE: f64 = 1.15;
/// ... and half of it took this many times as long.
const SLOWER: f64 = 1.2;

/// The quickest requests: one of this many.
const TENTH: usize = 10;

#[derive(Debug)]
pub(super) struct Base {
    known: Option<Known>,
    cohorts: u32,
    cohort: Cohort,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// Seconds: the mean, and what the quickest tenth and half do not exceed.
    mean: f64,
    tenth: f64,
    median: f64,
    /// How many requests were in flight at the same time.
    beside: f64,
}

/// The cohort of a request, if it belongs to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::limit::concurrency) struct Tag(u32);

#[derive(Debug)]
struct Cohort {
    tag: u32,
    size: usize,
    /// When the last of its requests was admitted.
    last: Option<Instant>,
    admitted: usize,
    /// The most in flight at the admission of one of them.
    beside: u32,
    answered: usize,
    latencies: [f64; COHORT],
}

impl Base {
    pub(super) fn new() -> Self {
        Self {
            known: None,
            cohorts: 0,
            cohort: Cohort::new(1, COHORT_FIRST),
        }
    }

    /// The mean, in seconds.
    pub(super) fn latency(&self) -> Option<f64> {
        self.known.map(|known| known.mean)
    }

    /// Seconds that the quickest tenth of the answers do not exceed.
    pub(super) fn tenth(&self) -> f64 {
        self.known.map_or(0.0, |known| known.tenth)
    }

    /// Seconds that half of the answers do not exceed.
    pub(super) fn median(&self) -> f64 {
        self.known.map_or(0.0, |known| known.median)
    }

    /// Replaces the base, which was found to be different.
    pub(super) fn set(&mut self, latency: f64) {
        if let Some(known) = &mut self.known {
            known.tenth *= latency / known.mean.max(1e-9);
            known.median *= latency / known.mean.max(1e-9);
            known.mean = latency;
        }
    }

    /// Raises the base to at least this.
    pub(super) fn raise(&mut self, latency: f64) {
        self.set(latency.max(self.latency().unwrap_or_default()));
    }

    /// A request is admitted; `in_flight` are now in flight.
    pub(super) fn admitted(&mut self, now: Instant, in_flight: u32) -> Tag {
        let cohort = &mut self.cohort;
        if cohort.admitted == cohort.size {
            return Tag(0);
        }
        cohort.last = Some(now);
        cohort.admitted += 1;
        cohort.beside = cohort.beside.max(in_flight);
        Tag(cohort.tag)
    }

    pub(super) fn answered(&mut self, tag: Tag, latency: f64) {
        let cohort = &mut self.cohort;
        if tag.0 == cohort.tag && cohort.answered < cohort.size {
            cohort.latencies[cohort.answered] = latency;
            cohort.answered += 1;
        }
    }

    /// A request ended without saying how long an answer takes. Another request takes its place in the cohort.
    pub(super) fn lost(&mut self, tag: Tag) {
        if tag.0 == self.cohort.tag {
            self.cohort.admitted -= 1;
        }
    }

    /// Drops the current cohort, because it belongs to a time that is over.
    pub(super) fn begin_again(&mut self) {
        self.cohort = Cohort::new(self.cohort.tag.wrapping_add(1).max(1), COHORT);
    }

    /// Learns from a complete cohort, or drops it if the service `is_busy`.
    pub(super) fn turn(&mut self, now: Instant, is_busy: bool) {
        let Some((mean, tenth, median)) = self.cohort.finish(now) else {
            return;
        };
        let beside = f64::from(self.cohort.beside);
        let tag = self.cohort.tag.wrapping_add(1).max(1);
        self.cohort = Cohort::new(tag, COHORT.min(2 * self.cohort.size));
        if is_busy {
            return;
        }
        self.cohorts = self.cohorts.saturating_add(1);
        let weight = (1.0 / f64::from(self.cohorts)).max(WEIGHT_MIN);
        let Some(known) = &mut self.known else {
            self.known = Some(Known {
                mean,
                tenth,
                median,
                beside,
            });
            return;
        };
        let may_have_queued = beside > MORE * known.beside && median > SLOWER * known.median;
        let towards =
            |from: f64, to: f64| from + (to.min(RISE_MAX * from.max(1e-4)) - from) * weight;
        if !(may_have_queued && tenth > known.tenth) {
            known.tenth = towards(known.tenth, tenth);
            known.median = towards(known.median, median);
        }
        if !(may_have_queued && mean > known.mean) {
            known.mean = towards(known.mean, mean);
            known.beside += (beside - known.beside) * weight;
        }
    }
}

impl Cohort {
    fn new(tag: u32, size: usize) -> Self {
        Self {
            tag,
            size,
            last: None,
            admitted: 0,
            beside: 0,
            answered: 0,
            latencies: [0.0; COHORT],
        }
    }

    /// The mean, the tenth and the median, if the cohort is complete. Each missing request has taken at least the time
    /// since the last admission. Early answers may have come long before that.
    fn finish(&mut self, now: Instant) -> Option<(f64, f64, f64)> {
        if self.admitted < self.size || self.answered < self.size - (self.size / MISSING_OF).max(1)
        {
            return None;
        }
        let age = seconds(self.last?, now);
        let answered = &mut self.latencies[..self.answered];
        let sum: f64 = answered.iter().sum();
        let missing = (self.size - answered.len()) as f64;
        if missing > 0.0 && age < MISSING_AFTER * sum / answered.len() as f64 {
            return None;
        }
        answered.sort_by(f64::total_cmp);
        Some((
            (sum + missing * age) / self.size as f64,
            answered[self.size / TENTH],
            answered[answered.len() / 2],
        ))
    }
}
