//! Loads that are sent at the same time, and where each of them goes: to the entry, or, on a rung that is led, each key to the
//! service that has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use weir_load::plan::Address;
use weir_load::report::Report;

use super::led;
use crate::apart::Apart;
use crate::error::{LabError, Tried as _};
use crate::scenario::{Amount, Configuration, Load};
use crate::services::{Lab, Services};

/// How often a load that begins later looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Loads that are sent at the same time.
#[derive(Debug)]
pub(super) struct Set<'s> {
    members: Vec<Member<'s>>,
}

#[derive(Debug)]
struct Member<'s> {
    load: &'s Load,
    apart: Option<Apart>,
    parts: Vec<Part>,
}

/// What one service is sent of a load.
#[derive(Debug)]
struct Part {
    load: Load,
    target: (Address, String),
    /// The file of the keys that it is asked for.
    keys: Option<PathBuf>,
}

/// How much of each load is sent, and when it begins.
pub(super) type Measure<'m> = dyn Fn(&Load) -> (Amount, Duration) + Sync + 'm;

impl<'s> Set<'s> {
    /// Finds out where `loads` go. They are sent from the CPUs of the generator, where it has some of its own.
    pub(super) fn of(
        lab: &Lab,
        services: &Services<'_>,
        (configuration, apart): (&Configuration, Option<Apart>),
        loads: &[&'s Load],
    ) -> Result<Self, LabError> {
        let member = |load: &&'s Load| {
            let parts = if configuration.is_led {
                led_parts(lab, services, load)?
            } else {
                vec![Part {
                    load: (*load).clone(),
                    target: services.entry(),
                    keys: load
                        .keys
                        .map(|keys| file(lab, "all", 0..keys))
                        .transpose()?,
                }]
            };
            Ok(Member { load, apart, parts })
        };
        let members = loads.iter().map(member);
        Ok(Self {
            members: members.collect::<Result<_, LabError>>()?,
        })
    }

    /// Sends all, each as `measure` says. For each load the reports of its parts, at least one.
    pub(super) fn send(
        &self,
        measure: &Measure<'_>,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Vec<Vec<Report>>, LabError> {
        std::thread::scope(|scope| {
            let members = self.members.iter();
            let begun: Vec<Vec<_>> = members
                .map(|member| member.begin(scope, measure, seed, stop))
                .collect();
            let ended = begun.into_iter().map(|parts| {
                let parts = parts.into_iter();
                let reports = parts.map(|part| part.join().expect("it does not panic"));
                reports.collect::<Result<Vec<_>, _>>()
            });
            // All are waited for, also when one could not be sent.
            let ended: Vec<_> = ended.collect();
            ended.into_iter().collect()
        })
    }
}

impl Member<'_> {
    fn begin<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        measure: &Measure<'_>,
        seed: u64,
        stop: &'scope AtomicBool,
    ) -> Vec<ScopedJoinHandle<'scope, Result<Report, LabError>>> {
        let (amount, delay) = measure(self.load);
        let apart = self.apart;
        let parts = self.parts.iter();
        parts
            .map(|part| {
                scope.spawn(move || {
                    apart.map_or(Ok(()), Apart::generate)?;
                    wait(delay, stop);
                    let keys = part.keys.as_deref();
                    part.load
                        .send(part.target.clone(), keys, amount, seed, stop)
                })
            })
            .collect()
    }
}

fn wait(delay: Duration, stop: &AtomicBool) {
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = delay.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// A part for each service that has keys, with its share of rate and connections.
fn led_parts(lab: &Lab, services: &Services<'_>, load: &Load) -> Result<Vec<Part>, LabError> {
    let keys = load.keys.unwrap_or_default();
    let owners = led::owners(services, load, keys)?;
    let parts = owners.into_iter().map(|(name, own)| {
        let share = own.len() as f64 / f64::from(keys);
        let mut load = load.clone();
        load.rate = load.rate.map(|rate| rate * share);
        load.threads = 1;
        load.connections = ((load.connections as f64 * share).round() as usize).max(1);
        Ok(Part {
            target: services.target(&name),
            keys: Some(file(lab, &name, own)?),
            load,
        })
    });
    parts.collect()
}

/// Writes keys, a line each.
fn file(lab: &Lab, name: &str, keys: impl IntoIterator<Item = u32>) -> Result<PathBuf, LabError> {
    let path: &Path = lab.directory();
    let path = path.join(format!("keys-{name}"));
    let lines: Vec<String> = keys.into_iter().map(|key| format!("{key}\n")).collect();
    fs::write(&path, lines.concat()).tried(|| format!("write {}", path.display()))?;
    Ok(path)
}
