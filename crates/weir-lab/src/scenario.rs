//! A scenario: which services, which limits, which configurations, which loads, and what others measured.
//!
//! The built-in ones are a file each, `scenarios/NAME.toml`, meant to be read by people. The binary reads them into
//! these types; its ladders and comparisons use the types too. A scenario that was read is valid: names refer to what
//! exists, see [`Scenario::validate`]. Nothing here starts anything.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::raw::{self, Published};
use crate::services::placeholder::{self, Placeholder};

/// The scenarios that come with weir: name and text.
pub const BUILT_IN: [(&str, &str); 8] = [
    ("bad-replica", include_str!("scenarios/bad-replica.toml")),
    ("guard", include_str!("scenarios/guard.toml")),
    (
        "highload-nginx",
        include_str!("scenarios/highload-nginx.toml"),
    ),
    ("overload", include_str!("scenarios/overload.toml")),
    ("protect", include_str!("scenarios/protect.toml")),
    ("reload", include_str!("scenarios/reload.toml")),
    ("replicas", include_str!("scenarios/replicas.toml")),
    (
        "tuning-ladder",
        include_str!("scenarios/tuning-ladder.toml"),
    ),
];

/// A ladder of configurations under the same loads.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The name on the command line.
    pub name: String,
    /// One line.
    pub title: String,
    /// What is asked and why, for the report; Markdown.
    pub about: String,
    /// Where the published figures come from.
    pub source: String,
    /// The services that can be started, by name.
    pub services: BTreeMap<String, Kind>,
    /// The rungs of the ladder, in the order of the report.
    pub configurations: Vec<Configuration>,
    /// The rung that others are compared with.
    pub baseline: String,
    /// What each rung is asked.
    pub loads: Vec<Load>,
    /// Requests a second that the service behind can answer, when the loads exceed that. The report is then about how
    /// much of it is left.
    pub capacity: Option<f64>,
    /// The columns of the notes in tables, from left to right.
    pub columns: Vec<String>,
    /// How much is measured.
    pub effort: Effort,
    /// The same for `--quick`.
    pub quick: Effort,
    /// What others measured, to stand beside ours.
    pub published: Vec<Published>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// How often each rung is measured under each load, with fresh processes every time.
    pub rounds: usize,
    /// How long each block is under load before it is measured.
    pub warm_up: Duration,
}

/// The kinds of services that the laboratory can start.
///
/// In configs and command lines, `{port}` is the port of the service itself. `{port:NAME}` and `{socket:NAME}` are
/// where another one listens. `{dir}` is a private directory, and `{shm}` is one in memory.
#[derive(Debug, Clone)]
pub enum Kind {
    /// `weir app` with this many threads and further flags.
    App {
        /// Threads that answer.
        threads: usize,
        /// Further flags.
        flags: Vec<String>,
    },
    /// `weir serve` with this config.
    Weir {
        /// The file.
        config: String,
    },
    /// nginx with this config; `{temporary}` stands for its directories of temporary files.
    Nginx {
        /// The file.
        config: String,
        /// What it serves: paths below `{dir}` and contents.
        files: BTreeMap<String, String>,
    },
    /// `HAProxy` with this config.
    HaProxy {
        /// The file.
        config: String,
    },
    /// A WSGI module under gunicorn in a private virtualenv, on a Unix socket.
    Gunicorn {
        /// The source of the module; its application is called `app`.
        module: String,
        /// Packages besides gunicorn, as pip names them.
        packages: Vec<String>,
        /// Worker processes.
        workers: usize,
    },
    /// This shell command, which starts something that listens on `{port}`.
    Command {
        /// For `sh -c`.
        line: String,
    },
    /// A service that already runs; it is neither started nor stopped.
    Running {
        /// Where it listens.
        address: weir_load::plan::Address,
        /// The `Host` of requests to it.
        authority: String,
    },
}

/// One rung.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The name in tables.
    pub name: String,
    /// The table of the report it belongs to; empty when there is one only.
    pub group: String,
    /// The services that run, in the order of their start.
    pub services: Vec<String>,
    /// The service that is asked.
    pub entry: String,
    /// The largest share of one CPU that a service gets: 0.2 is a fifth.
    pub cpu_share: BTreeMap<String, f64>,
    /// Cells of its own in the tables, by column: `caching = "yes"`.
    pub notes: BTreeMap<String, String>,
    /// A config key; the rung is left out while this weir does not know it.
    pub needs: Option<String>,
}

/// What a rung is asked.
#[derive(Debug, Clone)]
pub struct Load {
    /// The name in tables.
    pub name: String,
    /// Cells of its own in the tables, by column.
    pub notes: BTreeMap<String, String>,
    /// The method of the request.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// Connections open at once.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Requests a second; `None` is a closed loop.
    pub rate: Option<f64>,
    /// How requests are spread over time.
    pub arrivals: Arrivals,
    /// What `{with:NAME}` stands for in flags and configs while this load runs.
    pub with: BTreeMap<String, String>,
    /// An answer that takes longer is a timeout.
    pub timeout: Duration,
    /// How much is measured.
    pub amount: Amount,
    /// The same for `--quick`.
    pub quick: Amount,
    /// What goes wrong during the load.
    pub fault: Option<Fault>,
}

/// How the requests of a load with a rate are spread over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Even,
    /// As from many clients that do not know of each other.
    Poisson,
    /// So many at once, at even distances.
    Bursts(u32),
}

/// A service that is made bad while a load runs. It needs a load with a rate and a duration, and `weir app --faults`.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The service.
    pub service: String,
    /// One of [`Fault::MODES`].
    pub mode: String,
    /// When it goes bad, as a share of the load's duration from 0 to 1.
    pub from: f64,
    /// When it is well again, likewise.
    pub to: f64,
}

impl Fault {
    /// The service answers 500 to everything, answers two seconds later, or does not answer.
    pub const MODES: [&str; 3] = ["fail", "slow", "hang"];
}

/// The length of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// For this long.
    Time(Duration),
    /// This many requests.
    Requests(u64),
}

/// Which part of a scenario does not fit; entries are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The name of the baseline.
    Baseline,
    /// A load.
    Load(usize),
    /// A configuration.
    Configuration(usize),
}

impl Scenario {
    /// What does not fit together, in words; empty when the scenario can run.
    pub fn validate(&self) -> Vec<(Part, String)> {
        let mut problems = Vec::new();
        for (index, load) in self.loads.iter().enumerate() {
            let same_name = self.loads[..index]
                .iter()
                .any(|other| other.name == load.name);
            let repeated = same_name.then(|| format!("a second load called {:?}", load.name));
            problems.extend(
                repeated
                    .or(load.check().err())
                    .or_else(|| self.problem_of_fault(load))
                    .or_else(|| self.problem_of_values(load))
                    .map(|why| (Part::Load(index), why)),
            );
        }
        for (index, configuration) in self.configurations.iter().enumerate() {
            let mut found = self.problems_of(configuration);
            if self.configurations[..index]
                .iter()
                .any(|other| other.name == configuration.name)
            {
                found.push(format!(
                    "a second configuration called {:?}",
                    configuration.name
                ));
            }
            problems.extend(
                found
                    .into_iter()
                    .map(|problem| (Part::Configuration(index), problem)),
            );
        }
        if self.configuration(&self.baseline).is_none() {
            let problem = format!("there is no configuration {:?}", self.baseline);
            problems.push((Part::Baseline, problem));
        }
        problems
    }

    /// The configuration called `name`.
    pub fn configuration(&self, name: &str) -> Option<&Configuration> {
        self.configurations
            .iter()
            .find(|configuration| configuration.name == name)
    }

    fn problem_of_fault(&self, load: &Load) -> Option<String> {
        let Fault {
            service, from, to, ..
        } = load.fault.as_ref()?;
        let is_timed = |amount| matches!(amount, Amount::Time(_));
        let takes_faults = |kind: &Kind| matches!(kind, Kind::App { flags, .. } if flags.iter().any(|flag| flag == "--faults"));
        let lacking = self
            .configurations
            .iter()
            .find(|configuration| !configuration.services.contains(service));
        if load.rate.is_none() || !is_timed(load.amount) || !is_timed(load.quick) {
            Some("a fault takes a load with a rate and a duration".to_owned())
        } else if from >= to {
            Some("a fault begins before it ends".to_owned())
        } else if !self.services.get(service).is_some_and(takes_faults) {
            Some(format!(
                "{service:?} is not a service of kind \"app\" with the flag \"--faults\""
            ))
        } else {
            lacking.map(|it| format!("{service:?} is not among the services of {:?}", it.name))
        }
    }

    /// A value that a service needs and the load does not have.
    fn problem_of_values(&self, load: &Load) -> Option<String> {
        let texts = self.services.values().flat_map(Kind::texts);
        let mut used = texts.flat_map(placeholder::all);
        used.find_map(|used| match used {
            Placeholder::With(name) if !load.with.contains_key(name) => Some(format!(
                "a service takes {{with:{name}}}, which is not in \"with\""
            )),
            _ => None,
        })
    }

    fn problems_of(&self, configuration: &Configuration) -> Vec<String> {
        let mut problems = Vec::new();
        let Configuration {
            services,
            entry,
            cpu_share,
            ..
        } = configuration;
        for name in services.iter().chain([entry]).chain(cpu_share.keys()) {
            if !self.services.contains_key(name) {
                problems.push(format!("there is no service {name:?}"));
            } else if !services.contains(name) {
                problems.push(format!("{name:?} is not among its services"));
            }
        }
        for name in services {
            let texts = self.services.get(name).map_or_else(Vec::new, Kind::texts);
            for used in texts.into_iter().flat_map(placeholder::all) {
                if let Placeholder::PortOf(other) | Placeholder::SocketOf(other) = used
                    && !services.iter().any(|service| service == other)
                {
                    problems.push(format!(
                        "{name:?} refers to {other:?}, which is not among its services"
                    ));
                }
            }
        }
        let figures = self
            .published
            .iter()
            .filter(|figure| figure.configuration == configuration.name);
        let unknown =
            figures.filter(|figure| self.loads.iter().all(|load| load.name != figure.load));
        problems.extend(unknown.map(|figure| {
            format!(
                "a figure is published for the load {:?}, which there is not",
                figure.load
            )
        }));
        problems.sort();
        problems.dedup();
        problems
    }
}

impl Kind {
    /// The name in scenario files and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::App { .. } => "app",
            Self::Weir { .. } => "weir",
            Self::Nginx { .. } => "nginx",
            Self::HaProxy { .. } => "haproxy",
            Self::Gunicorn { .. } => "gunicorn",
            Self::Command { .. } => "command",
            Self::Running { .. } => "running",
        }
    }

    /// What placeholders may stand in: the config file, the module or the command line.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Weir { config } | Self::Nginx { config, .. } | Self::HaProxy { config } => {
                vec![config]
            }
            Self::Gunicorn { module, .. } => vec![module],
            Self::Command { line } => vec![line],
            Self::App { flags, .. } => flags.iter().map(String::as_str).collect(),
            Self::Running { .. } => Vec::new(),
        }
    }
}

impl Load {
    /// The default of [`Load::timeout`].
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

    /// The load for the raw data.
    pub fn raw(&self, is_quick: bool) -> raw::Load {
        let amount = if is_quick { self.quick } else { self.amount };
        raw::Load {
            name: self.name.clone(),
            notes: self.notes.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            connections: self.connections,
            threads: self.threads,
            keep_alive: self.keep_alive,
            rate: self.rate,
            arrivals: self.arrivals.in_words(),
            timeout_s: Some(self.timeout.as_secs_f64()),
            amount: amount.in_words(),
        }
    }
}

impl Arrivals {
    /// In words, for reports.
    pub fn in_words(self) -> String {
        match self {
            Self::Even => "evenly".to_owned(),
            Self::Poisson => "Poisson".to_owned(),
            Self::Bursts(count) => format!("{count} at once"),
        }
    }
}

impl Amount {
    /// In words, for reports.
    pub fn in_words(self) -> String {
        match self {
            Self::Time(time) => format!("{} s", time.as_secs_f64()),
            Self::Requests(count) => format!("{count} requests"),
        }
    }
}
