//! The directory of a disk tier: its files, its index and its bytes. Only disk threads call what touches files here.
//!
//! What must always hold:
//! - A file under its final name was complete when it got that name, and no byte of its body changes afterwards.
//! - Code that renames, removes or marks files under final names, and changes the index accordingly, holds `names`
//!   meanwhile. So index and directory agree whenever it is free, and a commit never overtakes a purge.
//! - `bytes` is at least the size of all files, temporary ones included, and at most `bytes_max`. Files that are
//!   removed but still open for a reader do not count.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::iter;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::ended::Ended;
use super::format::{STALE_OFFSET, file_name};
use super::index::{Index, Stored};
use super::{DiskConfig, DiskStats};
use crate::store::StoreError;
use crate::store::job::lock;
use crate::store::purge::{Purges, Ticket, Verdict};
use crate::store::share::Share;

/// A file also costs an inode, and space is given out in pieces; this is what a file costs besides its bytes.
const FILE_OVERHEAD_BYTES: u64 = 4096;
/// Objects to evict when the file system is full before the budget is.
const EVICTED_WHEN_FULL: usize = 64;

/// How bytes are written; tests replace it to make the disk full.
pub(super) type WriteAt = fn(&File, &[u8], u64) -> io::Result<()>;

type Deferred = Box<dyn FnOnce(&Volume) + Send>;

pub(super) struct Volume {
    pub(super) config: DiskConfig,
    pub(super) purges: Arc<Purges>,
    pub(super) index: Mutex<Index>,
    /// Whether every file of the last run is in the index or gone. Before that, nothing is written.
    pub(super) is_indexed: AtomicBool,
    pub(super) is_closing: AtomicBool,
    pub(super) counts: Counts,
    pub(super) write_at: WriteAt,
    pub(super) names: Mutex<()>,
    bytes: AtomicU64,
    next_identity: AtomicU64,
    /// Purges that are answered once they have met every file.
    pub(super) until_indexed: Mutex<Vec<Deferred>>,
    /// What requests changed before every file was in the index, in this run and in the last.
    pub(super) ended: Mutex<Ended>,
    /// Held open: the lock on it says that the directory is in use.
    _in_use: File,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) opened: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) disk_full: AtomicU64,
}

/// An object that a commit puts under its name.
pub(super) struct Committed<'a> {
    pub(super) temporary: PathBuf,
    pub(super) file: &'a File,
    pub(super) key: &'a [u8],
    pub(super) ticket: Ticket,
    pub(super) stored: Stored,
    /// How many variants its key may have.
    pub(super) variants_max: usize,
}

impl Volume {
    /// Opens the directory, creates what is missing in it, and removes files that never got a name.
    pub(super) fn open(
        config: DiskConfig,
        purges: Arc<Purges>,
        write_at: WriteAt,
    ) -> Result<Self, StoreError> {
        let directory = &config.directory;
        for first_byte in 0..=u8::MAX {
            fs::create_dir_all(directory.join(format!("objects/{first_byte:02x}")))?;
        }
        let in_use = File::create(directory.join("in-use"))?;
        match in_use.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::InUse),
            Err(fs::TryLockError::Error(error)) => return Err(error.into()),
        }
        let temporary = directory.join("temporary");
        match fs::remove_dir_all(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => fs::create_dir_all(&temporary)?,
        }
        let ended = Ended::open(&directory.join("ended"))?;
        Ok(Self {
            purges,
            ended: Mutex::new(ended),
            index: Mutex::default(),
            is_indexed: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            counts: Counts::default(),
            write_at,
            names: Mutex::default(),
            bytes: AtomicU64::new(0),
            next_identity: AtomicU64::new(fastrand::Rng::new().u64(..)),
            until_indexed: Mutex::default(),
            _in_use: in_use,
            config,
        })
    }

    pub(super) fn path(&self, key: &[u8], variant: &[u8]) -> PathBuf {
        let name = format!("{:032x}", file_name(key, variant));
        self.config
            .directory
            .join("objects")
            .join(&name[..2])
            .join(&name[2..])
    }

    /// A number that no other object of this run has, far from those of other runs; and the temporary file for it.
    /// Identities are far apart because block sums are seeded with the numbers that follow.
    pub(super) fn new_identity(&self) -> (u64, PathBuf) {
        let identity = self
            .next_identity
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
            .max(1);
        (
            identity,
            self.config
                .directory
                .join(format!("temporary/{identity:016x}")),
        )
    }

    /// How many variants a key may have if its objects belong to this share.
    pub(super) fn variants_max(&self, share: Option<&Share>) -> usize {
        share.map_or(self.config.variants_max, |share| share.variants_max)
    }

    /// How many bytes a file of this length counts.
    pub(super) fn cost(file_bytes: u64) -> u64 {
        file_bytes.next_multiple_of(FILE_OVERHEAD_BYTES) + FILE_OVERHEAD_BYTES
    }

    /// Reserves `bytes` of the budget, and evicts as many objects as necessary.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), StoreError> {
        loop {
            let taken = self
                .bytes
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                    used.checked_add(bytes)
                        .filter(|sum| *sum <= self.config.bytes_max)
                });
            if taken.is_ok() {
                return Ok(());
            }
            if !self.evict_one() {
                return Err(StoreError::NoRoom);
            }
        }
    }

    /// Counts what is already on the disk, however much it is.
    pub(super) fn count_existing(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Evicts until everything is within the budget; after the files of the last run have been counted.
    pub(super) fn shrink(&self) {
        let is_over = || {
            let objects = lock(&self.index).len();
            self.bytes.load(Ordering::Acquire) > self.config.bytes_max
                || objects > self.config.objects_max
        };
        while is_over() && self.evict_one() {}
    }

    pub(super) fn release(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Writes into a file in progress. If the file system is full, objects are evicted once.
    pub(super) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> Result<(), StoreError> {
        let result = (self.write_at)(file, bytes, offset);
        let Err(error) = result else { return Ok(()) };
        if !matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        ) {
            return Err(error.into());
        }
        self.counts.disk_full.fetch_add(1, Ordering::Relaxed);
        for _ in 0..EVICTED_WHEN_FULL {
            self.evict_one();
        }
        Ok((self.write_at)(file, bytes, offset)?)
    }

    /// Gives a complete file its name and puts it into the index, unless a purge has covered it meanwhile. Returns
    /// whether a soft purge has. Its bytes have been reserved; those of the object it replaces are released.
    pub(super) fn commit(
        &self,
        committed: Committed<'_>,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<bool, StoreError> {
        let Committed {
            temporary,
            file,
            key,
            ticket,
            mut stored,
            variants_max,
        } = committed;
        let names = lock(&self.names);
        if !is_wanted() {
            return Err(StoreError::Gone);
        }
        match self.purges.verdict(ticket, key, &stored.tags) {
            Verdict::Drop => return Err(StoreError::Purged),
            Verdict::MarkStale => {
                file.write_all_at(&[1], STALE_OFFSET)?;
                stored.is_stale = true;
            }
            Verdict::Keep => {}
        }
        fs::rename(temporary, self.path(key, &stored.variant))?;
        let is_stale = stored.is_stale;
        let mut index = lock(&self.index);
        let replaced = index.insert(key, stored);
        let too_many = iter::from_fn(|| index.remove_oldest(key, variants_max.max(1)));
        let too_many: Vec<_> = too_many.collect();
        let is_over = index.len() > self.config.objects_max;
        drop(index);
        for oldest in &too_many {
            self.unlink(key, oldest);
        }
        drop(names);
        let evicted = too_many.len() as u64;
        self.counts.evicted.fetch_add(evicted, Ordering::Relaxed);
        if let Some(replaced) = replaced {
            self.release(replaced.cost);
        }
        if is_over {
            self.evict_one();
        }
        self.counts.written.fetch_add(1, Ordering::Relaxed);
        Ok(is_stale)
    }

    /// Puts a file of the last run into the index. If a purge of this run covers it, it is removed or marked.
    pub(super) fn adopt(&self, key: &[u8], mut stored: Stored, ticket: Ticket) -> io::Result<()> {
        let _names = lock(&self.names);
        let verdict = if lock(&self.ended).covers(key) {
            Verdict::Drop
        } else {
            self.purges.verdict(ticket, key, &stored.tags)
        };
        match verdict {
            Verdict::Drop => return fs::remove_file(self.path(key, &stored.variant)),
            Verdict::MarkStale => {
                self.mark_file(key, &stored.variant)?;
                stored.is_stale = true;
            }
            Verdict::Keep => {}
        }
        self.count_existing(stored.cost);
        lock(&self.index).insert(key, stored);
        Ok(())
    }

    /// Runs `change` while names are locked: for code that reads a file twice or changes it in place.
    pub(super) fn with_names_held<R>(&self, change: impl FnOnce() -> R) -> R {
        let _names = lock(&self.names);
        change()
    }

    /// Drops an object that could not be read, if it is still the same one.
    pub(super) fn drop_damaged(&self, key: &[u8], variant: &[u8], identity: u64) {
        let _names = lock(&self.names);
        let removed = lock(&self.index).remove(key, variant, Some(identity));
        if let Some(removed) = removed {
            self.counts.damaged.fetch_add(1, Ordering::Relaxed);
            self.unlink(key, &removed);
        }
    }

    /// Removes a superseded object. If `identity` is given, only if it is still that object.
    pub(super) fn remove(&self, key: &[u8], variant: &[u8], identity: Option<u64>) {
        let _names = lock(&self.names);
        let removed = lock(&self.index).remove(key, variant, identity);
        if let Some(removed) = removed {
            self.unlink(key, &removed);
        }
    }

    /// Does `work` once every file of the last run is in the index or gone; at once if that is so already.
    pub(super) fn when_indexed(&self, work: Deferred) {
        let mut waiting = lock(&self.until_indexed);
        if self.is_indexed.load(Ordering::Acquire) {
            drop(waiting);
            work(self);
        } else {
            waiting.push(work);
        }
    }

    /// Every file of the last run is in the index or gone.
    pub(super) fn finish_indexing(&self) {
        let mut waiting = lock(&self.until_indexed);
        lock(&self.ended).clear();
        self.is_indexed.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut *waiting);
        for work in waiting {
            work(self);
        }
    }

    pub(super) fn stats(&self) -> DiskStats {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DiskStats {
            bytes: self.bytes.load(Ordering::Acquire),
            bytes_max: self.config.bytes_max,
            objects: lock(&self.index).len() as u64,
            opened: load(&self.counts.opened),
            written: load(&self.counts.written),
            evicted: load(&self.counts.evicted),
            damaged: load(&self.counts.damaged),
            disk_full: load(&self.counts.disk_full),
            is_indexed: self.is_indexed.load(Ordering::Acquire),
        }
    }

    fn evict_one(&self) -> bool {
        let _names = lock(&self.names);
        let evicted = lock(&self.index).evict();
        let Some((key, stored)) = evicted else {
            return false;
        };
        self.unlink(&key, &stored);
        self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Removes the file of an object that has left the index. A file that cannot be removed stays counted; the next
    /// start drops or finds it.
    fn unlink(&self, key: &[u8], stored: &Stored) {
        match fs::remove_file(self.path(key, &stored.variant)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {}
            _ => self.release(stored.cost),
        }
    }
}
