//! Load that tells the truth.
//!
//! A [`plan::Plan`] says what is sent, when and for how long; [`run()`] has threads send it, each with its share of the
//! connections, and gathers what happened into a [`report::Report`]. Three rules hold everywhere:
//!
//! - Latency counts from the moment a request was *meant* to be sent (`arrivals`), so a server that pauses cannot hide it.
//! - Outcomes are kept apart (`outcome`): goodput and the latency of rejections are never mixed, timeouts are measured.
//! - The generator is measured as well (`audit`): a run in which it was the bottleneck says so and is not valid.
//!
//! The way of a request: [`arrivals`] and `source` say when, `lane` and `pacer` wake a connection, `wire` writes,
//! `connection` sends and `response` reads, [`outcome`] is recorded, `recorder` hands it over, [`run()`] adds it up.

pub mod arrivals;
pub mod audit;
mod connection;
pub mod held;
mod lane;
pub mod lapse;
pub mod mix;
pub mod outcome;
pub mod overrun;
mod pacer;
pub mod plan;
pub mod progress;
pub mod promise;
mod recorder;
pub mod report;
mod response;
mod run;
pub mod search;
mod source;
pub mod template;
mod thread;
pub mod tls;
pub mod trend;
pub mod verdict;
mod wire;

pub use plan::Plan;
pub use report::Report;
pub use run::{RunError, run};
