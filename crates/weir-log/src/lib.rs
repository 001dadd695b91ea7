//! A durable log: records are appended in memory, written and synced together, and read by their offset.
//!
//! ```text
//! append ──► pending ──► write: one write ──► sync: one fdatasync ──► durable
//!   │                                                                   │
//!   └─ offset, at once                      the caller acknowledges ◄───┘
//! ```
//!
//! A log is a directory of segments, each named by the offset of its first record. Records go to the last one; when that is
//! full, it is synced and the next one begins. Only the last segment can have an end that a crash has torn. What is broken
//! anywhere else was durable once, so opening or reading it fails: whoever was told that a record is safe would otherwise lose it
//! without a word.
//!
//! A write that fails is taken back: nothing of it was acknowledged, and the disk may have room again later. After a sync that
//! fails, nobody knows what is on the disk, and a second one would say yes to pages that the kernel has dropped (Rebello et al.,
//! Can Applications Recover from fsync Failures?, ATC 2020). So such a log refuses all writes until it is opened again.
//!
//! This crate has no thread, no clock and no network. It reads and writes through [`Disk`], which a test replaces by one that
//! crashes.

mod cursor;
mod disk;
mod error;
mod index;
mod log;
mod open;
mod record;
mod segment;
mod shape;

pub use cursor::Cursor;
pub use disk::{Directory, Disk, DiskFile};
pub use error::{Damage, Error};
pub use log::{Log, Readable, Settings};
pub use open::Recovered;
pub use record::{HEAD_BYTES, RECORD_BYTES_MAX, Record};
