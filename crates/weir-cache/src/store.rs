//! Where responses are kept: in RAM and on disk, each within its bytes.
//!
//! The stores know no HTTP. A key, a variant, a head and metadata are bytes to them; the rules of this crate know their
//! meaning. The stores never decide whether a response may be used or is fresh. They only report that a purge asked for
//! its validation.
//!
//! Only this module of the crate has threads and files, all under `disk`. No call of a worker waits for a file: a call
//! that needs one leaves a job to a disk thread. Its [`Answer`] is a future that needs no particular runtime.
//!
//! ```text
//!  worker ── Tiers::find ──► MemoryStore ── hit ─────────────────────────────► head + body in one writev
//!               │ absent         │ ▲ insert, promote       ▲
//!               ▼                ▼ │ evicted              │ load (second use)
//!            DiskStore index   demote if it was used ──► disk threads ──► files
//! ```
//!
//! - [`object`]: one stored response, and the variants that share a primary key
//! - [`forms`]: the same response compressed
//! - [`memory`]: RAM, admission and eviction by a sharded S3-FIFO
//! - [`disk`]: files, crash-safe, read block by block
//! - [`tiers`]: both as one store: demotion and promotion
//! - [`purge`]: what a purge covers, and why a fill in progress cannot undo it
//! - [`share`]: how much of RAM one route may take
//! - [`transient`]: what is held for clients and not stored
//! - [`walk`]: walks through keys in steps, for purges and for lists of what is stored
//! - [`job`]: the future of a job, and the bounded queue of jobs

// The rules of this crate use no clock and no threads, but the disk tier needs threads and files.
#![allow(clippy::disallowed_methods)]

pub mod disk;
pub mod forms;
pub mod job;
pub mod memory;
pub mod object;
pub mod purge;
pub mod share;
mod tags;
pub mod tiers;
pub mod transient;
pub mod walk;

pub use disk::{DiskConfig, DiskStore};
pub use forms::Forms;
pub use job::Answer;

pub use memory::{MemoryConfig, MemoryStore};
pub use object::{Entry, Object};
pub use purge::{PurgeKind, PurgeScope, Purges, Ticket};
pub use share::Share;
pub use tiers::{Placed, Tiers};
pub use transient::{Grant, Pin, Transient};

use std::io;

/// Why a store failed to do something.
#[derive(Debug)]
pub enum StoreError {
    /// The directory is in use by another process.
    InUse,
    /// The queue of the disk threads is full; the caller goes on without the disk.
    Busy,
    /// The object is larger than allowed, or everything else is in use.
    NoRoom,
    /// The stored object is incomplete or wrong. It has been dropped and is a miss from now on.
    Damaged(&'static str),
    /// It was purged, replaced or evicted meanwhile.
    Gone,
    /// A purge after its ticket covers it.
    Purged,
    /// The store was closed before the job was done.
    Closed,
    /// The system refused.
    Io(io::Error),
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InUse => f.write_str("the directory is in use by another process"),
            Self::Busy => f.write_str("too many disk jobs are waiting"),
            Self::NoRoom => f.write_str("no room for the object"),
            Self::Damaged(what) => write!(f, "damaged object: {what}"),
            Self::Gone => f.write_str("the object is gone"),
            Self::Purged => f.write_str("the object was purged meanwhile"),
            Self::Closed => f.write_str("the store is closed"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
