//! Two targets beside each other: which is faster, which is cheaper, by how much, and how sure that is.
//!
//! Blocks go A B B A, so that a machine that gets slower step by step is unfair to none; four of them are one sample. First A
//! is compared with itself in the same way: what that may show, to the far end of its interval, is the noise of the machine,
//! and no smaller difference is called one. Noise never makes two targets alike.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;

use crate::error::LabError;
use crate::experiment::{Sample, measure};
use crate::raw::Block;
use crate::scenario::{Configuration, Effort, Kind, Load, Scenario};
use crate::services::Lab;
use crate::statistics::{self, Bars, Comparison};

/// The names of the two, in raw data and in words.
pub const NAMES: [&str; 2] = ["A", "B"];

/// What is compared, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A and B.
    pub targets: [Kind; 2],
    /// What both are asked.
    pub load: Load,
    /// How many times A B B A.
    pub repeats: usize,
    /// How long each block is under load before it is measured.
    pub warm_up: Duration,
    /// The least difference of interest, as a share.
    pub minimum: f64,
    /// Of everything that is drawn at random.
    pub seed: u64,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// A against itself.
    pub noise: Differences,
    /// B against A.
    pub differences: Differences,
    /// What differences had to reach, for each metric that could be compared.
    pub bars: BTreeMap<Metric, Bars>,
    /// Everything that was measured.
    pub blocks: Vec<Block>,
}

/// What is compared of two targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Requests a second.
    Rate,
    /// CPU time per request.
    CpuTime,
    /// The median latency.
    Median,
    /// The 99th percentile of latencies.
    Percentile99,
}

impl Metric {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 4] = [Self::Rate, Self::CpuTime, Self::Median, Self::Percentile99];

    /// What a block says; `None` when it does not.
    pub fn of(self, block: &Block) -> Option<f64> {
        match self {
            Self::Rate => Some(block.rate),
            Self::CpuTime => block.services.first()?.cpu_us_per_request,
            Self::Median => block.latency_us.get("p50").copied(),
            Self::Percentile99 => block.latency_us.get("p99").copied(),
        }
    }
}

/// The second of two against the first, for each metric that could be compared.
#[derive(Debug, Clone, Default)]
pub struct Differences(BTreeMap<Metric, Comparison>);

impl Differences {
    /// What was found for `metric`.
    pub fn get(&self, metric: Metric) -> Option<&Comparison> {
        self.0.get(&metric)
    }
}

/// Compares. `on_block` sees each block and how many there will be.
pub fn run(
    lab: &Lab,
    plan: &Plan,
    on_block: &mut dyn FnMut(&Block, usize),
) -> Result<Found, LabError> {
    let scenario = scenario(plan);
    let mut rng = Rng::with_seed(plan.seed);
    let count = plan.repeats * 8;
    let mut blocks = Vec::with_capacity(count);
    for pair in [[0, 0], [0, 1]] {
        for round in 0..plan.repeats {
            for place in [0, 1, 1, 0] {
                let block = block(lab, plan, &scenario, pair[place], blocks.len(), round)?;
                on_block(&block, count);
                blocks.push(block);
            }
        }
    }
    let (same, different) = blocks.split_at(plan.repeats * 4);
    let quiet = Bars {
        of_interest: plan.minimum,
        noise: 0.0,
    };
    let noise = differences(same, &|_| Some(quiet), &mut rng);
    let bars = noise.0.iter().map(|(metric, same)| {
        let noise = same.far_end();
        (*metric, Bars { noise, ..quiet })
    });
    let bars: BTreeMap<Metric, Bars> = bars.collect();
    let differences = differences(different, &|metric| bars.get(&metric).copied(), &mut rng);
    Ok(Found {
        noise,
        differences,
        bars,
        blocks,
    })
}

fn block(
    lab: &Lab,
    plan: &Plan,
    scenario: &Scenario,
    target: usize,
    order: usize,
    round: usize,
) -> Result<Block, LabError> {
    let sample = Sample {
        scenario,
        configuration: &scenario.configurations[target],
        load: &plan.load,
        warm_up: plan.warm_up,
        is_quick: false,
        seed: plan.seed.wrapping_add(order as u64),
    };
    let block = measure(lab, &sample);
    if lab.is_stopped() {
        return Err(LabError::Stopped);
    }
    let block = Block {
        round,
        order,
        ..block?
    };
    if block.rate <= 0.0 {
        let ends = block.outcomes.iter().filter(|(_, count)| **count > 0);
        let ends: Vec<String> = ends
            .map(|(outcome, count)| format!("{count} {outcome}"))
            .collect();
        let why = format!(
            "no request was answered with 2xx or 3xx ({})",
            ends.join(", ")
        );
        return Err(LabError::Target {
            target: NAMES[target].to_owned(),
            why,
        });
    }
    Ok(block)
}

/// Compares the outer two blocks of each four with the inner two. A metric without bars is not compared.
fn differences(
    blocks: &[Block],
    bars: &dyn Fn(Metric) -> Option<Bars>,
    rng: &mut Rng,
) -> Differences {
    let mut compare = |metric: Metric| {
        let mean =
            |first: &Block, second: &Block| Some((metric.of(first)? * metric.of(second)?).sqrt());
        let fours = blocks.chunks_exact(4);
        let pairs =
            fours.filter_map(|four| Some((mean(&four[0], &four[3])?, mean(&four[1], &four[2])?)));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let found = statistics::compare(&pairs, bars(metric)?, rng)?;
        Some((metric, found))
    };
    Differences(Metric::ALL.into_iter().filter_map(&mut compare).collect())
}

fn scenario(plan: &Plan) -> Scenario {
    let configurations = NAMES.map(|name| Configuration {
        name: name.to_owned(),
        group: String::new(),
        services: vec![name.to_owned()],
        entry: name.to_owned(),
        cpu_share: BTreeMap::new(),
        notes: BTreeMap::new(),
        needs: None,
    });
    let effort = Effort {
        rounds: plan.repeats,
        warm_up: plan.warm_up,
    };
    Scenario {
        name: "compare".to_owned(),
        title: String::new(),
        about: String::new(),
        source: String::new(),
        services: NAMES
            .map(str::to_owned)
            .into_iter()
            .zip(plan.targets.clone())
            .collect(),
        configurations: configurations.into(),
        baseline: NAMES[0].to_owned(),
        loads: vec![plan.load.clone()],
        columns: Vec::new(),
        effort,
        quick: effort,
        published: Vec::new(),
    }
}
