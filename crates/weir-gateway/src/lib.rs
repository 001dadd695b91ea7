//! The gateway: everything that does I/O between a client and an upstream.
//!
//! The way of a request is told in `story.rs`, top to bottom. What is decided on that way is decided by `weir-http`,
//! `weir-cache` and `weir-policy`; this crate moves bytes, keeps connections and counts.
//!
//! It is built in floors. Nothing uses what is on a floor above its own (`tests/it/floors.rs`):
//!
//! - the house: `gateway` starts and ends it, `control` replaces its configuration, `listener` lets connections in, `admin` shows
//!   and changes it, `supervision` watches its threads
//! - `story`: the order of the steps
//! - steps: `cache` (what was answered before, and who asks when it was not), `care` (who may ask), `upstream` (choosing, asking,
//!   asking again), `compress`, `local` (services inside the process), `respond` (answers of our own), `cors`, `error_pages`, `account`
//! - what a request carries along: `exchange`, `serving`
//! - the client's side: `connection`, `slow`
//! - `state`: what outlives a request, of a worker and of all
//! - the ground: [`settings`] (already valid), `router`, `names`, `failure` (what can go wrong), `metrics`, and the seams to
//!   memory and time: `buffers`, `deadline`. Sockets and the table of deadlines are weir-socket's

mod account;
mod admin;
mod buffers;
mod cache;
mod care;
mod changes;
mod compress;
mod connection;
mod control;
mod cors;
mod deadline;
mod ended;
mod errands;
mod error_pages;
mod exchange;
mod failure;
mod gateway;
mod held_bodies;
mod listener;
mod local;
mod lock;
mod metrics;
mod names;
mod outlet;
mod own_upstream;
mod paths;
mod respond;
mod router;
pub mod service;
mod serving;
pub mod settings;
#[cfg(test)]
mod simulation;
mod slow;
mod start_error;
mod state;
mod story;
mod supervision;
pub mod tell;
mod time;
mod upstream;
mod wire;

pub use crate::changes::Changes;
pub use crate::control::apps::App;
pub use crate::control::{Control, Source};
pub use crate::gateway::{Drained, Gateway, check};
pub use crate::names::Unresolved;
pub use crate::start_error::{OwnUpstream, StartError};
pub use crate::supervision::{Supervision, WorkerFailed};
