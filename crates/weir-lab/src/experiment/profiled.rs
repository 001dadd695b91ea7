//! Profiles of a run: one more block for each rung, which is profiled and not measured.

use std::path::Path;
use std::time::Duration;

use crate::error::LabError;
use crate::profile::{Profiler, Target};
use crate::raw::Run;
use crate::scenario::{Amount, Scenario};
use crate::services::{Lab, Services};

/// How long a rung is profiled.
const LOOKED_AT: Duration = Duration::from_secs(3);
/// How long the profiler may go on when the load hangs.
const LONGEST: Duration = Duration::from_secs(60);

/// Profiles each rung of `run` under the last load of the scenario, usually the heaviest, and writes the profiles into
/// `directory`. `on_profile` is called with the rung before each one.
pub fn profile(
    lab: &Lab,
    scenario: &Scenario,
    run: &Run,
    directory: &Path,
    on_profile: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let Some(load) = scenario.loads.last() else {
        return Ok(());
    };
    for ran in &run.configurations {
        let Some(configuration) = scenario.configuration(&ran.name) else {
            continue;
        };
        if lab.is_stopped() {
            return Ok(());
        }
        on_profile(&configuration.name);
        let services = Services::start(lab, scenario, configuration, load)?;
        let warm_up = Amount::Time(scenario.quick.warm_up.max(Duration::from_millis(100)));
        load.send(services.entry(), warm_up, 0, lab.stop())?;
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
        let title = format!("{}, {}", configuration.name, load.name);
        let profiled = |error: crate::profile::ProfileError| LabError::Profile(error.to_string());
        let profiler = Profiler::start(&title, &targets, LONGEST, directory).map_err(profiled)?;
        let report = load.send(services.entry(), Amount::Time(LOOKED_AT), 1, lab.stop())?;
        profiler.finish(report.requests()).map_err(profiled)?;
    }
    Ok(())
}
