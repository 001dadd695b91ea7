//! Which rungs this weir can run: a rung may need a config key, or a flag of `weir app`, that only later versions know, or that
//! was left out when this one was built. `weir` itself is asked, so that no list has to be kept.

use std::collections::BTreeMap;
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
        let needs = configuration.needs.as_deref();
        let Some(why) = needs.and_then(|key| lacks(key, &complaint)) else {
            let line = complaint.lines().next().unwrap_or_default();
            return Err(LabError::Configuration(format!(
                "configuration {name:?}: {line}"
            )));
        };
        left_out.push(LeftOut {
            configuration: name.clone(),
            why,
        });
    }
    Ok((met, left_out))
}

/// What this weir lacks, if it is `key` that it complains of.
fn lacks(key: &str, complaint: &str) -> Option<String> {
    let says = |what: &str| complaint.contains(&format!("{key}: {what}"));
    if says("unknown key") || says("unknown flag") {
        Some(format!(
            "it needs \"{key}\", which this version of weir does not know"
        ))
    } else if complaint.contains("was built without") {
        Some(format!(
            "it needs \"{key}\", which this weir was built without"
        ))
    } else {
        None
    }
}

/// What this weir says against the configs and flags of this configuration.
fn refused(
    lab: &Lab,
    scenario: &Scenario,
    configuration: &Configuration,
) -> Result<Option<String>, LabError> {
    for name in &configuration.services {
        let complaint = match scenario.service(name, configuration) {
            Kind::Weir { config } => complaint(lab, name, &config)?,
            Kind::App { flags, .. } if !flags.is_empty() => unknown_flag(lab, &flags)?,
            _ => None,
        };
        if complaint.is_some() {
            return Ok(complaint);
        }
    }
    Ok(None)
}

/// The first flag that `weir app` does not have.
fn unknown_flag(lab: &Lab, flags: &[String]) -> Result<Option<String>, LabError> {
    let output = Command::new(lab.weir())
        .args(["app", "--help"])
        .stdin(Stdio::null())
        .output()
        .tried(|| format!("start {}", lab.weir().display()))?;
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = help.split_whitespace();
    let known: Vec<&str> = words.filter_map(|word| word.strip_prefix("--")).collect();
    let named = flags.iter().filter_map(|flag| flag.strip_prefix("--"));
    let mut named = named.map(|flag| flag.split_once('=').map_or(flag, |(name, _)| name));
    let unknown = named.find(|flag| !known.contains(flag));
    Ok(unknown.map(|flag| format!("--{flag}: unknown flag of `weir app`")))
}

/// What `weir check` says against the config of the service `name`.
fn complaint(lab: &Lab, name: &str, config: &str) -> Result<Option<String>, LabError> {
    let path = lab.directory().join("weir.toml");
    let mut ports = 1024..;
    let mut inner: BTreeMap<String, String> = BTreeMap::new();
    let filled = placeholder::fill(config, |placeholder| match placeholder {
        // A node is known by this one.
        Placeholder::Inner => at(&mut inner, name),
        Placeholder::InnerOf(other) => at(&mut inner, other),
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

/// The port of a service, a number of its own that is always the same.
fn at(ports: &mut BTreeMap<String, String>, service: &str) -> String {
    let next = (40_000 + ports.len()).to_string();
    ports.entry(service.to_owned()).or_insert(next).clone()
}
