//! Which rungs this weir can run: a rung may need a config key that only later versions know. `weir check` is asked, so
//! that no list has to be kept.

use std::process::{Command, Stdio};

use crate::error::{LabError, Tried as _};
use crate::raw::LeftOut;
use crate::scenario::{Configuration, Kind, Scenario};
use crate::services::Lab;
use crate::services::placeholder::{self, Placeholder};

/// The configurations that can run, and those that cannot. If a config is refused for another reason than the key that
/// its rung needs, that is an error.
pub(super) fn met<'s>(
    lab: &Lab,
    scenario: &'s Scenario,
) -> Result<(Vec<&'s Configuration>, Vec<LeftOut>), LabError> {
    let (mut met, mut left_out) = (Vec::new(), Vec::new());
    for configuration in &scenario.configurations {
        let Some(complaint) = refused(lab, scenario, configuration)? else {
            met.push(configuration);
            continue;
        };
        let name = &configuration.name;
        match &configuration.needs {
            Some(key) if complaint.contains(&format!("{key}: unknown key")) => {
                left_out.push(LeftOut {
                    configuration: name.clone(),
                    why: format!(
                        "it needs the config key \"{key}\", which this version of weir does not know"
                    ),
                });
            }
            _ => {
                let line = complaint.lines().next().unwrap_or_default();
                return Err(LabError::Configuration(format!(
                    "configuration {name:?}: {line}"
                )));
            }
        }
    }
    Ok((met, left_out))
}

/// What `weir check` says against the config of this configuration.
fn refused(
    lab: &Lab,
    scenario: &Scenario,
    configuration: &Configuration,
) -> Result<Option<String>, LabError> {
    for service in &configuration.services {
        if let Kind::Weir { config } = &scenario.services[service]
            && let Some(complaint) = complaint(lab, config)?
        {
            return Ok(Some(complaint));
        }
    }
    Ok(None)
}

fn complaint(lab: &Lab, config: &str) -> Result<Option<String>, LabError> {
    let path = lab.directory().join("weir.toml");
    let mut ports = 1024..;
    let filled = placeholder::fill(config, |placeholder| match placeholder {
        // Any port will do, but each server needs a different one.
        Placeholder::Port | Placeholder::PortOf(_) => ports.next().unwrap_or(1024).to_string(),
        Placeholder::Socket | Placeholder::SocketOf(_) => "socket".to_owned(),
        _ => lab.directory().display().to_string(),
    });
    std::fs::write(&path, filled).tried(|| format!("write {}", path.display()))?;
    let output = Command::new(lab.weir())
        .args(["check", "--config"])
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .tried(|| format!("start {}", lab.weir().display()))?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
}
