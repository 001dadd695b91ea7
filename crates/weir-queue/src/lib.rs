//! Requests that are acknowledged now and delivered later.
//!
//! So far this crate has two pure parts: [`Message`], a request as it is kept, and [`Progress`], what a consumer group has done and
//! does next.

mod message;
mod progress;
mod ranges;

pub use message::{Message, TooLong};
pub use progress::{Bounds, Checkpoint, Due, Progress};
