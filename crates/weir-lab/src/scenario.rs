//! A scenario: which services, which limits, which configurations, which loads, and what others measured.
//!
//! The built-in ones are a file each, `scenarios/NAME.toml`, meant to be read by people. The binary reads them into
//! these types; its ladders and comparisons use the types too. A scenario that was read is valid: names refer to what
//! exists, see [`Scenario::validate`]. Nothing here starts anything.

mod check;
mod load;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::raw::Published;

pub use self::check::Part;
pub use self::load::{Amount, Arrivals, Beside, Fault, Load};

/// The scenarios that come with weir: name and text.
pub const BUILT_IN: [(&str, &str); 11] = [
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
    ("sharding", include_str!("scenarios/sharding.toml")),
    ("sql-nosql", include_str!("scenarios/sql-nosql.toml")),
    ("sync-async", include_str!("scenarios/sync-async.toml")),
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
    /// The services between which events are counted, when the loads make some.
    pub events: Option<Events>,
    /// CPUs that are the generator's alone; 0: it shares all of them with the services.
    pub generator_cpus: usize,
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

/// Two services of kind "app": one makes an event for each request, the other one handles it, at once or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// Where they are made.
    pub from: String,
    /// Where they are handled.
    pub to: String,
    /// How long it may take after the load until all are handled.
    pub patience: Duration,
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
    /// A broker of Kafka, which is its own controller.
    Kafka,
    /// A server of Postgres with a new database, whose superuser is `weir`.
    Postgres {
        /// Of the server, by name.
        settings: BTreeMap<String, String>,
    },
    /// A node of Cassandra, with the keyspace `weir`.
    Cassandra {
        /// Lines of `cassandra.yaml`, by name.
        settings: BTreeMap<String, String>,
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
    /// Further flags of services of kind "app", by service.
    pub flags: BTreeMap<String, Vec<String>>,
    /// Cells of its own in the tables, by column: `caching = "yes"`.
    pub notes: BTreeMap<String, String>,
    /// What `{with:NAME}` stands for in configs, flags and command lines of its services.
    pub with: BTreeMap<String, String>,
    /// A config key; the rung is left out while this weir does not know it.
    pub needs: Option<String>,
    /// Whether each key is asked for at the service that has it, which the entry says beforehand by a redirect.
    pub is_led: bool,
}

impl Scenario {
    /// The service `name` as it runs in `configuration`, with the flags and values that it has there.
    pub fn service(&self, name: &str, configuration: &Configuration) -> Kind {
        let mut kind = self.services[name].clone();
        if let (Kind::App { flags, .. }, Some(more)) = (&mut kind, configuration.flags.get(name)) {
            flags.extend_from_slice(more);
        }
        for text in kind.texts_mut() {
            for (name, value) in &configuration.with {
                *text = text.replace(&format!("{{with:{name}}}"), value);
            }
        }
        kind
    }

    /// The loads that run by themselves, each with those that run beside it.
    pub fn sets(&self) -> Vec<Vec<&Load>> {
        let leading = self.loads.iter().filter(|load| load.beside.is_none());
        leading.map(|load| self.set_of(load)).collect()
    }

    /// A load, and behind it those that run beside it.
    pub fn set_of<'s>(&'s self, leading: &'s Load) -> Vec<&'s Load> {
        let is_beside = |load: &&Load| {
            let beside = load.beside.as_ref();
            beside.is_some_and(|beside| beside.load == leading.name)
        };
        let others = self.loads.iter().filter(is_beside);
        std::iter::once(leading).chain(others).collect()
    }

    /// The configuration called `name`.
    pub fn configuration(&self, name: &str) -> Option<&Configuration> {
        self.configurations
            .iter()
            .find(|configuration| configuration.name == name)
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
            Self::Kafka => "kafka",
            Self::Postgres { .. } => "postgres",
            Self::Cassandra { .. } => "cassandra",
            Self::Command { .. } => "command",
            Self::Running { .. } => "running",
        }
    }

    fn texts_mut(&mut self) -> Vec<&mut String> {
        match self {
            Self::Weir { config } | Self::Nginx { config, .. } | Self::HaProxy { config } => {
                vec![config]
            }
            Self::Gunicorn { module, .. } => vec![module],
            Self::Command { line } => vec![line],
            Self::App { flags, .. } => flags.iter_mut().collect(),
            Self::Kafka | Self::Postgres { .. } | Self::Cassandra { .. } | Self::Running { .. } => {
                Vec::new()
            }
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
            Self::Kafka | Self::Postgres { .. } | Self::Cassandra { .. } | Self::Running { .. } => {
                Vec::new()
            }
        }
    }
}
