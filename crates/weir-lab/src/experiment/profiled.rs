//! Profiles of a run: one more block for each rung, which is profiled and not measured.

use std::path::Path;
use std::time::Duration;

use weir_load::report::Report;

use super::set::Set;
use crate::apart::Apart;
use crate::error::LabError;
use crate::profile::{Profiler, Target};
use crate::raw::Run;
use crate::scenario::{Amount, Load, Scenario};
use crate::services::{Lab, Services};

/// How long a rung is profiled.
const LOOKED_AT: Duration = Duration::from_secs(3);
/// How long the profiler may go on when the load hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// Profiles each rung of `run` under the last load of the scenario, usually the heaviest, with those beside it, and writes the profiles into
/// `directory`. `on_profile` is called with the rung before each one.
pub fn profile(
    lab: &Lab,
    scenario: &Scenario,
    run: &Run,
    directory: &Path,
    on_profile: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let Some(loads) = scenario.sets().pop() else {
        return Ok(());
    };
    let load = loads[0];
    let longest = loads.iter().map(|load| load.delay(true)).max();
    for ran in &run.configurations {
        let Some(configuration) = scenario.configuration(&ran.name) else {
            continue;
        };
        if lab.is_stopped() {
            return Ok(());
        }
        on_profile(&configuration.name);
        let apart = Apart::of(scenario.generator_cpus)?;
        let _confined = apart.map(Apart::confine).transpose()?;
        let services = Services::start(lab, scenario, configuration, load)?;
        let set = Set::of(lab, &services, (configuration, apart), &loads)?;
        let warm_up = Amount::Time(scenario.quick.warm_up.max(Duration::from_millis(100)));
        set.send(&|_| (warm_up, Duration::ZERO), 0, lab.stop())?;
        let targets = services
            .processes()
            .into_iter()
            .map(|(name, processes)| Target {
                name,
                pids: processes
                    .iter()
                    .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
                    .collect(),
            });
        let targets: Vec<Target> = targets.collect();
        let names: Vec<&str> = loads.iter().map(|load| load.name.as_str()).collect();
        let title = format!("{}, {}", configuration.name, names.join(" and "));
        let profiled = |error: crate::profile::ProfileError| LabError::Profile(error.to_string());
        let profiler = Profiler::start(&title, &targets, LONGEST, directory).map_err(profiled)?;
        // All end together.
        let end = LOOKED_AT + longest.unwrap_or_default();
        let measure = |load: &Load| {
            let delay = load.delay(true);
            (Amount::Time(end.saturating_sub(delay)), delay)
        };
        let reports = set.send(&measure, 1, lab.stop())?;
        let requests = reports.iter().flatten().map(Report::requests).sum();
        profiler.finish(requests).map_err(profiled)?;
    }
    Ok(())
}
