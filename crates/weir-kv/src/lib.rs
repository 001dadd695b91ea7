//! A key-value store over a few nodes.
//!
//! ```text
//!               slot ──► map ──► replicas           steps
//! request ──► placement            └──► coordinator ──────► engine of this node, peers
//!                                           ▲   answers, failures      │
//!                                           └──────────────────────────┘
//! ```
//!
//! - [`placement`]: which nodes have a key; [`layout`]: the same while nodes come and go; pure
//! - [`coordinator`]: one read or write on all replicas of a key; pure
//! - [`version`]: which of two writes is newer; [`cell`]: what is kept of a key; [`condition`]: what a write asks of it
//! - [`engine`]: where cells are; `database`: how engines reach one outside of the process
//! - [`frame`]: what nodes say to each other; `cluster`: one of them among the others
//! - [`client`]: for programs that ask nodes themselves
//! - [`Late`]: a service whose database may be away when weir starts
//! - [`Store`]: the service of routes with `kv`; [`activities`]: that of routes with `collect`, over the same databases
//!
//! What decides is apart from what does: the coordinator knows neither sockets nor clocks nor disks, and a simulation runs
//! it against messages that are lost, nodes that crash and clocks that differ.

pub mod activities;
pub mod api;
pub mod cell;
pub mod client;
mod cluster;
pub mod condition;
pub mod coordinator;
pub mod database;
pub mod engine;
pub mod frame;
mod late;
pub mod layout;
pub mod placement;
mod round;
mod seldom;
#[cfg(test)]
mod simulation;
mod store;
mod tally;
pub mod version;
mod wall;

pub use client::Client;
pub use cluster::{ClusterSettings, Upkeep};
pub use late::Late;
pub use store::{Store, VALUE_BYTES_MAX};
