//! The raw data of a run: everything measured, and everything needed to judge it, in one file `raw.json`.
//!
//! It is written again after every block, so what was measured survives however the run ends. `report` reads only this
//! file and the profiles beside it: a report can be made from them years later. Fields may be added but never change
//! their meaning; [`FORMAT`] grows when that cannot be kept. Nothing here measures or computes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The name of the file in the directory of a run.
pub const FILE: &str = "raw.json";
/// The version of this format. Version 1 had CPU time per request, with failed ones counted; since version 2 the reader
/// computes it.
pub const FORMAT: u32 = 2;

/// A run of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// The name of the scenario on the command line.
    pub scenario: String,
    /// One line.
    pub title: String,
    /// What was asked and why; Markdown.
    pub about: String,
    /// Where the published figures come from.
    pub source: String,
    /// When the run began: RFC 3339, UTC.
    pub started: String,
    /// How long the run took.
    pub seconds: f64,
    /// Whether it was shortened with `--quick`.
    pub is_quick: bool,
    /// Whether the run ended before its last block, or is still going on.
    pub is_interrupted: bool,
    /// Which block could not be measured, and why; the run ended with it.
    #[serde(default)]
    pub failure: Option<String>,
    /// What to type to run it again.
    pub command: String,
    /// How often each configuration was to be measured under each load.
    pub rounds: usize,
    /// The configuration that others are compared with.
    pub baseline: String,
    /// Requests a second that the service behind can answer; only for scenarios that exceed it.
    #[serde(default)]
    pub capacity: Option<f64>,
    /// CPUs that were the generator's alone; `None`: it shared all of them with the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_cpus: Option<usize>,
    /// The columns of notes in the tables of the report, from left to right; others follow in alphabetical order.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// The programs that took part, each with its version text.
    pub programs: Vec<Program>,
    /// The rungs that ran, in the order of the report.
    pub configurations: Vec<Configuration>,
    /// The rungs that did not run.
    pub left_out: Vec<LeftOut>,
    /// What each rung was asked, in the order of the report.
    pub loads: Vec<Load>,
    /// All measurements, in the order they were made.
    pub blocks: Vec<Block>,
    /// What others measured.
    pub published: Vec<Published>,
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of the processor.
    pub processor: String,
    /// How many CPUs the run may use.
    pub cpus: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel and its release.
    pub system: String,
    /// `cgroup v1`, `cgroup v2`, or why CPU shares cannot be given.
    pub cpu_shares: String,
    /// The limit of open files of a process.
    pub open_files: u64,
}

/// A program that took part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its own version text, one line.
    pub version: String,
}

/// A rung of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The name in tables.
    pub name: String,
    /// The table of the report it belongs to; empty when there is one only.
    pub group: String,
    /// Cells of its own in the tables, by column name.
    pub notes: BTreeMap<String, String>,
    /// The service that is asked.
    pub entry: String,
    /// The services, in the order of their start.
    pub services: Vec<Service>,
}

/// A service of a rung, as it was started. Ports and directories are the placeholders of the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// The name in the scenario.
    pub name: String,
    /// `app`, `weir`, `nginx`, `haproxy`, `gunicorn`, `kafka`, `postgres`, `cassandra`, `command` or `running`.
    pub kind: String,
    /// The command line.
    pub command: String,
    /// The config file; empty when it has none.
    pub config: String,
    /// At most this share of one CPU.
    pub cpu_share: Option<f64>,
}

/// A rung that did not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub configuration: String,
    /// Why: one sentence.
    pub why: String,
}

/// What a rung is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The name in tables.
    pub name: String,
    /// Cells of its own in the tables, by column; they win over those of the configuration.
    pub notes: BTreeMap<String, String>,
    /// Method.
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
    #[serde(default)]
    pub keep_alive: bool,
    /// Requests a second that were meant to be sent; `None` is a closed loop.
    pub rate: Option<f64>,
    /// How requests are spread over time, in words; empty means evenly.
    #[serde(default)]
    pub arrivals: String,
    /// The load that it runs beside, and how much later it begins, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Seconds after which an answer counts as a timeout; `None` is the default of the generator at that time.
    #[serde(default)]
    pub timeout_s: Option<f64>,
    /// The length of a measurement in words: `8,000 requests`, `20 s`.
    pub amount: String,
}

/// One measurement of one rung under one load, with processes of its own: a sample of the statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The rung.
    pub configuration: String,
    /// The load.
    pub load: String,
    /// The round it belongs to, from 0; blocks of a round are compared with each other.
    pub round: usize,
    /// Its place among all blocks, from 0.
    pub order: usize,
    /// Seconds from the beginning of the run to the beginning of the block.
    pub at_seconds: f64,
    /// How long the measurement took.
    pub seconds: f64,
    /// Requests that ended in any way.
    pub requests: u64,
    /// 2xx and 3xx responses a second.
    pub rate: f64,
    /// How requests ended: `2xx`, `3xx`, `4xx`, `5xx`, `refused`, `reset`, `timeout`.
    pub outcomes: BTreeMap<String, u64>,
    /// Microseconds of 2xx and 3xx responses by percentile: `p50`, `p90`, `p99`, `p99.9`, `p99.99`, `max`, and `mean`.
    /// Empty when there were none.
    pub latency_us: BTreeMap<String, f64>,
    /// The same percentiles of 4xx and 5xx responses.
    #[serde(default)]
    pub refusal_us: BTreeMap<String, f64>,
    /// The latencies of 2xx and 3xx in nanoseconds as an `HdrHistogram`, V2 compressed, base64.
    pub histogram: String,
    /// Bytes received, heads included.
    pub bytes_received: u64,
    /// CPU seconds of the generator.
    pub generator_cpu_seconds: f64,
    /// Whether the block counts.
    pub is_valid: bool,
    /// Why it does not; empty when it does.
    pub why_invalid: String,
    /// What the services used while it was measured.
    pub services: Vec<Usage>,
    /// What was done to one of the services during the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<Incident>,
    /// The events that its requests made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// Requests that were due under a given rate and were never sent. They are not in `requests`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub never_sent: u64,
    /// 2xx and 3xx responses of the loads that ran at the same time. What the services used was for these as well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub answers_beside: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A service that was made bad during a block, and well again. Seconds count from the beginning of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// Its name in the scenario.
    pub service: String,
    /// `fail`, `slow` or `hang`.
    pub mode: String,
    /// When it went bad.
    pub from_s: f64,
    /// When it was well again.
    pub to_s: f64,
    /// Requests a second that were due in all.
    pub rate: f64,
    /// Requests that failed or were slow.
    pub lapses: Vec<Lapse>,
    /// Requests that reached the service.
    pub reached: Vec<Reached>,
}

/// The events that the requests of a block made in one service, to be handled by another one. Seconds count from the
/// beginning of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Events {
    /// The service that makes them.
    pub from: String,
    /// The service that handles them.
    pub to: String,
    /// When the load ended.
    pub load_s: f64,
    /// Events of which nobody knows whether they were taken: their request was given up.
    #[serde(default)]
    pub unknown: u64,
    /// Events that were handled once more. They count once in `handled`.
    #[serde(default)]
    pub again: u64,
    /// How many were made and taken, by whoever was to handle them or to keep them.
    pub made: Vec<Counted>,
    /// How many were handled.
    pub handled: Vec<Counted>,
    /// Microseconds from when an event was made until it was handled, by percentile.
    pub latency_us: BTreeMap<String, f64>,
    /// The same in nanoseconds as an `HdrHistogram`, V2 compressed, base64.
    pub histogram: String,
}

/// A count since the beginning of a load, by some moment. There is one for each tenth of a second in which it grew.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The moment.
    pub at_s: f64,
    /// How many by then.
    pub count: u64,
}

/// Requests that failed or took longer than a second, by when they were due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lapse {
    /// When they were due.
    pub due_s: f64,
    /// Requests that ended without 2xx or 3xx.
    pub failed: u64,
    /// Requests that ended with 2xx or 3xx, but late.
    pub slow: u64,
}

/// Requests that reached a service in a part of a block, without health checks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// The start of the part.
    pub from_s: f64,
    /// The end of the part.
    pub to_s: f64,
    /// How many.
    pub requests: u64,
}

/// What a service used during a block, over all of its processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The name in the scenario.
    pub name: String,
    /// User and system time. `None` when it could not be read.
    pub cpu_seconds: Option<f64>,
    /// The largest resident memory since its start, summed over the processes; shared pages count for each.
    pub rss_peak_bytes: Option<u64>,
}

/// A figure that others published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The rung it belongs to.
    pub configuration: String,
    /// The load it belongs to.
    pub load: String,
    /// Requests a second.
    pub rate: Option<f64>,
    /// Milliseconds by percentile (`p50`) or `mean`.
    pub latency_ms: BTreeMap<String, f64>,
}

/// Why raw data could not be read or written.
#[derive(Debug)]
pub enum RawError {
    /// The file cannot be read or written.
    File(PathBuf, io::Error),
    /// The file is not raw data of a run.
    Content(PathBuf, serde_json::Error),
    /// The file is of a later version of this program.
    Format(PathBuf, u32),
}

impl std::fmt::Display for RawError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path, cause) => write!(f, "{}: {cause}", path.display()),
            Self::Content(path, cause) => {
                write!(
                    f,
                    "{} is not the raw data of a run: {cause}",
                    path.display()
                )
            }
            Self::Format(path, format) => write!(
                f,
                "{} has format {format}, this version of weir reads up to {FORMAT}",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RawError {}

impl Run {
    /// Reads the run in `directory`.
    pub fn read(directory: &Path) -> Result<Self, RawError> {
        let path = directory.join(FILE);
        let text = std::fs::read(&path).map_err(|error| RawError::File(path.clone(), error))?;
        let run: Self = serde_json::from_slice(&text)
            .map_err(|error| RawError::Content(path.clone(), error))?;
        if run.format > FORMAT {
            return Err(RawError::Format(path, run.format));
        }
        Ok(run)
    }

    /// Writes the run into `directory`, whole or not at all.
    pub fn write(&self, directory: &Path) -> Result<(), RawError> {
        let path = directory.join(FILE);
        let unfinished = directory.join(format!("{FILE}.unfinished"));
        let mut text = serde_json::to_vec_pretty(self).expect("the types are plain data");
        text.push(b'\n');
        std::fs::write(&unfinished, text)
            .and_then(|()| std::fs::rename(&unfinished, &path))
            .map_err(|error| RawError::File(path, error))
    }
}
