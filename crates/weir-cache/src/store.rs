//! Where responses are kept: in RAM and on disk, each within its bytes.
//!
//! The stores know no HTTP. A key, a variant, a head and metadata are bytes to them, whose meaning the rules of this crate
//! know. They never decide whether a response may be used or is fresh; they say only that a purge has asked for its
//! validation.
//!
//! This is the one place of the crate that has threads and files, all of them under `disk`. No call of a worker waits for
//! a file: what needs one is a job for a disk thread, and its [`Answer`] is a future that needs no particular runtime.
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
//! - [`tiers`]: both as one: demotion and promotion
//! - [`purge`]: what a purge covers, and why a fill that was under way cannot undo it
//! - [`share`]: how much of RAM one route may take
//! - [`transient`]: what is held for clients and not stored
//! - [`walk`]: from key to key in steps, for purges and for whoever lists what is stored
//! - [`answer`]: the future of a job, and the bounded queue of jobs

// The rules of this crate look at no clock and have no threads; the disk tier must have both threads and files.
#![allow(clippy::disallowed_methods)]

pub mod answer;
pub mod disk;
pub mod forms;
pub mod memory;
pub mod object;
pub mod purge;
pub mod share;
mod tags;
pub mod tiers;
pub mod transient;
pub mod walk;

pub use answer::Answer;
pub use disk::{DiskConfig, DiskStore};
pub use forms::Forms;

pub use memory::{MemoryConfig, MemoryStore};
pub use object::{Entry, Object};
pub use purge::{PurgeKind, PurgeScope, Purges, Ticket};
pub use share::Share;
pub use tiers::{Placed, Tiers};
pub use transient::{Grant, Pin, Transient};

use std::io;

/// Why a store could not do what it was asked.
#[derive(Debug)]
pub enum StoreError {
    /// The directory is in use by another process.
    InUse,
    /// The disk threads have more to do than they may queue; the caller goes on without the disk.
    Busy,
    /// The object is larger than one object may be, or everything else is in use.
    NoRoom,
    /// The stored object is torn or is not what it should be; it has been dropped and is a miss from now on.
    Damaged(&'static str),
    /// It was purged, replaced or evicted meanwhile.
    Gone,
    /// A purge that came after its ticket covers it.
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
