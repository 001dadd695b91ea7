//! What blocks say about a difference. Pure: values and a random source come in, verdicts go out.
//!
//! The block is the sample, not the request. Requests of one block share a process, its memory layout and the state of
//! the machine, so thousands of them are one witness. Blocks of one round are a pair, and only the ratio within a pair
//! counts: a machine that slows down slows both. Ratios are averaged as logarithms, so that "twice" and "half" weigh
//! alike.
//!
//! The interval is the bootstrap-t (Efron and Tibshirani, An Introduction to the Bootstrap, 12.5): the resampled
//! statistic is divided by its own standard error. The percentile bootstrap would be simpler, but its "95 %" are 75 %
//! with three pairs and 90 % with ten. Below [`BOOTSTRAP_PAIRS_MIN`] pairs a single odd one makes the bootstrap's
//! interval endless, so Student's t is used. The tests measure how often the interval holds the truth.

#[cfg(test)]
mod tests;
mod words;

use fastrand::Rng;

pub use self::words::{CPU_TIME, LATENCY, RATE, Wording};

/// The difference below which nobody would change anything: 1 %.
pub const MINIMUM_OF_INTEREST: f64 = 0.01;
/// Fewer pairs have no interval.
pub const PAIRS_MIN: usize = 2;
/// From this many pairs on, the interval is bootstrapped.
pub const BOOTSTRAP_PAIRS_MIN: usize = 10;

const RESAMPLES: usize = 4_999;
/// The part left out at either end: 95 % are inside.
const TAIL: f64 = 0.025;
/// The 97.5 % quantile of Student's t with 1 to 8 degrees of freedom.
const STUDENT_T: [f64; BOOTSTRAP_PAIRS_MIN - 2] = [
    12.706_2, 4.302_7, 3.182_4, 2.776_4, 2.570_6, 2.446_9, 2.364_6, 2.306_0,
];

/// A number and the 95 % interval around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// The interval begins here.
    pub low: f64,
    /// It ends here.
    pub high: f64,
}

/// B measured against A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// B divided by A.
    pub ratio: Interval,
    /// How many pairs of blocks it rests on.
    pub pairs: usize,
    /// What to make of it.
    pub verdict: Verdict,
}

/// What a comparison found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// B is different: the interval leaves out 1, and the difference reaches both bars.
    Different,
    /// Whatever the difference is, it is not of interest: the interval lies within [`Bars::of_interest`].
    AlikeEnough,
    /// The blocks do not decide.
    CannotTell,
}

/// What a difference must reach before it is called one, as shares: 0.01 is 1 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bars {
    /// The smallest difference that anybody would act on. "Alike enough" means smaller than this, and nothing else.
    pub of_interest: f64,
    /// The difference that a target shows against itself. It makes "different" harder to say and "alike" no easier.
    pub noise: f64,
}

impl Comparison {
    /// The largest difference inside the interval, in either direction. For a target compared with itself, it is the
    /// noise.
    pub fn far_end(&self) -> f64 {
        let far_end = |bound: f64| bound.ln().abs().exp_m1();
        far_end(self.ratio.low).max(far_end(self.ratio.high))
    }
}

impl Bars {
    /// The bars of runs without a comparison of a target with itself.
    pub const USUAL: Self = Self {
        of_interest: MINIMUM_OF_INTEREST,
        noise: 0.0,
    };

    /// The size from which on a difference is called one.
    pub fn higher(self) -> f64 {
        self.of_interest.max(self.noise)
    }
}

/// Compares pairs of (A, B) from the same round. `None` when fewer than [`PAIRS_MIN`] pairs are above zero, which make
/// no interval.
pub fn compare(pairs: &[(f64, f64)], bars: Bars, rng: &mut Rng) -> Option<Comparison> {
    let is_usable = |&&(a, b): &&(f64, f64)| a > 0.0 && b > 0.0 && a.is_finite() && b.is_finite();
    let logs: Vec<f64> = pairs
        .iter()
        .filter(is_usable)
        .map(|(a, b)| (b / a).ln())
        .collect();
    let interval = mean_interval(&logs, rng)?;
    let ratio = Interval {
        estimate: interval.estimate.exp(),
        low: interval.low.exp(),
        high: interval.high.exp(),
    };
    let [of_interest, bar] = [bars.of_interest, bars.higher()].map(f64::ln_1p);
    let verdict = if interval.low > -of_interest && interval.high < of_interest {
        Verdict::AlikeEnough
    } else if (interval.low > 0.0 || interval.high < 0.0) && interval.estimate.abs() >= bar {
        Verdict::Different
    } else {
        Verdict::CannotTell
    };
    Some(Comparison {
        ratio,
        pairs: logs.len(),
        verdict,
    })
}

/// The geometric mean of positive values with its interval, for one configuration by itself.
pub fn typical(values: &[f64], rng: &mut Rng) -> Option<Interval> {
    let logs: Vec<f64> = values
        .iter()
        .filter(|value| **value > 0.0)
        .map(|value| value.ln())
        .collect();
    let interval = mean_interval(&logs, rng)?;
    Some(Interval {
        estimate: interval.estimate.exp(),
        low: interval.low.exp(),
        high: interval.high.exp(),
    })
}

/// The median; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The mean with its 95 % interval; `None` for fewer than [`PAIRS_MIN`] values.
pub fn mean_interval(values: &[f64], rng: &mut Rng) -> Option<Interval> {
    let (mean, error) = mean_and_error(values)?;
    let (below, above) = if error <= 0.0 {
        (0.0, 0.0)
    } else if values.len() < BOOTSTRAP_PAIRS_MIN {
        let t = STUDENT_T[values.len() - 2];
        (t, t)
    } else {
        bootstrap_t(values, mean, rng)
    };
    Some(Interval {
        estimate: mean,
        low: mean - below * error,
        high: mean + above * error,
    })
}

/// How many standard errors the interval reaches below and above the mean.
fn bootstrap_t(values: &[f64], mean: f64, rng: &mut Rng) -> (f64, f64) {
    let mut resample = vec![0.0; values.len()];
    let mut deviations = Vec::with_capacity(RESAMPLES);
    while deviations.len() < RESAMPLES {
        resample.fill_with(|| values[rng.usize(..values.len())]);
        let (of_resample, error) = mean_and_error(&resample).expect("as many as the values");
        if error > 0.0 {
            deviations.push((of_resample - mean) / error);
        }
    }
    deviations.sort_by(f64::total_cmp);
    let at = |share: f64| deviations[(share * (RESAMPLES - 1) as f64).round() as usize];
    // Where a resample lies above the mean, the mean may lie below the truth, so the tails change sides.
    (at(1.0 - TAIL), -at(TAIL))
}

/// The mean and its standard error; `None` for fewer than [`PAIRS_MIN`] values.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < PAIRS_MIN {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    Some((mean, (squares / (count - 1.0) / count).sqrt()))
}
