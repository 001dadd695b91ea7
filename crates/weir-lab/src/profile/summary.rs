//! What a profile found, as the file beside the raw data holds it. Types only.

use serde::{Deserialize, Serialize};

/// What was found about the processes of one rung under one load; `profiles/NAME.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileSummary {
    /// The rung and the load.
    pub title: String,
    /// How long the profile took.
    pub seconds: f64,
    /// Requests that ended in that time.
    pub requests: u64,
    /// By service.
    pub targets: Vec<TargetProfile>,
}

/// What was found about one service.
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
    /// It was measured.
    Measured(T),
    /// It could not be measured: why, in one sentence.
    Unavailable(String),
}

/// Time on the CPU, from samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Seconds on the CPU while samples were taken.
    pub seconds: f64,
    /// The share of this time per function at the top of the stack, the hottest first.
    pub hottest: Vec<(String, f64)>,
    /// The flame graph: a file beside this one.
    pub graph: String,
}

/// Time that threads spent off the CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// How long waits were recorded; shorter than the profile, because every switch is recorded.
    pub seconds: f64,
    /// Thread seconds by the kind of wait, the longest first.
    pub by_kind: Vec<(String, f64)>,
    /// The flame graph: a file beside this one.
    pub graph: String,
}

/// Counted calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// How they were counted.
    pub method: String,
    /// All calls, per request.
    pub per_request: f64,
    /// Per request, by name, the most frequent first; names that were not asked for are missing.
    pub by_name: Vec<(String, f64)>,
}
