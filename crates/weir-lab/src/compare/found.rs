//! What blocks of A and B say: the analysis of a comparison, apart from its measuring.
//!
//! Four blocks A B B A are one sample. A sample with an invalid block is left out as a whole: the other three would no
//! longer be balanced against changes of the machine. Latencies are never compared when the two targets failed
//! different shares of their requests.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::behind::Parts;
use crate::blocks::{self, Ends};
use crate::raw::Block;
use crate::statistics::{self, Bars, Comparison, PAIRS_MIN};

/// Blocks of a sample: A B B A.
pub(super) const FOUR: usize = 4;

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// A against itself, then B against A.
    pub halves: [Half; 2],
    /// How large a difference must be, for each metric in which A was compared with itself.
    pub bars: BTreeMap<Metric, Bars>,
    /// All measured blocks, also those that do not count.
    pub blocks: Vec<Block>,
    /// What each target consists of; its CPU time is that of all its parts on this machine.
    pub parts: [Parts; 2],
}

/// One half of a comparison.
#[derive(Debug, Clone)]
pub struct Half {
    /// The samples of four that count, block by block.
    pub counted: Vec<Block>,
    /// How many samples of four were measured.
    pub measured: usize,
    /// How the requests to the first and to the second of the two ended.
    pub ends: [Ends; 2],
    differences: BTreeMap<Metric, Comparison>,
}

/// What is compared between two targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Answers a second.
    Rate,
    /// CPU time per answer, of all between the client and the answer.
    CpuTime,
    /// The median latency of answers.
    Median,
    /// The 99th percentile of latencies of answers.
    Percentile99,
}

/// Why there is no comparison of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// So many samples count; [`PAIRS_MIN`] are needed.
    TooFew(usize),
    /// The shares of failed requests differ too much to compare latencies.
    Failures,
    /// A could not be compared with itself, so the noise is unknown.
    NoNoise,
    /// The blocks do not say it: CPU time could not be read.
    NotMeasured,
}

impl Metric {
    /// All metrics, in the order in which they are reported.
    pub const ALL: [Self; 4] = [Self::Rate, Self::CpuTime, Self::Median, Self::Percentile99];

    /// The value of a block; `None` when it has none.
    pub fn of(self, block: &Block) -> Option<f64> {
        match self {
            Self::Rate => Some(block.rate),
            Self::CpuTime => blocks::cpu_us_per_answer(block),
            Self::Median => block.latency_us.get("p50").copied(),
            Self::Percentile99 => block.latency_us.get("p99").copied(),
        }
    }

    fn is_latency(self) -> bool {
        matches!(self, Self::Median | Self::Percentile99)
    }
}

impl Found {
    /// Judges `blocks`, of which the first `repeats` samples compare A with itself. `minimum` is the smallest
    /// difference of interest, as a share.
    pub fn of(blocks: Vec<Block>, repeats: usize, minimum: f64, rng: &mut Rng) -> Self {
        let (same, different) = blocks.split_at(blocks.len().min(repeats * FOUR));
        let quiet = Bars {
            of_interest: minimum,
            noise: 0.0,
        };
        let same = Half::of(same, &|_| Some(quiet), rng);
        let bars = same.differences.iter().map(|(metric, same)| {
            let noise = same.far_end();
            (*metric, Bars { noise, ..quiet })
        });
        let bars: BTreeMap<Metric, Bars> = bars.collect();
        let different = Half::of(different, &|metric| bars.get(&metric).copied(), rng);
        Self {
            halves: [same, different],
            bars,
            blocks,
            parts: Default::default(),
        }
    }

    /// A against itself.
    pub fn noise(&self, metric: Metric) -> Result<&Comparison, Unknown> {
        self.halves[0].difference(metric)
    }

    /// B against A.
    pub fn difference(&self, metric: Metric) -> Result<&Comparison, Unknown> {
        let difference = self.halves[1].difference(metric);
        difference.map_err(|why| match (why, self.noise(metric)) {
            (Unknown::NotMeasured, Err(Unknown::TooFew(_) | Unknown::Failures)) => Unknown::NoNoise,
            (why, _) => why,
        })
    }
}

impl Half {
    /// A metric without bars is not compared.
    fn of(blocks: &[Block], bars: &dyn Fn(Metric) -> Option<Bars>, rng: &mut Rng) -> Self {
        let fours = blocks.chunks_exact(FOUR);
        let measured = fours.len();
        let counted = fours.filter(|four| four.iter().all(|block| block.is_valid));
        let counted: Vec<Block> = counted.flatten().cloned().collect();
        let mut half = Self {
            measured,
            ends: [[0, 3], [1, 2]].map(|places| {
                let fours = counted.chunks_exact(FOUR);
                Ends::of(fours.flat_map(|four| places.map(|place| &four[place])))
            }),
            counted,
            differences: BTreeMap::new(),
        };
        for metric in Metric::ALL {
            let pairs = half.pairs(metric);
            let found = bars(metric).and_then(|bars| statistics::compare(&pairs, bars, rng));
            half.differences.extend(found.map(|found| (metric, found)));
        }
        half
    }

    /// The outer and the inner two blocks of each sample.
    fn pairs(&self, metric: Metric) -> Vec<(f64, f64)> {
        if metric.is_latency() && !self.has_comparable_latencies() {
            return Vec::new();
        }
        let mean =
            |first: &Block, second: &Block| Some((metric.of(first)? * metric.of(second)?).sqrt());
        let fours = self.counted.chunks_exact(FOUR);
        fours
            .filter_map(|four| Some((mean(&four[0], &four[3])?, mean(&four[1], &four[2])?)))
            .collect()
    }

    fn has_comparable_latencies(&self) -> bool {
        self.ends[0].are_comparable(&self.ends[1])
    }

    /// The parts of the CPU time of A or B, each called by what `called` makes of its service.
    pub fn cpu_parts(&self, name: &str, called: impl Fn(&str) -> String) -> Option<String> {
        let blocks = self.counted.iter();
        let blocks: Vec<&Block> = blocks.filter(|it| it.configuration == name).collect();
        blocks::parts_in_words(&blocks, called)
    }

    /// How many samples count.
    pub fn fours(&self) -> usize {
        self.counted.len() / FOUR
    }

    fn difference(&self, metric: Metric) -> Result<&Comparison, Unknown> {
        let why = || match () {
            () if self.fours() < PAIRS_MIN => Unknown::TooFew(self.fours()),
            () if metric.is_latency() && !self.has_comparable_latencies() => Unknown::Failures,
            () => Unknown::NotMeasured,
        };
        self.differences.get(&metric).ok_or_else(why)
    }

    /// The median over the blocks of A or B that count.
    pub fn median(&self, name: &str, metric: Metric) -> Option<f64> {
        let blocks = self.counted.iter();
        let blocks = blocks.filter(|block| block.configuration == name);
        let values: Vec<f64> = blocks.filter_map(|block| metric.of(block)).collect();
        statistics::median(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::tests::{block, invalid, with_ends};
    use crate::statistics::Verdict;

    const REPEATS: usize = 5;

    /// A sample: the machine gives `rate` to A and a tenth more to B.
    fn four(names: [&str; 2], rate: f64, failed: [u64; 2]) -> Vec<Block> {
        let block = |place: usize, wobble: f64| {
            let mut block = block(names[place], 0);
            block.rate = rate * wobble * if names[place] == "B" { 1.1 } else { 1.0 };
            // The more requests fail, the faster the others look.
            let p99 = if failed[place] > 0 { 100.0 } else { 200.0 };
            block.latency_us.insert("p50".to_owned(), 50.0 * wobble);
            block.latency_us.insert("p99".to_owned(), p99 * wobble);
            with_ends(
                block,
                &[("2xx", 1_000 - failed[place]), ("5xx", failed[place])],
            )
        };
        vec![
            block(0, 1.0),
            block(1, 1.001),
            block(1, 1.002),
            block(0, 1.004),
        ]
    }

    /// A against itself, then B against A.
    fn measured(failed_of_b: u64) -> Vec<Block> {
        let rates = || (0..REPEATS).map(|round| 100.0 + 10.0 * round as f64);
        let same = rates().flat_map(|rate| four(["A", "A"], rate, [0, 0]));
        let different = rates().flat_map(|rate| four(["A", "B"], rate, [0, failed_of_b]));
        same.chain(different).collect()
    }

    fn found(blocks: Vec<Block>) -> Found {
        Found::of(blocks, REPEATS, 0.01, &mut Rng::with_seed(1))
    }

    #[test]
    fn a_difference_is_found_in_what_is_valid() {
        let found = found(measured(0));
        let rate = found.difference(Metric::Rate).expect("it was measured");
        assert_eq!((rate.verdict, rate.pairs), (Verdict::Different, REPEATS));
        assert_eq!(found.difference(Metric::CpuTime), Err(Unknown::NotMeasured));
        let p99 = found
            .difference(Metric::Percentile99)
            .expect("it was measured");
        assert_eq!(p99.verdict, Verdict::AlikeEnough);
    }

    #[test]
    fn a_four_with_a_block_that_is_not_valid_is_left_out_whole() {
        let mut blocks = measured(0);
        let place = (REPEATS + 1) * FOUR + 2;
        // If it counted, B would be a trillion times as fast.
        blocks[place].rate *= 1e12;
        blocks[place] = invalid(blocks[place].clone(), "The generator was the bottleneck.");
        let found = found(blocks);
        let rate = found.difference(Metric::Rate).expect("it was measured");
        assert_eq!(rate.pairs, REPEATS - 1);
        assert!((1.09..1.11).contains(&rate.ratio.estimate), "{rate:?}");
        assert_eq!(
            (found.halves[1].fours(), found.halves[1].measured),
            (REPEATS - 1, REPEATS)
        );
        assert_eq!(
            found.halves[1].ends[1].answers,
            2_000 * (REPEATS as u64 - 1)
        );
        assert_eq!(
            found.blocks.len(),
            2 * REPEATS * FOUR,
            "raw data keeps everything"
        );
    }

    #[test]
    fn with_too_few_fours_nothing_is_said() {
        let mut blocks = measured(0);
        for four in REPEATS..2 * REPEATS - 1 {
            blocks[four * FOUR].is_valid = false;
        }
        let of_b = found(blocks.clone());
        for metric in Metric::ALL {
            assert_eq!(of_b.difference(metric), Err(Unknown::TooFew(1)));
        }
        blocks.rotate_left(REPEATS * FOUR);
        let of_noise = found(blocks);
        assert_eq!(of_noise.noise(Metric::Rate), Err(Unknown::TooFew(1)));
        assert_eq!(of_noise.difference(Metric::Rate), Err(Unknown::NoNoise));
        let nothing = found(Vec::new());
        assert_eq!(nothing.difference(Metric::Rate), Err(Unknown::TooFew(0)));
    }

    #[test]
    fn a_target_that_fails_more_does_not_win_by_latency() {
        let found = found(measured(300));
        for metric in [Metric::Median, Metric::Percentile99] {
            assert_eq!(found.difference(metric), Err(Unknown::Failures));
        }
        assert_eq!(found.halves[1].ends[1].in_words(), "30 % failed (3000 5xx)");
        assert!(
            found.difference(Metric::Rate).is_ok(),
            "a rate is of answers alone"
        );
    }
}
