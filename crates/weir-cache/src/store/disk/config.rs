//! Where the disk tier is, its limits, and its figures. Nothing here does anything.

use std::path::PathBuf;

/// Where the disk tier is, and its limits.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// Its directory, which is created if it does not exist. Nothing else may be in it.
    pub directory: PathBuf,
    /// Bytes of all files, as the file system rounds them up. If the limit is lowered, the next start removes the rest.
    pub bytes_max: u64,
    /// Bytes of one body.
    pub object_bytes_max: u64,
    /// Objects, each of which costs about 300 bytes of RAM, its key and its tags.
    pub objects_max: usize,
    /// Variants kept for one primary key if its share does not say; the oldest are removed first.
    pub variants_max: usize,
    /// Threads that read and write.
    pub threads: usize,
    /// Jobs that may wait for them; further ones are refused.
    pub jobs_max: usize,
    /// Bytes of one object that may wait to be written.
    pub pending_bytes_max: usize,
    /// When to wait until bytes are on the disk.
    pub sync: DiskSync,
}

impl DiskConfig {
    /// Usual limits within a budget.
    pub fn with_budget(directory: PathBuf, bytes_max: u64) -> Self {
        let (object_bytes_max, objects_max) = (bytes_max / 4, 1_000_000);
        let variants_max = 16;
        let (threads, jobs_max, pending_bytes_max, sync) = (2, 1024, 1 << 20, DiskSync::Never);
        Self {
            directory,
            bytes_max,
            object_bytes_max,
            objects_max,
            variants_max,
            threads,
            jobs_max,
            pending_bytes_max,
            sync,
        }
    }
}

/// When to wait until bytes are on the disk. A killed process loses nothing in either case. A loss of power may leave
/// an incomplete object, which is then noticed and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskSync {
    /// Never: the system writes when it wants.
    Never,
    /// Before an object gets its name. Fewer objects are lost with the power, at the cost of one `fdatasync` for each.
    BeforeCommit,
}

/// What the disk holds, and counts since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Bytes of all files that count, temporary ones included.
    pub bytes: u64,
    /// Bytes that they may have.
    pub bytes_max: u64,
    /// Objects in the index.
    pub objects: u64,
    /// Objects opened.
    pub opened: u64,
    /// Objects committed.
    pub written: u64,
    /// Objects evicted to make room.
    pub evicted: u64,
    /// Files and objects dropped because they did not verify or could not be read.
    pub damaged: u64,
    /// Writes that met a full file system.
    pub disk_full: u64,
    /// Whether all files of the last run have been indexed.
    pub is_indexed: bool,
}
