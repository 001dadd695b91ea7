//! What a target asks in its turn: a proxy that is compared with an application must not look cheap because its
//! application is not counted.
//!
//! The target is put under load for a moment, and its connections are followed to the processes at their other ends, and
//! so on. What is found on this machine becomes a part of the target.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::{Plan, scenario};
use crate::cpu::{self, connections};
use crate::error::LabError;
use crate::scenario::Amount;
use crate::services::{Lab, Services};

/// How long a target is watched under load.
const WATCHED: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A chain of services longer than this is not followed further.
const HOPS_MAX: usize = 8;

/// The parts of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The name of the program that is asked; empty when nobody knows.
    pub own: String,
    /// The names of the programs behind it, by the ports of this machine on which they listen.
    pub behind: BTreeMap<u16, String>,
    /// What it asks elsewhere, whose CPU time nobody knows.
    pub elsewhere: BTreeSet<SocketAddr>,
}

/// Looks for the parts of the target with this index. A target that cannot be asked has none; its first block tells why.
pub(super) fn parts(lab: &Lab, plan: &Plan, target: usize) -> Parts {
    let mut parts = Parts::default();
    let _ = watch(lab, plan, target, &mut parts);
    parts
}

fn watch(lab: &Lab, plan: &Plan, target: usize, parts: &mut Parts) -> Result<(), LabError> {
    let scenario = scenario(plan, &[Parts::default(), Parts::default()]);
    let configuration = &scenario.configurations[target];
    let services = Services::start(lab, &scenario, configuration, &plan.load)?;
    let (entry, stop, started) = (services.entry(), lab.stop(), Instant::now());
    let amount = Amount::Time(WATCHED);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| plan.load.send(entry, None, amount, plan.seed, stop));
        while started.elapsed() < WATCHED && !load.is_finished() {
            let processes = services.processes().into_iter().flat_map(|(_, pids)| pids);
            parts.follow(processes.collect());
            std::thread::sleep(LOOK_EVERY);
        }
        load.join().expect("a load does not panic").map(drop)
    })
}

impl Parts {
    /// Adds what `processes` ask now, directly or through others.
    fn follow(&mut self, mut processes: Vec<Pid>) {
        if let Some(name) = processes.first().and_then(|process| cpu::name(*process)) {
            self.own = name;
        }
        let number = |process: &Pid| process.as_raw_nonzero();
        let mut seen: BTreeSet<_> = processes.iter().map(number).collect();
        for _ in 0..HOPS_MAX {
            let mut next = Vec::new();
            for server in connections::servers_of(&processes) {
                let behind = if server.ip().is_loopback() {
                    cpu::processes_of_trees(&cpu::processes_listening(server.port()))
                } else {
                    Vec::new()
                };
                let Some(name) = behind.first().and_then(|process| cpu::name(*process)) else {
                    self.elsewhere.insert(server);
                    continue;
                };
                let new = behind.into_iter().filter(|it| seen.insert(number(it)));
                let new: Vec<Pid> = new.collect();
                if !new.is_empty() {
                    self.behind.insert(server.port(), name);
                    next.extend(new);
                }
            }
            processes = next;
        }
    }
}
