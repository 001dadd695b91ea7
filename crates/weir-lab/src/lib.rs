//! The laboratory: a service under a ladder of configurations, and a report that says what helped.
//!
//! A [`scenario::Scenario`] says what runs and what it is asked. [`experiment`] runs it in interleaved blocks with
//! fresh processes and keeps [`raw`] data. [`statistics`] compares, with the block as the sample. [`report`] writes the
//! result down, with the figures that others published.

mod apart;
pub mod blocks;
pub mod compare;
mod cpu;
mod error;
pub mod experiment;
mod generator;
pub mod ladder;
mod machine;
pub mod profile;
pub mod raw;
pub mod report;
pub mod scenario;
pub mod services;
mod shell;
pub mod statistics;

pub use self::error::LabError;
