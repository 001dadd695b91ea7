//! When requests are meant to be sent. Pure: offsets from the start of the run go out, no clock is read.
//!
//! In a closed loop a connection sends when its last response has come, so a server that pauses is asked less, and
//! nobody notices (coordinated omission). In an open loop the schedule stands before the run: a request that is sent
//! late, because every connection waits, is measured from the moment it was meant to be sent.

use std::time::Duration;

/// How requests arrive at the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Each connection sends as soon as it may.
    Closed,
    /// Evenly, requests per second.
    Constant(f64),
    /// As from many who do not know of each other: exponential gaps with this mean rate, per second.
    Poisson(f64),
    /// From one rate to another, linearly over the run.
    Ramp {
        /// At the start, per second.
        from: f64,
        /// At the end, per second.
        to: f64,
        /// How long it takes; constant at `to` from then on.
        over: Duration,
    },
    /// One constant rate after another; the last one stays.
    Steps(Vec<Step>),
}

/// A constant rate for a while.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Requests per second.
    pub rate: f64,
    /// How long.
    pub lasts: Duration,
}
