//! What a profile found, as it is kept beside the raw data. Types only.

use serde::{Deserialize, Serialize};

/// What was found out about the processes of one rung under one load; `profiles/NAME.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSummary {
    /// The rung and the load.
    pub title: String,
    /// How long was looked.
    pub seconds: f64,
    /// Requests that ended meanwhile.
    pub requests: u64,
    /// By service.
    pub targets: Vec<TargetProfile>,
}

/// What was found out about one service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetProfile {
    /// The service.
    pub name: String,
    /// Where its CPU time goes.
    pub cpu: Finding<Cpu>,
    /// What its threads wait for.
    pub waits: Finding<Waits>,
    /// System calls, by name.
    pub system_calls: Finding<Calls>,
    /// Calls of the allocator of the C library, by name.
    pub allocations: Finding<Calls>,
}

/// Something that can be measured on some machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding<T> {
    /// It was.
    Measured(T),
    /// It could not be: why, one sentence.
    Unavailable(String),
}

/// Time on the CPU, by samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Seconds on the CPU while samples were taken.
    pub seconds: f64,
    /// The share of this time by the function at the top of the stack, the hottest first.
    pub hottest: Vec<(String, f64)>,
    /// The flame graph: a file beside this one.
    pub graph: String,
}

/// Time that threads spent off the CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// How long was looked; shorter than the profile, because every switch is written down.
    pub seconds: f64,
    /// Thread seconds by what was waited for, the longest first.
    pub by_kind: Vec<(String, f64)>,
    /// The flame graph: a file beside this one.
    pub graph: String,
}

/// Calls that were counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// How they were counted.
    pub method: String,
    /// All of them, for each request.
    pub per_request: f64,
    /// For each request, by name, the most frequent first; names that were not asked for are missing.
    pub by_name: Vec<(String, f64)>,
}
