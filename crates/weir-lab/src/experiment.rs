//! Runs a scenario: blocks with fresh processes, interleaved so that changes of the machine affect all alike.
//!
//! In every round each configuration is measured once under each load, and the order is reversed from round to round. A
//! block starts the services, warms them up, measures, and stops them. Its result is a sample for
//! [`crate::statistics`]. Nothing is judged here.

mod ask;
mod block;
mod events;
mod fault;
mod led;
mod needs;
mod profiled;
mod set;

use std::time::{Instant, SystemTime};

use crate::apart::Apart;
use crate::error::LabError;
use crate::machine;
use crate::raw::{self, Block, LeftOut, Run};
use crate::scenario::{Configuration, Effort, Scenario};
use crate::services::recipe::{self, Recipe};
use crate::services::{Lab, Services, versions};
use crate::shell;

pub use self::block::{Sample, measure};
pub use self::profiled::profile;

/// How a scenario is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether the short form is run.
    pub is_quick: bool,
    /// Replaces the scenario's number of rounds.
    pub rounds: Option<usize>,
    /// What to type to run it again, word by word.
    pub command: Vec<String>,
    /// The seed of everything that is drawn at random.
    pub seed: u64,
}

/// What is reported while a scenario runs.
#[derive(Debug)]
pub enum Event<'e> {
    /// A configuration will not run, and why.
    LeftOut(&'e LeftOut),
    /// Everything is ready; so many blocks follow.
    Begins(usize),
    /// A block was measured: it is the last one of the run so far.
    Measured(&'e Run),
}

/// Runs `scenario`. If the user ends it early, or a block cannot be measured, the result is what was measured so far,
/// and says so. An error of `on_event` ends the run as well.
pub fn run(
    lab: &Lab,
    scenario: &Scenario,
    options: &Options,
    on_event: &mut dyn FnMut(Event<'_>) -> Result<(), LabError>,
) -> Result<Run, LabError> {
    let (configurations, left_out) = needs::met(lab, scenario)?;
    for left_out in &left_out {
        on_event(Event::LeftOut(left_out))?;
    }
    require(lab, scenario, &configurations)?;
    let effort = effort(scenario, options);
    let sets = scenario.sets();
    let plan = order(effort.rounds, configurations.len(), sets.len());
    let total = effort.rounds * configurations.len() * scenario.loads.len();
    on_event(Event::Begins(total))?;
    let began = Instant::now();
    let mut run = unmeasured(lab, scenario, options, &configurations);
    run.left_out = left_out;
    run.rounds = effort.rounds;
    for (index, step) in plan.iter().enumerate() {
        let sample = Sample {
            scenario,
            configuration: configurations[step.configuration],
            load: sets[step.set][0],
            warm_up: effort.warm_up,
            is_quick: options.is_quick,
            seed: options.seed.wrapping_add(index as u64),
        };
        let at_seconds = began.elapsed().as_secs_f64();
        let measured = measure(lab, &sample);
        if lab.is_stopped() {
            break;
        }
        let blocks = match measured {
            Ok(blocks) => blocks,
            Err(failure) if run.blocks.is_empty() => return Err(failure),
            Err(failure) => {
                run.failure = Some(sample.failed(step.round, &failure));
                break;
            }
        };
        for block in blocks {
            run.blocks.push(Block {
                round: step.round,
                order: run.blocks.len(),
                at_seconds,
                ..block
            });
            run.seconds = began.elapsed().as_secs_f64();
            run.is_interrupted = run.blocks.len() < total;
            on_event(Event::Measured(&run))?;
        }
    }
    if run.blocks.is_empty() {
        return Err(LabError::Stopped);
    }
    Ok(run)
}

/// What is known of a run before its first block.
fn unmeasured(
    lab: &Lab,
    scenario: &Scenario,
    options: &Options,
    configurations: &[&Configuration],
) -> Run {
    let configurations = configurations.iter();
    let loads = scenario.loads.iter();
    Run {
        format: raw::FORMAT,
        scenario: scenario.name.clone(),
        title: scenario.title.clone(),
        about: scenario.about.clone(),
        source: scenario.source.clone(),
        started: machine::rfc3339(SystemTime::now()),
        seconds: 0.0,
        is_quick: options.is_quick,
        is_interrupted: true,
        failure: None,
        command: shell::line(options.command.iter().map(String::as_str)),
        rounds: 0,
        baseline: scenario.baseline.clone(),
        capacity: scenario.capacity,
        generator_cpus: Some(scenario.generator_cpus).filter(|cpus| *cpus > 0),
        columns: scenario.columns.clone(),
        machine: machine::describe(lab),
        programs: versions::of(lab, scenario),
        configurations: configurations.map(|it| describe(scenario, it)).collect(),
        left_out: Vec::new(),
        loads: loads.map(|load| load.raw(options.is_quick)).collect(),
        blocks: Vec::new(),
        published: scenario.published.clone(),
    }
}

/// Fails before anything is measured when something is missing that is needed later.
fn require(
    lab: &Lab,
    scenario: &Scenario,
    configurations: &[&Configuration],
) -> Result<(), LabError> {
    Apart::of(scenario.generator_cpus)?;
    for configuration in configurations {
        for service in &configuration.services {
            let kind = &scenario.services[service];
            recipe::require_program(kind)?;
            if let Some(recipe) = Recipe::of(service, kind, false) {
                Services::fetch(lab, &recipe)?;
            }
        }
        if !configuration.cpu_share.is_empty()
            && let Err(why) = lab.cpu_shares()
        {
            return Err(LabError::NoCpuShares(why.to_owned()));
        }
    }
    Ok(())
}

fn effort(scenario: &Scenario, options: &Options) -> Effort {
    let effort = if options.is_quick {
        scenario.quick
    } else {
        scenario.effort
    };
    Effort {
        rounds: options.rounds.unwrap_or(effort.rounds),
        ..effort
    }
}

/// What is measured at once; configuration and set of loads are indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    round: usize,
    configuration: usize,
    set: usize,
}

/// The order of blocks: every configuration in turn for each set of loads, reversed in every second round.
fn order(rounds: usize, configurations: usize, sets: usize) -> Vec<Step> {
    let mut steps = Vec::with_capacity(rounds * configurations * sets);
    for round in 0..rounds {
        let begin = steps.len();
        for set in 0..sets {
            steps.extend((0..configurations).map(|configuration| Step {
                round,
                configuration,
                set,
            }));
        }
        if round % 2 == 1 {
            steps[begin..].reverse();
        }
    }
    steps
}

/// A configuration for the raw data. Placeholders stay as they are, since ports differ in each block.
fn describe(scenario: &Scenario, configuration: &Configuration) -> raw::Configuration {
    let services = configuration.services.iter().map(|name| {
        let kind = scenario.service(name, configuration);
        let is_root = rustix::process::geteuid().is_root();
        let recipe = Recipe::of(name, &kind, is_root);
        raw::Service {
            name: name.clone(),
            kind: kind.name().to_owned(),
            command: recipe
                .as_ref()
                .map_or_else(String::new, Recipe::command_line),
            config: recipe
                .and_then(|recipe| recipe.files.into_iter().next())
                .map_or_else(String::new, |file| file.1),
            cpu_share: configuration.cpu_share.get(name).copied(),
        }
    });
    raw::Configuration {
        name: configuration.name.clone(),
        group: configuration.group.clone(),
        notes: configuration.notes.clone(),
        entry: configuration.entry.clone(),
        services: services.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_interleaved_and_turned_around() {
        let told = |step: &Step| format!("{}{}{}", step.round, step.configuration, step.set);
        let steps: Vec<String> = order(3, 2, 2).iter().map(told).collect();
        assert_eq!(
            steps.join(" "),
            "000 010 001 011 111 101 110 100 200 210 201 211"
        );
        assert_eq!(order(0, 2, 2), []);
    }
}
