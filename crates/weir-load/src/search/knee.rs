//! What the trials of a search add up to: a rate, the band in which it is uncertain, and whether it is the server's
//! limit.

use std::fmt;

use serde_json::{Value, json};

use super::trial::Trial;

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

    /// Whether most trials kept the promises.
    pub(super) fn holds(&self) -> bool {
        self.passed * 2 > self.trials()
    }

    /// Whether the rate fails because of the server.
    fn is_broken(&self) -> bool {
        !self.holds() && self.broken > self.said_nothing
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, passed, trials) = (self.rate, self.passed, self.trials());
        write!(
            f,
            "{rate:.0}/s: {passed} of {trials} trials kept the promises"
        )?;
        if self.said_nothing > 0 {
            write!(f, ", {} say nothing", self.said_nothing)?;
        }
        if let Some(reason) = self.reasons.first() {
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
    pub(super) fn of(steps: Vec<Step>, cut_short: Option<String>) -> Self {
        let rates = |is_one: &dyn Fn(&Step) -> bool| {
            let ones = steps.iter().filter(|step| is_one(step));
            ones.map(|step| step.rate).collect::<Vec<f64>>()
        };
        let highest = |rates: Vec<f64>| rates.into_iter().fold(0.0, f64::max);
        let lowest = |rates: Vec<f64>| rates.into_iter().reduce(f64::min);
        let rate = highest(rates(&Step::holds));
        let first_doubt = lowest(rates(&|step| step.passed < step.trials()));
        let last_hope = highest(rates(&|step| step.passed > 0));
        let is_sure = |step: &Step| first_doubt.is_none_or(|doubt| step.rate < doubt);
        let is_hopeless = |step: &Step| step.broken == step.trials() && step.rate > last_hope;
        Self {
            rate,
            low: highest(rates(&is_sure)),
            high: lowest(rates(&is_hopeless)),
            why_invalid: why_invalid(&steps, rate, cut_short.as_deref()),
            steps,
            cut_short,
        }
    }

    /// The result as lines of text.
    pub fn to_text(&self) -> String {
        let high = self.high.map_or_else(
            || "no rate was tried that every trial broke".to_owned(),
            |high| format!("none from {high:.0}/s on"),
        );
        let rate = match &self.why_invalid {
            None => format!("{:.0}/s", self.rate),
            Some(why) => format!("at least {:.0}/s: {why}", self.rate),
        };
        let mut text = format!(
            "highest rate: {rate}\nevery trial passed up to {:.0}/s, and {high}\n",
            self.low
        );
        if let Some(reason) = &self.cut_short {
            text.push_str("the search ");
            text.push_str(reason);
            text.push_str("; the figures are less certain than they could be\n");
        }
        text
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

/// The next higher rate decides: either the server could not keep its promises there, or the trials there say
/// nothing.
fn why_invalid(steps: &[Step], rate: f64, cut_short: Option<&str>) -> Option<String> {
    let higher = steps.iter().filter(|step| step.rate > rate);
    match higher.min_by(|one, other| one.rate.total_cmp(&other.rate)) {
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
