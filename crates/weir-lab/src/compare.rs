//! Two targets compared: which is faster, which is cheaper, by how much, and how certain that is.
//!
//! Blocks go A B B A, so a machine that slows down step by step is unfair to neither; four blocks are one sample. First
//! A is compared with itself in the same way. The far end of that interval is the noise of the machine, and a smaller
//! difference counts as none. Noise never makes two targets alike.

mod behind;
mod found;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use fastrand::Rng;
use weir_load::plan::Address;

use crate::error::LabError;
use crate::experiment::{Sample, measure};
use crate::raw::Block;
use crate::scenario::{Configuration, Effort, Kind, Load, Scenario};
use crate::services::Lab;

pub use self::behind::Parts;
use self::found::FOUR;
pub use self::found::{Found, Half, Metric, Unknown};

/// The names of the two targets, in raw data and in sentences.
pub const NAMES: [&str; 2] = ["A", "B"];

/// What is compared, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A and B.
    pub targets: [Kind; 2],
    /// What both targets are asked.
    pub load: Load,
    /// How many times A B B A is measured.
    pub repeats: usize,
    /// How long each block is under load before it is measured.
    pub warm_up: Duration,
    /// The smallest difference of interest, as a share.
    pub minimum: f64,
    /// The seed of everything that is drawn at random.
    pub seed: u64,
}

/// Called after each block with all blocks so far and the number of blocks there will be. Its error ends a comparison.
pub type OnBlock<'c> = dyn FnMut(&[Block], usize) -> Result<(), LabError> + 'c;

/// Compares. The result comes with the reason why it does not rest on all blocks, if there is one.
pub fn run(lab: &Lab, plan: &Plan, on_block: &mut OnBlock<'_>) -> (Found, Result<(), LabError>) {
    let parts = [0, 1].map(|target| behind::parts(lab, plan, target));
    let scenario = scenario(plan, &parts);
    let mut blocks = Vec::with_capacity(plan.repeats * FOUR * 2);
    let ended = measure_all(lab, plan, &scenario, &mut blocks, on_block);
    let mut rng = Rng::with_seed(plan.seed);
    let found = Found::of(blocks, plan.repeats, plan.minimum, &mut rng);
    (Found { parts, ..found }, ended)
}

fn measure_all(
    lab: &Lab,
    plan: &Plan,
    scenario: &Scenario,
    blocks: &mut Vec<Block>,
    on_block: &mut OnBlock<'_>,
) -> Result<(), LabError> {
    for pair in [[0, 0], [0, 1]] {
        for round in 0..plan.repeats {
            for place in [0, 1, 1, 0] {
                let target = pair[place];
                let block = block(lab, plan, scenario, target, blocks.len(), round)?;
                let is_of_target = |block: &&Block| block.configuration == NAMES[target];
                let has_answered = blocks.iter().filter(is_of_target).any(|it| it.rate > 0.0);
                blocks.push(with_answers(block, target, has_answered)?);
                on_block(blocks, plan.repeats * FOUR * 2)?;
            }
        }
    }
    Ok(())
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
    let measured = measure(lab, &sample);
    if lab.is_stopped() {
        return Err(LabError::Stopped);
    }
    let block = measured?.into_iter().next();
    Ok(Block {
        round,
        order,
        ..block.expect("a load gives a block")
    })
}

/// A target without good answers most likely has another address. If it `has_answered` before, it had a bad moment.
fn with_answers(block: Block, target: usize, has_answered: bool) -> Result<Block, LabError> {
    if block.rate > 0.0 {
        return Ok(block);
    }
    let ends = block.outcomes.iter().filter(|(_, count)| **count > 0);
    let ends: Vec<String> = ends
        .map(|(outcome, count)| format!("{count} {outcome}"))
        .collect();
    let ends = ends.join(", ");
    let why = format!("no request was answered with 2xx or 3xx ({ends})");
    if has_answered {
        return Ok(Block {
            is_valid: false,
            why_invalid: why,
            ..block
        });
    }
    Err(LabError::Target {
        target: NAMES[target].to_owned(),
        why,
    })
}

/// The name of a part among the services of a target.
fn part(target: &str, port: u16, program: &str) -> String {
    format!("{target} {program}:{port}")
}

/// A and B as a scenario. What is behind a target is one of its services, so that its CPU time counts.
fn scenario(plan: &Plan, parts: &[Parts; 2]) -> Scenario {
    let mut services = BTreeMap::new();
    for (name, kind) in NAMES.into_iter().zip(&plan.targets) {
        services.insert(name.to_owned(), kind.clone());
    }
    let behind = NAMES.into_iter().zip(parts).map(|(name, parts)| {
        let ports = parts.behind.iter();
        let ports = ports.map(|(port, program)| (part(name, *port, program), *port));
        ports.collect::<Vec<_>>()
    });
    let behind: Vec<Vec<(String, u16)>> = behind.collect();
    for (name, port) in behind.iter().flatten() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        let running = Kind::Running {
            address: Address::Tcp(address),
            authority: address.to_string(),
        };
        services.insert(name.clone(), running);
    }
    let configurations = NAMES
        .into_iter()
        .zip(&behind)
        .map(|(name, behind)| Configuration {
            name: name.to_owned(),
            group: String::new(),
            services: behind
                .iter()
                .map(|(part, _)| part.clone())
                .chain([name.to_owned()])
                .collect(),
            entry: name.to_owned(),
            cpu_share: BTreeMap::new(),
            flags: BTreeMap::new(),
            notes: BTreeMap::new(),
            with: BTreeMap::new(),
            needs: None,
            is_led: false,
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
        services,
        configurations: configurations.collect(),
        baseline: NAMES[0].to_owned(),
        loads: vec![plan.load.clone()],
        capacity: None,
        events: None,
        generator_cpus: 0,
        columns: Vec::new(),
        effort,
        quick: effort,
        published: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::tests::{block, with_ends};

    #[test]
    fn a_bad_moment_of_a_target_ends_no_comparison() {
        let failing = |rate| {
            let block = Block {
                rate,
                ..block("B", 0)
            };
            with_ends(block, &[("5xx", 2)])
        };
        assert!(with_answers(failing(0.0), 1, false).is_err());
        let kept = with_answers(failing(0.0), 1, true).expect("it goes on");
        assert!(
            !kept.is_valid && kept.why_invalid.ends_with("(2 5xx)"),
            "{}",
            kept.why_invalid
        );
        assert!(
            with_answers(failing(5.0), 1, false)
                .expect("it goes on")
                .is_valid
        );
    }
}
