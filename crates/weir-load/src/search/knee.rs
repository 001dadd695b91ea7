//! What the trials of a search add up to: a rate, the band in which it is uncertain, and whether it is the server's
//! limit.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::trial::Trial;
use crate::promise::Promise;

/// A rate and the results of its trials.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Requests per second.
    pub rate: f64,
    /// Trials that kept all promises.
    pub passed: u32,
    /// Trials that broke one.
    pub broken: u32,
    /// Trials that say nothing about the server, because the generator was the limit.
    pub said_nothing: u32,
    /// Which promises were broken and how, or why a trial says nothing.
    pub reasons: Vec<String>,
}

impl Step {
    /// All trials.
    pub fn trials(&self) -> u32 {
        self.passed + self.broken + self.said_nothing
    }

    /// `2 of 3 trials kept the promises, 1 says nothing`: the first two of those that say something.
    fn counts(&self) -> String {
        let (passed, told) = (self.passed, self.passed + self.broken);
        match self.said_nothing {
            0 => format!("{passed} of {told} trials kept the promises"),
            1 => format!("{passed} of {told} trials kept the promises, 1 says nothing"),
            more => format!("{passed} of {told} trials kept the promises, {more} say nothing"),
        }
    }

    pub(super) fn add(&mut self, trial: Trial) {
        match trial {
            Trial::Kept => self.passed += 1,
            Trial::Broken(how) => {
                self.broken += 1;
                self.reasons.push(how);
            }
            Trial::SaysNothing(why) => {
                self.said_nothing += 1;
                self.reasons.push(why);
            }
        }
    }

    /// Whether most trials kept the promises, of those that say something and of all that were needed to know.
    pub(super) fn holds(&self) -> bool {
        self.passed > self.broken && self.passed > self.said_nothing
    }

    /// Whether the rate fails because of the server.
    fn is_broken(&self) -> bool {
        !self.holds() && self.broken > self.said_nothing
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}/s: {}", self.rate, self.counts())?;
        if let Some(reason) = self.reasons.first() {
            write!(f, "; {reason}")?;
        }
        Ok(())
    }
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Knee {
    /// What was to be kept.
    pub promises: Vec<Promise>,
    /// The highest rate that most of its trials passed, below all rates that broke a promise; 0 when there is none.
    pub rate: f64,
    /// Every trial passed up to this rate.
    pub low: f64,
    /// Every trial broke a promise from this rate on; none when no such rate was tried.
    pub high: Option<f64>,
    /// All rates tried, in order.
    pub steps: Vec<Step>,
    /// Why the search ended before it was precise.
    pub cut_short: Option<String>,
    /// Why the rate is only a lower bound of the server's highest rate; none when it is the highest.
    pub why_invalid: Option<String>,
}

impl Knee {
    pub(super) fn of(promises: Vec<Promise>, steps: Vec<Step>, cut_short: Option<String>) -> Self {
        let rates = |is_one: &dyn Fn(&Step) -> bool| {
            let ones = steps.iter().filter(|step| is_one(step));
            ones.map(|step| step.rate).collect::<Vec<f64>>()
        };
        let highest = |rates: Vec<f64>| rates.into_iter().fold(0.0, f64::max);
        let lowest = |rates: Vec<f64>| rates.into_iter().reduce(f64::min);
        let lowest_broken = lowest(rates(&Step::is_broken)).unwrap_or(f64::INFINITY);
        let is_sustained = |step: &Step| step.holds() && step.rate < lowest_broken;
        let rate = highest(rates(&is_sustained));
        let first_doubt = lowest(rates(&|step| step.passed < step.trials()));
        let last_hope = highest(rates(&|step| step.passed > 0));
        let is_sure = |step: &Step| first_doubt.is_none_or(|doubt| step.rate < doubt);
        let is_hopeless = |step: &Step| step.broken == step.trials() && step.rate > last_hope;
        Self {
            promises,
            rate,
            low: highest(rates(&is_sure)),
            high: lowest(rates(&is_hopeless)),
            why_invalid: why_invalid(&steps, rate, cut_short.as_deref()),
            steps,
            cut_short,
        }
    }

    /// Whether any rate kept the promises.
    pub fn is_any_kept(&self) -> bool {
        self.rate > 0.0
    }

    /// The result as lines of text: one figure, and the trials beside it that make it so.
    pub fn to_text(&self) -> String {
        let promises: Vec<String> = self.promises.iter().map(Promise::to_string).collect();
        let promises = promises.join(", ");
        let mut text = match (self.found(), &self.why_invalid) {
            (Some(step), None) => {
                format!("highest rate that kept {promises}: {step}\n")
            }
            (Some(step), Some(why)) => {
                format!("highest rate that kept {promises}: at least {step}\n{why}\n")
            }
            (None, None) => format!("no rate kept {promises}\n"),
            (None, Some(why)) => format!("nothing is known of {promises}: {why}\n"),
        };
        if let Some(step) = next(&self.steps, self.rate) {
            let which = if self.is_any_kept() { "next" } else { "lowest" };
            let _ = writeln!(text, "the {which} one tried: {step}");
        }
        if let Some(reason) = &self.cut_short {
            text.push_str("the search ");
            text.push_str(reason);
            text.push_str("; the figure is less certain than it could be\n");
        }
        text
    }

    /// The result in one line.
    pub fn line(&self) -> String {
        let text = self.to_text();
        let lines: Vec<&str> = text.lines().collect();
        format!("{}\n", lines.join("; "))
    }

    /// The rate that was found, with its trials.
    fn found(&self) -> Option<&Step> {
        let not_higher = self.steps.iter().filter(|step| step.rate <= self.rate);
        not_higher.max_by(|one, other| one.rate.total_cmp(&other.rate))
    }

    /// The result as one object.
    pub fn to_json(&self) -> Value {
        json!({
            "rate": self.rate,
            "low": self.low,
            "high": self.high,
            "valid": self.why_invalid.is_none(),
            "why_invalid": self.why_invalid.iter().collect::<Vec<_>>(),
            "cut_short": self.cut_short,
            "slo": self.promises.iter().map(Promise::to_string).collect::<Vec<_>>(),
            "steps": self.steps.iter().map(|step| json!({
                "rate": step.rate,
                "passed": step.passed,
                "broken": step.broken,
                "said_nothing": step.said_nothing,
                "trials": step.trials(),
                "reasons": step.reasons,
            })).collect::<Vec<_>>(),
        })
    }
}

/// The lowest rate tried above `rate`.
fn next(steps: &[Step], rate: f64) -> Option<&Step> {
    let higher = steps.iter().filter(|step| step.rate > rate);
    higher.min_by(|one, other| one.rate.total_cmp(&other.rate))
}

/// The next higher rate decides: either the server could not keep its promises there, or the trials there say
/// nothing.
fn why_invalid(steps: &[Step], rate: f64, cut_short: Option<&str>) -> Option<String> {
    match next(steps, rate) {
        Some(step) if step.is_broken() => None,
        Some(step) => {
            let why = step.reasons.last().map_or("", String::as_str);
            Some(format!("the generator could not send more. {why}"))
        }
        None => {
            let why = cut_short.unwrap_or("ended");
            Some(format!("the search {why} before a promise was broken"))
        }
    }
}

#[cfg(test)]
mod tests;
