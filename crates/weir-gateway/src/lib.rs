//! The gateway: everything that does I/O between a client and an upstream.
//!
//! The way of a request is told in `exchange.rs`, top to bottom. What is decided on that way is
//! decided by `weir-http` and `weir-policy`; this crate moves bytes, keeps connections and counts.
//!
//! - [`settings`]: what a gateway is told, already valid
//! - `snapshot`, `router`: the same, as requests see it; `view`: with what a worker keeps for it
//! - `control`, `changes`, `names`: replacing it while the gateway runs
//! - `listener`, `worker`, `connection`: accepting, the threads, a client's connection
//! - `exchange`: the story; `respond`: answers of our own; `failure`: what can go wrong
//! - `cache`: what was answered before, and who asks when it was not
//! - `compress`: which responses get smaller on their way
//! - `upstream`: choosing, connecting, pooling, relaying, and asking endpoints whether they are well
//! - `access_log`, `metrics`, `admin`, `tell`: what happened
//! - `io`, `buffers`, `deadline`: the seam to the runtime, memory, time; `slow`: clients that hold memory

mod access_log;
mod admin;
mod buffers;
mod cache;
mod care;
mod changes;
mod compress;
mod connection;
mod control;
mod deadline;
mod decimal;
mod exchange;
mod failure;
mod gateway;
mod held_bodies;
mod io;
mod listener;
mod metrics;
mod names;
mod paths;
mod respond;
mod router;
pub mod settings;
#[cfg(test)]
mod simulation;
mod slow;
mod snapshot;
mod supervision;
mod tell;
mod time;
mod upstream;
mod view;
mod worker;

pub use changes::Changes;
pub use control::apps::App;
pub use control::{Control, Source};
pub use gateway::{Gateway, StartError, check};
pub use names::Unresolved;
pub use supervision::{Supervision, WorkerFailed};
