//! One block: fresh processes, warm-up, measurement, stop.

use std::time::Duration;

use weir_load::report::Report;

use super::events::Way;
use super::fault;
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
    /// What they are asked.
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

/// Measures one block. The caller fills in its place in the run, which is 0 here.
///
/// The warm-up is a run of its own, so that the use of the services can be read between the two. The connections
/// of the measurement are opened within it and count.
pub fn measure(lab: &Lab, sample: &Sample<'_>) -> Result<Block, LabError> {
    let Sample {
        scenario,
        configuration,
        load,
        ..
    } = *sample;
    let mut services = Services::start(lab, scenario, configuration, load)?;
    if !sample.warm_up.is_zero() {
        let amount = Amount::Time(sample.warm_up);
        load.send(services.entry(), amount, sample.seed, lab.stop())?;
        services.check()?;
    }
    let way = scenario.events.as_ref();
    let way = way.map(|events| Way::between(events, &services));
    let way = way.transpose()?;
    // What the warm-up has left to do is no part of what the load costs; what the load leaves to do is.
    let settled = way.map(|way| Ok((way, way.settle(lab.stop())?)));
    let settled = services.or_why_it_ended(settled.transpose())?;
    let before = services.readings();
    let amount = if sample.is_quick {
        load.quick
    } else {
        load.amount
    };
    let (report, incident) = loaded(lab, &services, sample, amount)?;
    let load_s = (report.started_unix, report.seconds);
    let events = settled.map(|(way, before)| way.finish(&before, lab.stop(), load_s));
    let events = services.or_why_it_ended(events.transpose())?;
    let after = services.readings();
    services.check()?;
    let mut block = generator::measured(&report);
    block.configuration.clone_from(&configuration.name);
    block.load.clone_from(&load.name);
    block.incident = incident;
    block.events = events;
    block.services = before
        .iter()
        .zip(&after)
        .map(|(before, after)| used(before, after))
        .collect();
    if report.outcomes.good() == 0 && block.is_valid {
        block.is_valid = false;
        "Not a single request was answered with 2xx or 3xx.".clone_into(&mut block.why_invalid);
    }
    Ok(block)
}

/// Sends the load, and causes the fault of the scenario if it has one.
fn loaded(
    lab: &Lab,
    services: &Services<'_>,
    sample: &Sample<'_>,
    amount: Amount,
) -> Result<(Report, Option<Incident>), LabError> {
    let (load, stop) = (sample.load, lab.stop());
    let send = || load.send(services.entry(), amount, sample.seed, stop);
    let faulty = load.fault.as_ref().zip(load.rate);
    let (Some((fault, rate)), Amount::Time(length)) = (faulty, amount) else {
        return Ok((send()?, None));
    };
    let Some(address) = services.address(&fault.service) else {
        return Ok((send()?, None));
    };
    std::thread::scope(|scope| {
        let causing = scope.spawn(|| fault::cause(fault, address, length, stop));
        let report = send();
        let caused = causing.join().expect("it does not panic");
        let report = report?;
        let incident = caused?.incident(&report, rate);
        Ok((report, Some(incident)))
    })
}

fn used(before: &Reading, after: &Reading) -> Usage {
    Usage {
        name: after.name.clone(),
        cpu_seconds: after.account.cpu_seconds_since(&before.account),
        rss_peak_bytes: after.account.rss_peak_bytes(),
    }
}
