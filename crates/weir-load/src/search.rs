//! The highest rate at which a server keeps its promises: doubled until one is broken, then halved in between.
//!
//! Each rate is judged by several trials, because near the knee the same rate passes and fails; the band between the
//! highest rate that always passed and the lowest that always failed is the uncertainty, and is reported.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::arrivals::Arrivals;
use crate::plan::{End, Plan};
use crate::report::{Report, show};
use crate::run::{RunError, run};

/// What a server promises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// This part of the requests has a good answer within this time.
    Latency {
        /// From 0 to 1.
        quantile: f64,
        /// At most.
        within: Duration,
    },
    /// At most this part of the requests, from 0 to 1, has no good answer.
    Errors(f64),
}

impl Promise {
    /// How it was broken, if it was.
    fn broken_by(&self, report: &Report) -> Option<String> {
        match *self {
            Self::Latency { quantile, within } => {
                let name = format!("p{}", (quantile * 1e5).round() / 1e3);
                match latency_of_all(report, quantile) {
                    None => Some(format!("{name}: no good answer")),
                    Some(found) => (u128::from(found) > within.as_nanos())
                        .then(|| format!("{name} {}", show(found))),
                }
            }
            Self::Errors(most) => {
                let all = report.requests();
                let part = (all - report.outcomes.good()) as f64 / all.max(1) as f64;
                (all == 0 || part > most).then(|| format!("errors {:.2} %", part * 100.0))
            }
        }
    }
}

/// Nanoseconds within which this part of all requests had a good answer; `None`: fewer of them ever had one. Quantiles of
/// the good answers alone would make a server look the faster the more requests it fails.
fn latency_of_all(report: &Report, quantile: f64) -> Option<u64> {
    let good = report.outcomes.good_latency_ns();
    let rank = (quantile * report.requests() as f64).ceil().max(1.0);
    // Half a rank less, lest a rounding error asks for the next one.
    (rank <= good.len() as f64).then(|| good.value_at_quantile((rank - 0.5) / good.len() as f64))
}

/// How the search is done.
#[derive(Debug, Clone)]
pub struct Search {
    /// All must hold.
    pub promises: Vec<Promise>,
    /// How long a trial lasts.
    pub trial: Duration,
    /// Trials of each rate.
    pub repeats: u32,
    /// The first rate tried, per second.
    pub first_rate: f64,
    /// The search ends when the bounds are this near, as a part of the upper one.
    pub precision: f64,
    /// No trial begins after this time.
    pub lasts_max: Duration,
}

impl Search {
    /// Long enough for a tail to show at a few thousand requests a second.
    pub const TRIAL_DEFAULT: Duration = Duration::from_secs(3);
}

impl Default for Search {
    fn default() -> Self {
        Self {
            promises: Vec::new(),
            trial: Self::TRIAL_DEFAULT,
            repeats: 3,
            first_rate: 100.0,
            precision: 0.05,
            lasts_max: Duration::from_secs(600),
        }
    }
}

/// A rate and how its trials went.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Requests per second.
    pub rate: f64,
    /// Trials that kept all promises.
    pub passed: u32,
    /// All trials.
    pub trials: u32,
    /// How promises were broken, or why a trial says nothing about the server.
    pub reasons: Vec<String>,
}

impl Step {
    fn holds(&self) -> bool {
        self.passed * 2 > self.trials
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rate,
            passed,
            trials,
            reasons,
        } = self;
        write!(
            f,
            "{rate:.0}/s: {passed} of {trials} trials kept the promises"
        )?;
        if let Some(reason) = reasons.first() {
            write!(f, "; {reason}")?;
        }
        Ok(())
    }
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Knee {
    /// The highest rate that most trials passed; 0 when none did.
    pub rate: f64,
    /// Up to here every trial passed.
    pub low: f64,
    /// From here on every trial failed; none when the search ended before.
    pub high: Option<f64>,
    /// All rates tried, in order.
    pub steps: Vec<Step>,
    /// Why the search ended before it was precise.
    pub cut_short: Option<String>,
}

/// Searches on `plan`, whose arrivals and end are replaced; `on_step` is told each rate that was judged.
///
/// # Errors
/// Those of [`run`].
pub fn find_max(
    plan: &Plan,
    search: &Search,
    stop: &AtomicBool,
    mut on_step: impl FnMut(&Step),
) -> Result<Knee, RunError> {
    let started = Instant::now();
    let mut steps: Vec<Step> = Vec::new();
    let (mut low, mut high) = (0.0_f64, None::<f64>);
    let mut rate = search.first_rate;
    let cut_short = loop {
        if stop.load(Ordering::Relaxed) {
            break Some("ended early, as told".to_owned());
        }
        if started.elapsed() >= search.lasts_max {
            break Some(format!("ended after {} s", search.lasts_max.as_secs()));
        }
        let step = judge(plan, search, rate, stop)?;
        on_step(&step);
        if step.holds() {
            low = low.max(rate);
        } else {
            high = Some(high.map_or(rate, |high: f64| high.min(rate)));
        }
        steps.push(step);
        rate = match high {
            None => rate * 2.0,
            Some(high) if high - low <= (search.precision * high).max(1.0) => break None,
            Some(high) if low == 0.0 => high / 4.0,
            Some(high) => f64::midpoint(low, high),
        };
        if rate < 1.0 {
            break Some("not even one request a second kept the promises".to_owned());
        }
    };
    Ok(Knee::of(steps, cut_short))
}

fn judge(plan: &Plan, search: &Search, rate: f64, stop: &AtomicBool) -> Result<Step, RunError> {
    let mut step = Step {
        rate,
        passed: 0,
        trials: 0,
        reasons: Vec::new(),
    };
    while step.trials < search.repeats && !stop.load(Ordering::Relaxed) {
        let plan = Plan {
            arrivals: Arrivals::Constant(rate),
            end: End::After(search.trial),
            seed: plan.seed.wrapping_add(u64::from(step.trials)),
            ..plan.clone()
        };
        let report = run(plan, stop, |_| {})?;
        let broken = search
            .promises
            .iter()
            .filter_map(|promise| promise.broken_by(&report));
        let reasons: Vec<_> = broken.chain(report.why_invalid.iter().cloned()).collect();
        step.trials += 1;
        step.passed += u32::from(reasons.is_empty());
        step.reasons.extend(reasons);
        // A verdict that cannot change needs no further trials.
        let left = search.repeats - step.trials;
        if step.passed == 0 && left * 2 < search.repeats {
            break;
        }
    }
    Ok(step)
}

impl Knee {
    fn of(steps: Vec<Step>, cut_short: Option<String>) -> Self {
        let held = steps.iter().filter(|step| step.holds());
        let rate = held.map(|step| step.rate).fold(0.0, f64::max);
        let doubtful = |step: &&Step| step.passed < step.trials;
        let first_doubt = steps
            .iter()
            .filter(doubtful)
            .map(|step| step.rate)
            .fold(f64::INFINITY, f64::min);
        let sure = steps
            .iter()
            .filter(|step| step.passed == step.trials && step.rate < first_doubt);
        let hopeful = steps.iter().filter(|step| step.passed > 0);
        let last_hope = hopeful.map(|step| step.rate).fold(0.0, f64::max);
        let hopeless = steps
            .iter()
            .filter(|step| step.passed == 0 && step.rate > last_hope);
        Self {
            rate,
            low: sure.map(|step| step.rate).fold(0.0, f64::max),
            high: hopeless.map(|step| step.rate).reduce(f64::min),
            steps,
            cut_short,
        }
    }

    /// The result as lines of text.
    pub fn to_text(&self) -> String {
        let high = self
            .high
            .map_or("no rate tried".to_owned(), |high| format!("{high:.0}/s"));
        let mut text = format!(
            "highest rate: {:.0}/s; every trial passed up to {:.0}/s, and none from {high} on\n",
            self.rate, self.low
        );
        if let Some(reason) = &self.cut_short {
            text.push_str("the search ");
            text.push_str(reason);
            text.push_str(
                "; the figures are less certain than they could be
",
            );
        }
        text
    }

    /// The result as one object.
    pub fn to_json(&self) -> Value {
        json!({
            "rate": self.rate,
            "low": self.low,
            "high": self.high,
            "cut_short": self.cut_short,
            "steps": self.steps.iter().map(|step| json!({
                "rate": step.rate,
                "passed": step.passed,
                "trials": step.trials,
                "reasons": step.reasons,
            })).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests;
