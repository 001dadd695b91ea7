//! A scenario: which services, which limits, which configurations, which loads, and what others measured.
//!
//! Each is one file that a person can read, `scenarios/NAME.toml`; these are the types it is read into.

use std::collections::BTreeMap;

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
    /// All that can be started, by name.
    pub services: BTreeMap<String, Service>,
    /// The rungs of the ladder, in the order of the report.
    pub configurations: Vec<Configuration>,
    /// What each rung is asked.
    pub loads: Vec<Load>,
    /// How often each rung is measured under each load, with fresh processes every time.
    pub rounds: usize,
    /// What others measured, to stand beside ours.
    pub published: Vec<Published>,
}

/// A process, or several that start together.
#[derive(Debug, Clone)]
pub struct Service {
    /// What it is.
    pub kind: Kind,
    /// At most this share of one CPU (0.2 is a fifth), by a cgroup of its own. `None` is unlimited.
    pub cpu_share: Option<f64>,
}

/// The kinds of services that the laboratory can start.
#[derive(Debug, Clone)]
pub enum Kind {
    /// `weir app` with these further flags.
    App(Vec<String>),
    /// `weir serve` with this config; `{port}`, `{dir}`, `{port:NAME}` and `{socket:NAME}` are filled in.
    Weir(String),
    /// nginx with this config, filled in alike.
    Nginx(String),
    /// HAProxy with this config, filled in alike.
    HaProxy(String),
    /// A WSGI module under gunicorn in a private virtualenv, on a Unix socket.
    Gunicorn {
        /// The source of the module; its application is called `app`.
        module: String,
        /// Worker processes.
        workers: usize,
    },
}

/// One rung.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The name in tables.
    pub name: String,
    /// The services that run, in the order of their start.
    pub services: Vec<String>,
    /// The service that is asked.
    pub entry: String,
    /// Cells of its own in the tables, by column: `caching = "yes"`.
    pub notes: BTreeMap<String, String>,
}

/// What is asked of a rung.
#[derive(Debug, Clone)]
pub struct Load {
    /// The name in tables.
    pub name: String,
    /// Method, path, headers and body of the request.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Name and value.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// Connections open at once.
    pub connections: usize,
    /// How much: a time or a number of requests.
    pub amount: Amount,
    /// The same for `--quick`.
    pub quick: Amount,
}

/// The length of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Seconds.
    Seconds(f64),
    /// Requests.
    Requests(u64),
}

/// A figure of others.
#[derive(Debug, Clone)]
pub struct Published {
    /// The rung it belongs to.
    pub configuration: String,
    /// The load it belongs to.
    pub load: String,
    /// Requests per second.
    pub rate: Option<f64>,
    /// Milliseconds by percentile or `mean`.
    pub latency_ms: BTreeMap<String, f64>,
}
