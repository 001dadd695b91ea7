//! The services of a configuration. They start together on loopback, each in its own process group with a private
//! directory, and stop together.
//!
//! [`Lab`] is what all starts share: the janitor that cleans up in any case, directories, CPU shares. [`Services`] is
//! one start. `recipe` says how a service is started; [`janitor`] makes sure that nothing is left behind. Nothing here
//! sends requests or knows why services run.

mod address;
pub(crate) mod cgroup;
mod cql;
mod databases;
mod environment;
pub mod janitor;
pub(crate) mod jars;
mod kept;
mod location;
pub mod placeholder;
pub mod process;
pub(crate) mod recipe;
pub mod versions;
pub(crate) mod virtualenv;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use weir_load::plan::Address;

use self::janitor::Item;
use self::location::Location;
use self::placeholder::Placeholder;
use self::process::{Process, Start};
use self::recipe::Recipe;
use crate::cpu::{self, Account};
use crate::error::{LabError, Tried as _};
use crate::scenario::{Configuration, Kind, Load, Scenario};

pub use self::environment::Lab;

/// How long a service may take to listen. Python on a busy machine is slow to start.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long a service may take to end by itself.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(2);

/// The running services of a configuration. Dropping them stops them.
#[derive(Debug)]
pub struct Services<'lab> {
    lab: &'lab Lab,
    /// The services, in the order of their start.
    running: Vec<Service>,
    /// Where each service listens, also those not started yet.
    locations: BTreeMap<String, Location>,
    entry: String,
    /// The values that the load brings.
    values: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Service {
    name: String,
    /// `None` for a service that weir did not start.
    process: Option<Process>,
    cgroup: Option<Item>,
}

/// What a service had used at some moment.
#[derive(Debug)]
pub struct Reading {
    /// The name in the scenario.
    pub name: String,
    /// Its CPU time and memory.
    pub account: Account,
}

impl<'lab> Services<'lab> {
    /// Starts the services of `configuration` in their order and waits until each listens.
    pub fn start(
        lab: &'lab Lab,
        scenario: &Scenario,
        configuration: &Configuration,
        load: &Load,
    ) -> Result<Self, LabError> {
        let mut services = Self {
            lab,
            values: load.with.clone(),
            running: Vec::new(),
            locations: location::all(lab, scenario, configuration)?,
            entry: configuration.entry.clone(),
        };
        for name in &configuration.services {
            let share = configuration.cpu_share.get(name).copied();
            let kind = scenario.service(name, configuration);
            services.start_one(name, &kind, share)?;
        }
        Ok(services)
    }

    /// Where requests go, and their `Host`.
    pub fn entry(&self) -> (Address, String) {
        self.target(&self.entry)
    }

    /// The service that is asked.
    pub fn entry_name(&self) -> &str {
        &self.entry
    }

    /// Where requests to a service of the configuration go, and their `Host`.
    pub fn target(&self, name: &str) -> (Address, String) {
        let location = &self.locations[name];
        (location.address.clone(), location.authority.clone())
    }

    /// The service whose `Host` this is.
    pub fn name_at(&self, authority: &str) -> Option<&str> {
        let mut locations = self.locations.iter();
        let found = locations.find(|(_, location)| location.authority == authority);
        found.map(|(name, _)| name.as_str())
    }

    /// Where a service of the configuration listens, if it is on TCP.
    pub fn address(&self, name: &str) -> Option<SocketAddr> {
        match self.locations.get(name)?.address {
            Address::Tcp(address) => Some(address),
            Address::Unix(_) => None,
        }
    }

    /// What the services have used so far. A process counts once, for the first service that it belongs to.
    pub fn readings(&self) -> Vec<Reading> {
        let mut counted = BTreeSet::new();
        let services = self.running.iter().map(|service| {
            let all = self.processes_of(service);
            let own = all.iter().copied();
            // Replicas may be ports of one process.
            let own = own.filter(|process| counted.insert(process.as_raw_nonzero()));
            let own: Vec<Pid> = own.collect();
            Reading {
                name: service.name.clone(),
                account: if own.is_empty() && !all.is_empty() {
                    Account::elsewhere()
                } else {
                    Account::of(&own)
                },
            }
        });
        services.collect()
    }

    /// The processes of each service, for profiles.
    pub fn processes(&self) -> Vec<(String, Vec<Pid>)> {
        let services = self.running.iter();
        services
            .map(|service| (service.name.clone(), self.processes_of(service)))
            .collect()
    }

    /// Fails with the last output of a service that has ended.
    pub fn check(&mut self) -> Result<(), LabError> {
        for service in &mut self.running {
            if let Some(process) = &mut service.process
                && let Ok(Some(status)) = process.try_wait()
            {
                let why = format!("it ended with {status}: {}", process.last_words());
                return Err(LabError::Service {
                    name: service.name.clone(),
                    why,
                });
            }
        }
        Ok(())
    }

    /// An error may be that a service has ended, which says more.
    pub fn or_why_it_ended<T>(&mut self, result: Result<T, LabError>) -> Result<T, LabError> {
        if result.is_err() {
            self.check()?;
        }
        result
    }

    fn processes_of(&self, service: &Service) -> Vec<Pid> {
        match &service.process {
            // Children may have groups of their own, as those of Postgres.
            Some(process) => cpu::processes_of_trees(&cpu::processes_of_group(process.group())),
            None => match &self.locations[&service.name].address {
                Address::Tcp(address) => {
                    cpu::processes_of_trees(&cpu::processes_listening(address.port()))
                }
                Address::Unix(_) => Vec::new(),
            },
        }
    }

    /// Fetches what a service needs from a package registry, once.
    pub(crate) fn fetch(lab: &Lab, recipe: &Recipe) -> Result<PathBuf, LabError> {
        match (&recipe.packages, recipe.jars) {
            (Some(packages), _) => virtualenv::prepare(lab, packages),
            (None, Some(jars)) => jars::prepare(lab, jars),
            (None, None) => Ok(PathBuf::new()),
        }
    }

    fn start_one(&mut self, name: &str, kind: &Kind, share: Option<f64>) -> Result<(), LabError> {
        let service = Service {
            name: name.to_owned(),
            process: None,
            cgroup: None,
        };
        self.running.push(service);
        let Some(recipe) = Recipe::of(name, kind, rustix::process::geteuid().is_root()) else {
            return Ok(());
        };
        let directory = self.locations[name]
            .directory
            .clone()
            .expect("what is started has a directory");
        let fetched = Self::fetch(self.lab, &recipe)?;
        let fill = |text: &str| {
            placeholder::fill(text, |placeholder| {
                self.value(placeholder, name, &directory, &fetched)
            })
        };
        // A value of several words is several arguments.
        let arguments = |text: &String| -> Vec<String> {
            let filled = fill(text);
            if placeholder::all(text)
                .iter()
                .any(|it| matches!(it, Placeholder::With(_)))
            {
                filled.split_whitespace().map(str::to_owned).collect()
            } else {
                vec![filled]
            }
        };
        let mut command: Vec<String> = recipe.command.iter().flat_map(arguments).collect();
        for (file, content) in &recipe.files {
            write(&directory.join(file), &fill(content))?;
        }
        recipe::require_program(kind)?;
        if let Some(program) = recipe::find_program(&command[0]) {
            command[0] = program.display().to_string();
        }
        let (join, cgroup) = match share {
            Some(share) => {
                let (members, item) = self.lab.make_cgroup(share)?;
                (Some(members), Some(item))
            }
            None => (None, None),
        };
        let service = self.running.last_mut().expect("it was pushed above");
        service.cgroup = cgroup;
        let start = Start {
            weir: self.lab.weir(),
            janitor: self.lab.janitor(),
            command: &command,
            output: directory.join("output.txt"),
            directory: &directory,
            join,
        };
        service.process = Some(Process::start(&start).tried(|| format!("start {name}"))?);
        self.wait_until_it_is_ready(recipe.ready)?;
        let asked = recipe.statement.zip(self.address(name));
        asked.map_or(Ok(()), |(statement, address)| {
            cql::carry_out(address, statement).map_err(|error| LabError::Service {
                name: name.to_owned(),
                why: format!("`{statement}`: {error}"),
            })
        })
    }

    fn value(
        &self,
        placeholder: Placeholder<'_>,
        name: &str,
        directory: &Path,
        fetched: &Path,
    ) -> String {
        let directory = || directory.display().to_string();
        match placeholder {
            Placeholder::Port => self.port(name),
            Placeholder::PortOf(other) => self.port(other),
            Placeholder::Inner => self.locations[name].inner.to_string(),
            Placeholder::InnerOf(other) => self.inner(other),
            Placeholder::Storage => self.locations[name].storage.to_string(),
            Placeholder::Socket => self.socket(name),
            Placeholder::SocketOf(other) => self.socket(other),
            Placeholder::With(name) => self.values.get(name).cloned().unwrap_or_default(),
            Placeholder::Directory => directory(),
            Placeholder::Memory => self.lab.memory_directory().display().to_string(),
            Placeholder::Temporary => recipe::nginx_temporary(&directory()),
            Placeholder::Weir => self.lab.weir().display().to_string(),
            Placeholder::Virtualenv | Placeholder::Jars => fetched.display().to_string(),
        }
    }

    /// Empty for a service on a Unix socket: nginx then reports the mistake in the scenario.
    fn port(&self, name: &str) -> String {
        match self.locations.get(name).map(|location| &location.address) {
            Some(Address::Tcp(address)) => address.port().to_string(),
            _ => String::new(),
        }
    }

    fn inner(&self, name: &str) -> String {
        let location = self.locations.get(name);
        location.map_or(String::new(), |location| location.inner.to_string())
    }

    fn socket(&self, name: &str) -> String {
        match self.locations.get(name).map(|location| &location.address) {
            Some(Address::Unix(path)) => path.display().to_string(),
            _ => String::new(),
        }
    }

    /// Waits until the service that was started last listens and, if that is not enough, has printed `words`.
    fn wait_until_it_is_ready(&mut self, words: Option<&str>) -> Result<(), LabError> {
        let service = self.running.last_mut().expect("one was started");
        let address = &self.locations[&service.name].address;
        let process = service.process.as_mut().expect("one was started");
        let started = Instant::now();
        loop {
            if location::accepts(address) && words.is_none_or(|words| process.has_printed(words)) {
                return Ok(());
            }
            let name = || service.name.clone();
            if let Ok(Some(status)) = process.try_wait() {
                let why = format!("it ended with {status}: {}", process.last_words());
                return Err(LabError::Service { name: name(), why });
            }
            if self.lab.is_stopped() {
                return Err(LabError::Stopped);
            }
            if started.elapsed() > START_PATIENCE {
                let seconds = START_PATIENCE.as_secs();
                let why = format!(
                    "it does not listen after {seconds} s: {}",
                    process.last_words()
                );
                return Err(LabError::Service { name: name(), why });
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Services<'_> {
    fn drop(&mut self) {
        let services = std::mem::take(&mut self.running);
        for process in services
            .iter()
            .rev()
            .filter_map(|service| service.process.as_ref())
        {
            process.ask_to_stop();
        }
        for service in services.into_iter().rev() {
            if let Some(process) = service.process {
                process.stop(STOP_PATIENCE, self.lab.janitor());
            }
            if let Some(cgroup) = service.cgroup {
                self.lab.remove(&cgroup);
            }
        }
        let directories = self
            .locations
            .values()
            .filter_map(|location| location.directory.as_ref());
        for directory in directories {
            let _ = std::fs::remove_dir_all(directory);
        }
        self.lab.empty_memory_directory();
    }
}

fn write(path: &Path, content: &str) -> Result<(), LabError> {
    let directory = path.parent().unwrap_or(path);
    let made = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(path, content));
    made.tried(|| format!("write {}", path.display()))
}
