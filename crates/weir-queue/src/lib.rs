//! Requests that are acknowledged now and delivered later.
//!
//! So far this crate has the order of deliveries: [`Progress`], what a consumer group has done and does next.

mod progress;
mod ranges;

pub use progress::{Bounds, Checkpoint, Due, Progress};
