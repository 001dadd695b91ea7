//! What is known about a run while it lasts.

use std::time::Duration;

use crate::outcome::Outcomes;

/// The state of a run, a few times a second.
#[derive(Debug)]
pub struct Progress<'r> {
    /// Time since the load began, warm-up included.
    pub elapsed: Duration,
    /// Whether requests count already.
    pub is_counting: bool,
    /// How much of the run is done, warm-up not counted, from 0 to 1.
    pub done: f64,
    /// All requests that ended so far.
    pub so_far: &'r Outcomes,
    /// What ended in about the last second.
    pub recent: &'r Outcomes,
    /// The length of that second, exactly.
    pub recent_seconds: f64,
}
