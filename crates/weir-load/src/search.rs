//! The highest rate at which a server keeps its promises. The rate is doubled until one is broken, and then bisected.
//!
//! Near the knee the same rate both passes and fails, so each rate is judged by several trials. The uncertainty is the
//! band between the highest rate that always passed and the lowest that always failed; it is reported. `trial` judges
//! one trial, `knee` adds them up.

mod knee;
mod trial;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::arrivals::Arrivals;
use crate::plan::{End, Plan};
use crate::promise::Promise;
use crate::run::{RunError, run};

pub use knee::{Knee, Step};
pub(crate) use trial::Trial;

/// How the search is done.
#[derive(Debug, Clone)]
pub struct Search {
    /// The promises; all must hold.
    pub promises: Vec<Promise>,
    /// How long a trial lasts.
    pub trial: Duration,
    /// Trials of each rate.
    pub repeats: u32,
    /// The first rate tried, per second.
    pub first_rate: f64,
    /// The search ends when the bounds are this close, as a part of the upper one.
    pub precision: f64,
    /// No trial begins after this time.
    pub lasts_max: Duration,
}

impl Search {
    /// Long enough to see the tail at a few thousand requests a second.
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

/// Searches with `plan`, whose arrivals and end are replaced. `on_step` is told each rate that was judged.
///
/// # Errors
/// Errors of [`run`].
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
        let Some(step) = judge(plan, search, rate, stop)? else {
            continue;
        };
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
            break Some("ended below one request a second".to_owned());
        }
    };
    Ok(Knee::of(search.promises.clone(), steps, cut_short))
}

/// Tries one rate. `None` when the search was stopped before all trials were over.
fn judge(
    plan: &Plan,
    search: &Search,
    rate: f64,
    stop: &AtomicBool,
) -> Result<Option<Step>, RunError> {
    let mut step = Step {
        rate,
        ..Step::default()
    };
    // A trial that says nothing is repeated, but a generator at its limit does not get better.
    while step.passed + step.broken < search.repeats && step.said_nothing < search.repeats {
        let plan = Plan {
            arrivals: Arrivals::Constant(rate),
            end: End::After(search.trial),
            seed: plan.seed.wrapping_add(u64::from(step.trials())),
            ..plan.clone()
        };
        let report = run(plan, stop, |_| {})?;
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let trial = Trial::of(&report, &search.promises);
        step.add(trial.unless_it_falls_behind(&report));
        // No further trial could change the verdict.
        if step.passed == 0 && step.broken.max(step.said_nothing) * 2 > search.repeats {
            break;
        }
    }
    Ok(Some(step))
}
