//! Requests that are acknowledged now and delivered later.
//!
//! ```text
//!            Deferring ──► Inbox ──► commit thread ──► log/ ──► delivery thread ──► Courier ──► upstream
//! request ──►  a route's     bounded    append, sync            reads ahead,           │
//!     202 ◄──────────────────────────── answers                 notes, retries ◄───────┘ outcome
//! ```
//!
//! - [`Deferring`]: the service of a route; [`Message`]: a request as it is kept
//! - [`Logging`]: keeps the lines of an access log
//! - `inbox`: what waits to be kept; `intake`: commits; `ids`: what was sent before
//! - `group`: delivers, by [`Progress`] (what comes next), `pace` (how much at once) and `retry` (what an outcome says); `journal`
//!   (what was done) and `dead` (what was given up) keep it
//! - `sink`: writes batches to a file, a table or a topic, beside that
//! - `topic`: fetches what is to be delivered from Kafka, where a queue lives there; `claims` is how far that is
//! - [`Queue`]: opens and ends all of it; `operate` is what operators see and ask
//!
//! An acknowledged message is delivered at least once. It is delivered again when the process ends between an answer of the
//! upstream and the note of it, which is written within ten milliseconds.

mod answer;
#[cfg_attr(
    not(feature = "kafka"),
    allow(dead_code, reason = "nothing is fetched then")
)]
mod claims;
mod clock;
mod consumer;
mod dead;
mod deferral;
mod group;
mod ids;
mod inbox;
mod intake;
mod journal;
mod logging;
mod message;
mod opening;
mod operate;
mod outcome;
mod pace;
mod progress;
mod queue;
mod ranges;
mod retry;
mod settings;
mod shared;
mod sink;
mod token;
#[cfg(feature = "kafka")]
mod topic;

pub use answer::LOCATION;
pub use dead::DeadLetter;
pub use deferral::Deferring;
pub use logging::Logging;
pub use message::{Message, TooLong};
pub use outcome::Telling;
pub use progress::{Bounds, Checkpoint, Due, Progress};
pub use queue::{Prepared, Queue};
pub use retry::Retry;
pub use settings::{Deferral, Delivery, Durability, KafkaQueue, KeySource, Settings};
pub use sink::{
    Cassandra, Column, Destination, File, Kafka, Lines, Postgres, Sasl, SinkSettings, Source,
};
