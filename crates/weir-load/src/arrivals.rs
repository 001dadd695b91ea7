//! When requests are meant to be sent. Pure: it gives offsets from the start of the run and reads no clock.
//!
//! In a closed loop a connection sends when its last response has come. A server that pauses is then asked less, and
//! nobody notices (coordinated omission). In an open loop the schedule is fixed before the run: a request that is
//! sent late, because every connection is busy, is measured from the moment it was meant to be sent.
//!
//! Every instant is computed from the request's number and never from the instant before it, so nothing drifts; only
//! Poisson gaps have to be added up. `schedule` gives each thread its part of the arrivals.

mod schedule;

use std::fmt;
use std::time::Duration;

use crate::plan::End;

pub use schedule::{Arrival, Schedule, Share};

/// More than any machine can send, and small enough for exact sums.
const RATE_MAX: f64 = 1e9;
/// One request a day.
const RATE_MIN: f64 = 1.0 / 86_400.0;
/// The longest that a run by number may be meant to last.
const LASTS_MAX: Duration = Duration::from_secs(86_400);

/// How requests arrive at the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Each connection sends as soon as it is free.
    Closed,
    /// At even distances, so many requests per second.
    Constant(f64),
    /// As from many clients that do not know of each other: exponential gaps with this mean rate, per second.
    Poisson(f64),
    /// So many requests at once, at the mean rate `rate`.
    Bursts {
        /// The mean, per second.
        rate: f64,
        /// Requests of one burst; 0 counts as 1.
        count: u32,
    },
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
    /// ramp to zero, and for closed loops and Poisson arrivals, which do not follow from a number.
    pub fn due(&self, number: u64) -> Option<f64> {
        let number = number as f64;
        match self {
            Self::Closed | Self::Poisson(_) => None,
            Self::Constant(rate) => (*rate > 0.0).then(|| number / rate),
            Self::Bursts { rate, count } => {
                let count = f64::from((*count).max(1));
                (*rate > 0.0).then(|| (number / count).floor() * count / rate)
            }
            Self::Ramp { from, to, over } => due_on_ramp(number, *from, *to, over.as_secs_f64()),
            Self::Steps(steps) => due_in_steps(number, steps),
        }
    }

    /// Nanoseconds that a run of so many requests is meant to last: until the request after the last one would be
    /// due, on average.
    pub(crate) fn lasts_ns(&self, requests: u64) -> u64 {
        let last = requests.saturating_sub(1);
        let seconds = match self {
            Self::Closed => None,
            Self::Poisson(rate) => Some(requests as f64 / rate),
            _ => self.due(requests).or_else(|| self.due(last)),
        };
        // When none is ever due, the largest number.
        seconds.map_or(u64::MAX, |seconds| (seconds * 1e9) as u64)
    }

    /// What is wrong with the rates, or with a run of them until `end`, in a sentence.
    pub(crate) fn check(&self, end: End) -> Result<(), String> {
        let rates: Vec<f64> = match self {
            Self::Closed => return Ok(()),
            Self::Constant(rate) | Self::Poisson(rate) | Self::Bursts { rate, .. } => vec![*rate],
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

    /// The mean rate of Poisson arrivals.
    fn poisson_rate(&self) -> Option<f64> {
        match self {
            Self::Poisson(rate) => Some(*rate),
            _ => None,
        }
    }

    /// What is sent during the warm-up: the load with which the run begins.
    fn at_start(&self) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::Constant(rate) => Self::Constant(*rate),
            Self::Poisson(_) | Self::Bursts { .. } => self.clone(),
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
            Self::Bursts { rate, count } => write!(f, "{rate}/s, {count} at once"),
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

/// The rate grows linearly, so the number of arrivals is a square of time, and this solves it for time. The form of
/// the solution that divides by the root stays exact when the slope is nearly zero.
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

#[cfg(test)]
mod tests;
