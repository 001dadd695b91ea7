//! One block: fresh processes, warm-up, measurement, stop.

use std::time::Duration;

use weir_load::report::Report;

use super::events::Way;
use super::fault;
use super::set::Set;
use crate::apart::Apart;
use crate::blocks::Ends;
use crate::error::LabError;
use crate::generator;
use crate::raw::{Block, Incident, Usage};
use crate::scenario::{Amount, Configuration, Load, Scenario};
use crate::services::{Lab, Reading, Services};

/// What one block measures.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'s> {
    /// Where the services are.
    pub scenario: &'s Scenario,
    /// Which of them run.
    pub configuration: &'s Configuration,
    /// What they are asked; the loads beside it are sent as well.
    pub load: &'s Load,
    /// How long the load runs before anything counts.
    pub warm_up: Duration,
    /// Whether the short amount of the load is used.
    pub is_quick: bool,
    /// The seed of the generator.
    pub seed: u64,
}

impl Sample<'_> {
    /// Which block could not be measured, and why, as a sentence without its full stop.
    pub(super) fn failed(&self, round: usize, failure: &LabError) -> String {
        let (configuration, load) = (&self.configuration.name, &self.load.name);
        format!("{configuration}, {load}, round {}: {failure}", round + 1)
    }
}

/// Measures the block of a load, and those of the loads beside it. The caller fills in their place in the run, which is 0 here.
///
/// The warm-up is a run of its own, so that the use of the services can be read between the two. The connections
/// of the measurement are opened within it and count.
pub fn measure(lab: &Lab, sample: &Sample<'_>) -> Result<Vec<Block>, LabError> {
    let Sample {
        scenario,
        configuration,
        load,
        ..
    } = *sample;
    let apart = Apart::of(scenario.generator_cpus)?;
    let _confined = apart.map(Apart::confine).transpose()?;
    let mut services = Services::start(lab, scenario, configuration, load)?;
    let loads = scenario.set_of(load);
    let set = Set::of(lab, &services, (configuration, apart), &loads);
    let set = services.or_why_it_ended(set)?;
    if !sample.warm_up.is_zero() {
        let all_at_once = |_: &Load| (Amount::Time(sample.warm_up), Duration::ZERO);
        set.send(&all_at_once, sample.seed, lab.stop())?;
        services.check()?;
    }
    let way = scenario.events.as_ref();
    let way = way.map(|events| Way::between(events, &services));
    let way = way.transpose()?;
    // What the warm-up has left to do is no part of what the load costs; what the load leaves to do is.
    let settled = way.map(|way| Ok((way, way.settle(lab.stop())?)));
    let settled = services.or_why_it_ended(settled.transpose())?;
    let before = services.readings();
    let (reports, incident) = loaded(lab, &services, sample, &set)?;
    let first = &reports[0][0];
    let load_s = (first.started_unix, first.seconds);
    let events = settled.map(|(way, before)| way.finish(&before, lab.stop(), load_s));
    let events = services.or_why_it_ended(events.transpose())?;
    let after = services.readings();
    services.check()?;
    let usages = before.iter().zip(&after);
    let usages: Vec<Usage> = usages.map(|(before, after)| used(before, after)).collect();
    let blocks = loads.iter().zip(&reports).map(|(load, parts)| Block {
        configuration: configuration.name.clone(),
        load: load.name.clone(),
        services: usages.clone(),
        ..answered(generator::measured(parts))
    });
    let mut blocks = with_answers_beside(blocks.collect());
    blocks[0].incident = incident;
    blocks[0].events = events;
    Ok(blocks)
}

/// A block that says nothing when nothing was answered.
fn answered(mut block: Block) -> Block {
    if Ends::of([&block]).answers == 0 && block.is_valid {
        block.is_valid = false;
        "Not a single request was answered with 2xx or 3xx.".clone_into(&mut block.why_invalid);
    }
    block
}

/// Blocks of loads that ran at the same time, each with what the others were answered.
fn with_answers_beside(mut blocks: Vec<Block>) -> Vec<Block> {
    let answers = |block: &Block| Ends::of([block]).answers;
    let all: u64 = blocks.iter().map(answers).sum();
    for block in &mut blocks {
        block.answers_beside = all - answers(block);
    }
    blocks
}

/// Sends the loads, and causes the fault of the first one if it has one.
fn loaded(
    lab: &Lab,
    services: &Services<'_>,
    sample: &Sample<'_>,
    set: &Set<'_>,
) -> Result<(Vec<Vec<Report>>, Option<Incident>), LabError> {
    let (load, stop, is_quick) = (sample.load, lab.stop(), sample.is_quick);
    let measure = |load: &Load| (load.amount_of(is_quick), load.delay(is_quick));
    let send = || set.send(&measure, sample.seed, stop);
    let faulty = load.fault.as_ref().zip(load.rate);
    let (Some((fault, rate)), Amount::Time(length)) = (faulty, load.amount_of(is_quick)) else {
        return Ok((send()?, None));
    };
    let Some(address) = services.address(&fault.service) else {
        return Ok((send()?, None));
    };
    std::thread::scope(|scope| {
        let causing = scope.spawn(|| fault::cause(fault, address, length, stop));
        let reports = send();
        let caused = causing.join().expect("it does not panic");
        let reports = reports?;
        let incident = caused?.incident(&reports[0][0], rate);
        Ok((reports, Some(incident)))
    })
}

fn used(before: &Reading, after: &Reading) -> Usage {
    Usage {
        name: after.name.clone(),
        cpu_seconds: after.account.cpu_seconds_since(&before.account),
        rss_peak_bytes: after.account.rss_peak_bytes(),
    }
}
