//! When requests are meant to be sent. Pure: offsets from the start of the run go out, no clock is read.
//!
//! In a closed loop a connection sends when its last response has come, so a server that pauses is asked less, and
//! nobody notices (coordinated omission). In an open loop the schedule stands before the run: a request that is sent
//! late, because every connection waits, is measured from the moment it was meant to be sent.
//!
//! Every instant is computed from the request's number and never from the instant before it, so nothing drifts; only
//! Poisson gaps have to be added up. Threads take every n-th arrival of one and the same schedule.

use std::fmt;
use std::time::Duration;

use crate::plan::{End, Plan};

/// Beyond any machine, and small enough for exact sums.
const RATE_MAX: f64 = 1e9;
/// One request on the longest day.
const RATE_MIN: f64 = 1.0 / 86_400.0;
/// A run by number that is meant to last longer waits for nothing but its end.
const LASTS_MAX: Duration = Duration::from_secs(86_400);
/// Poisson arrivals that are drawn one by one only to be counted; more are counted by their mean.
const DRAWN_MAX: u64 = 1 << 20;

/// How requests arrive at the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Each connection sends as soon as it may.
    Closed,
    /// Evenly, requests per second.
    Constant(f64),
    /// As from many who do not know of each other: exponential gaps with this mean rate, per second.
    Poisson(f64),
    /// From one rate to another, linearly over the run.
    Ramp {
        /// At the start, per second.
        from: f64,
        /// At the end, per second.
        to: f64,
        /// How long it takes; constant at `to` from then on.
        over: Duration,
    },
    /// One constant rate after another; the last one stays.
    Steps(Vec<Step>),
}

/// A constant rate for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Requests per second.
    pub rate: f64,
    /// How long.
    pub lasts: Duration,
}

impl Arrivals {
    /// Whether the server's answers decide when the next request is sent.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Seconds from the start at which arrival `number`, counted from 0, is due. `None` when it never is, as after a
    /// ramp to zero, and for arrivals that no number leads to: closed loops and Poisson.
    pub fn due(&self, number: u64) -> Option<f64> {
        let number = number as f64;
        match self {
            Self::Closed | Self::Poisson(_) => None,
            Self::Constant(rate) => (*rate > 0.0).then(|| number / rate),
            Self::Ramp { from, to, over } => due_on_ramp(number, *from, *to, over.as_secs_f64()),
            Self::Steps(steps) => due_in_steps(number, steps),
        }
    }

    /// Nanoseconds that a run of so many requests is meant to last: until one more would be due, on average.
    pub(crate) fn lasts_ns(&self, requests: u64) -> u64 {
        let last = requests.saturating_sub(1);
        let seconds = match self {
            Self::Closed => None,
            Self::Poisson(rate) => Some(requests as f64 / rate),
            _ => self.due(requests).or_else(|| self.due(last)),
        };
        // As far as numbers go when none is ever due.
        seconds.map_or(u64::MAX, |seconds| (seconds * 1e9) as u64)
    }

    /// What is wrong with the rates, or with a run of them until `end`, in a sentence.
    pub(crate) fn check(&self, end: End) -> Result<(), String> {
        let rates: Vec<f64> = match self {
            Self::Closed => return Ok(()),
            Self::Constant(rate) | Self::Poisson(rate) => vec![*rate],
            Self::Ramp { from, to, .. } => vec![*from, *to],
            Self::Steps(steps) => steps.iter().map(|step| step.rate).collect(),
        };
        if let Some(rate) = rates.iter().find(|rate| !(0.0..=RATE_MAX).contains(*rate)) {
            return Err(format!("a rate of {rate}/s is beyond 0 to {RATE_MAX}/s"));
        }
        if rates.iter().all(|rate| *rate == 0.0) {
            return Err("expected a rate above zero".to_owned());
        }
        if let Some(rate) = rates.iter().find(|rate| 0.0 < **rate && **rate < RATE_MIN) {
            return Err(format!("a rate of {rate}/s is less than one request a day"));
        }
        match end {
            End::Requests(all) if u128::from(self.lasts_ns(all)) > LASTS_MAX.as_nanos() => {
                Err(format!(
                    "{all} requests at {self} take more than a day; expected fewer, or a higher rate"
                ))
            }
            _ => Ok(()),
        }
    }

    /// What is sent during the warm-up: the load as the run begins with it.
    fn at_start(&self) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::Constant(rate) => Self::Constant(*rate),
            Self::Poisson(rate) => Self::Poisson(*rate),
            Self::Ramp { from, .. } => Self::Constant(*from),
            Self::Steps(steps) => Self::Constant(steps.first().map_or(0.0, |step| step.rate)),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("as soon as answers come"),
            Self::Constant(rate) => write!(f, "{rate}/s"),
            Self::Poisson(rate) => write!(f, "{rate}/s, Poisson"),
            Self::Ramp { from, to, .. } => write!(f, "{from}..{to}/s"),
            Self::Steps(steps) => {
                for (index, step) in steps.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    let lasts = step.lasts.as_secs_f64();
                    write!(f, "{separator}{}/s for {lasts} s", step.rate)?;
                }
                Ok(())
            }
        }
    }
}

/// The rate grows linearly, so the number of arrivals is a square of time, which is solved for time. The form of the
/// solution that divides by the root stays exact when the slope is nearly nothing.
fn due_on_ramp(number: f64, from: f64, to: f64, over: f64) -> Option<f64> {
    let within = f64::midpoint(from, to) * over;
    if number >= within {
        return (to > 0.0).then(|| over + (number - within) / to);
    }
    if number == 0.0 {
        return Some(0.0);
    }
    let slope = (to - from) / over;
    let root = (from * from + 2.0 * slope * number).max(0.0).sqrt();
    Some(2.0 * number / (from + root))
}

fn due_in_steps(number: f64, steps: &[Step]) -> Option<f64> {
    let (mut before, mut begins) = (0.0, 0.0);
    for (index, step) in steps.iter().enumerate() {
        let lasts = step.lasts.as_secs_f64();
        let is_last = index + 1 == steps.len();
        if step.rate > 0.0 && (is_last || number < before + step.rate * lasts) {
            return Some(begins + (number - before) / step.rate);
        }
        before += step.rate * lasts;
        begins += lasts;
    }
    None
}

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
    /// The next arrival of any thread.
    number: u64,
    share: Share,
}

/// Which of the arrivals a thread takes: every `of`-th, beginning with `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Counted from 0.
    pub index: u64,
    /// All threads.
    pub of: u64,
}

/// The warm-up or the run.
#[derive(Debug, Clone)]
struct Phase {
    arrivals: Arrivals,
    /// Exponential gaps, added up to `elapsed`.
    gaps: fastrand::Rng,
    elapsed: f64,
    begins: Duration,
    end: End,
    /// Arrivals gone by.
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
    /// How many of the arrivals that are left are due `until_ns` after the start and belong to the run and not to its
    /// warm-up. It does not go through them: there may be billions.
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
    /// When the next arrival is due; 0 for one that is not `wanted`. `None` is the end.
    fn next(&mut self, is_wanted: bool) -> Option<u64> {
        let due = match (self.arrivals.poisson_rate(), self.end) {
            (Some(rate), _) => {
                self.elapsed += self.gap(rate);
                Some(self.elapsed)
            }
            // Only the end of a run by number needs no instant to be seen.
            (None, End::Requests(_)) if !is_wanted => Some(0.0),
            (None, _) => self.arrivals.due(self.count),
        };
        let due = due.filter(|due| self.is_before_end(self.count, *due));
        self.count += 1;
        self.is_over = due.is_none();
        due.map(|due| self.at_ns(due))
    }

    /// Whether arrival `number`, due then, belongs to the phase.
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

    /// How many arrivals are left, of all threads, that are due by `until_ns` after the start of the run.
    fn left(&self, until_ns: u64) -> u64 {
        if self.is_over {
            return 0;
        }
        let is_left = |number, due| self.is_before_end(number, due) && self.at_ns(due) <= until_ns;
        if let Some(rate) = self.arrivals.poisson_rate() {
            return self.left_of_poisson(rate, until_ns, is_left);
        }
        // Due instants grow with the number, so the last one is found by halving.
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
        // 1 - [0, 1) is never 0, whose logarithm is no gap.
        -(1.0 - self.gaps.f64()).ln() / rate
    }
}

impl Arrivals {
    /// The mean rate of Poisson arrivals.
    fn poisson_rate(&self) -> Option<f64> {
        match self {
            Self::Poisson(rate) => Some(*rate),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
