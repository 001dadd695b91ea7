//! The statistics of the laboratory as a report needs them: also a number for a single block, and always the same one.

use fastrand::Rng;

use crate::statistics::{self, Bars, Interval, Verdict};

/// The seed of all resampling; any fixed number will do.
const SEED: u64 = 0x5EED;

/// A number and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// The 95 % interval. `None` with too few samples.
    pub(super) interval: Option<(f64, f64)>,
}

/// One rung divided by another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    pub(super) estimate: Estimate,
    pub(super) verdict: Verdict,
}

impl From<Interval> for Estimate {
    fn from(interval: Interval) -> Self {
        Self {
            value: interval.estimate,
            interval: Some((interval.low, interval.high)),
        }
    }
}

/// The typical value of blocks; `None` without any.
pub(super) fn typical(samples: &[f64]) -> Option<Estimate> {
    let alone = || {
        let value = statistics::median(samples)?;
        Some(Estimate {
            value,
            interval: None,
        })
    };
    let typical = statistics::typical(samples, &mut Rng::with_seed(SEED));
    typical.map(Estimate::from).or_else(alone)
}

/// The typical ratio of pairs (base, other) from the same rounds; `None` without any.
pub(super) fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let compared = statistics::compare(pairs, Bars::USUAL, &mut Rng::with_seed(SEED));
    if let Some(comparison) = compared {
        return Some(Ratio {
            estimate: comparison.ratio.into(),
            verdict: comparison.verdict,
        });
    }
    let (base, other) = *pairs.iter().find(|(base, _)| *base > 0.0)?;
    Some(Ratio {
        estimate: Estimate {
            value: other / base,
            interval: None,
        },
        verdict: Verdict::CannotTell,
    })
}
