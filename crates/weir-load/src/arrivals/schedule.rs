//! One thread's part of the arrivals of an open loop, warm-up included. All threads have the same schedule, and each
//! takes every n-th arrival. Pure, as all of `arrivals`.

use std::time::Duration;

use super::Arrivals;
use crate::plan::{End, Plan};

/// Up to so many Poisson arrivals are drawn one by one to be counted; more are estimated by their mean.
const DRAWN_MAX: u64 = 1 << 20;

/// A request that is meant to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the run, warm-up included, over all threads.
    pub number: u64,
    /// Nanoseconds after the start, warm-up included.
    pub at_ns: u64,
    /// Whether it belongs to the run and not to its warm-up.
    pub is_counted: bool,
}

/// One thread's part of the arrivals of an open loop, in order.
#[derive(Debug, Clone)]
pub struct Schedule {
    phases: [Phase; 2],
    /// The number of the next arrival, over all threads.
    number: u64,
    share: Share,
}

/// Which arrivals a thread takes: every `of`-th, beginning with `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Counted from 0.
    pub index: u64,
    /// The number of threads.
    pub of: u64,
}

/// The warm-up or the run.
#[derive(Debug, Clone)]
struct Phase {
    arrivals: Arrivals,
    /// Draws the exponential gaps, whose sum is `elapsed`.
    gaps: fastrand::Rng,
    elapsed: f64,
    begins: Duration,
    end: End,
    /// Arrivals that have passed.
    count: u64,
    is_over: bool,
}

impl Schedule {
    /// The part `share` of an open loop's arrivals.
    pub fn new(plan: &Plan, share: Share) -> Self {
        let phase = |arrivals, begins, end, salt| Phase {
            arrivals,
            gaps: fastrand::Rng::with_seed(plan.seed ^ salt),
            elapsed: 0.0,
            begins,
            end,
            count: 0,
            is_over: plan.arrivals.is_closed(),
        };
        let warm_up = phase(
            plan.arrivals.at_start(),
            Duration::ZERO,
            End::After(plan.warm_up),
            0x77_61_72_6d,
        );
        let run = phase(plan.arrivals.clone(), plan.warm_up, plan.end, 0);
        Self {
            phases: [warm_up, run],
            number: 0,
            share,
        }
    }
}

impl Schedule {
    /// How many of the arrivals that are left belong to the run, not to its warm-up, and are due by `until_ns` after
    /// the start. It does not visit each of them: there may be billions.
    pub(crate) fn counted_left(&self, until_ns: u64) -> u64 {
        let [warm_up, run] = &self.phases;
        let first = self.number + warm_up.left(u64::MAX);
        let end = first + run.left(until_ns);
        let mine_before = |number: u64| {
            let Share { index, of } = self.share;
            number / of + u64::from(index < number % of)
        };
        mine_before(end) - mine_before(first)
    }
}

impl Iterator for Schedule {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        loop {
            let phase = self.phases.iter().position(|phase| !phase.is_over)?;
            let is_mine = self.number % self.share.of == self.share.index;
            if let Some(at_ns) = self.phases[phase].next(is_mine) {
                let number = self.number;
                self.number += 1;
                if is_mine {
                    return Some(Arrival {
                        number,
                        at_ns,
                        is_counted: phase == 1,
                    });
                }
            }
        }
    }
}

impl Phase {
    /// When the next arrival is due; 0 when it is not `wanted`. `None` is the end.
    fn next(&mut self, is_wanted: bool) -> Option<u64> {
        let due = match (self.arrivals.poisson_rate(), self.end) {
            (Some(rate), _) => {
                self.elapsed += self.gap(rate);
                Some(self.elapsed)
            }
            // A run by number sees its end without an instant.
            (None, End::Requests(_)) if !is_wanted => Some(0.0),
            (None, _) => self.arrivals.due(self.count),
        };
        let due = due.filter(|due| self.is_before_end(self.count, *due));
        self.count += 1;
        self.is_over = due.is_none();
        due.map(|due| self.at_ns(due))
    }

    /// Whether arrival `number`, due at `due`, belongs to the phase.
    fn is_before_end(&self, number: u64, due: f64) -> bool {
        match self.end {
            End::After(lasts) => due < lasts.as_secs_f64(),
            End::Requests(requests) => number < requests,
        }
    }

    /// Nanoseconds after the start of the run.
    fn at_ns(&self, due: f64) -> u64 {
        (self.begins.as_secs_f64().mul_add(1e9, due * 1e9)).round() as u64
    }

    /// How many arrivals of all threads are left that are due by `until_ns` after the start of the run.
    fn left(&self, until_ns: u64) -> u64 {
        if self.is_over {
            return 0;
        }
        let is_left = |number, due| self.is_before_end(number, due) && self.at_ns(due) <= until_ns;
        if let Some(rate) = self.arrivals.poisson_rate() {
            return self.left_of_poisson(rate, until_ns, is_left);
        }
        // Due instants grow with the number, so bisection finds the last one.
        let (mut left, mut beyond) = (0, u64::MAX - self.count);
        while left < beyond {
            let middle = left + (beyond - left) / 2;
            let number = self.count + middle;
            let due = self.arrivals.due(number);
            if due.is_some_and(|due| is_left(number, due)) {
                left = middle + 1;
            } else {
                beyond = middle;
            }
        }
        left
    }

    fn left_of_poisson(&self, rate: f64, until_ns: u64, is_left: impl Fn(u64, f64) -> bool) -> u64 {
        let mut drawn = self.clone();
        for left in 0..DRAWN_MAX {
            drawn.elapsed += drawn.gap(rate);
            if !is_left(self.count + left, drawn.elapsed) {
                return left;
            }
        }
        let until = until_ns as f64 / 1e9 - self.begins.as_secs_f64();
        let by_mean = |until: f64| DRAWN_MAX + ((until - drawn.elapsed) * rate) as u64;
        match self.end {
            End::After(lasts) => by_mean(until.min(lasts.as_secs_f64())),
            End::Requests(all) => by_mean(until).min(all - self.count),
        }
    }

    /// Seconds to the next Poisson arrival.
    fn gap(&mut self, rate: f64) -> f64 {
        // 1 - [0, 1) is never 0, which has no logarithm.
        -(1.0 - self.gaps.f64()).ln() / rate
    }
}
