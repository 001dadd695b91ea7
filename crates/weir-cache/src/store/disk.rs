//! The disk tier: one file for each object, crash-safe, within a budget of bytes.
//!
//! What it promises:
//! - Killed at any moment, the next start finds each object whole or not at all. Every byte that is read has been
//!   verified against its sum in the same read.
//! - A purge that was answered stays in force after a kill -9, and so does a change by a request. After a loss of power
//!   it may be undone, and the last commits too. Nothing waits for the disk unless `sync` says so, and then only for
//!   the bytes of an object.
//! - RAM holds at most one block of an object, and what its writer has pending, unless the object is loaded for RAM.
//! - No call of a worker touches a file. It reads the index under a short lock, or leaves a job to a disk thread.
//!
//! - [`format`](self): the file, byte by byte, is described in `disk/format.rs`
//! - `disk/volume.rs`: the directory, names, bytes, eviction, purges
//! - `disk/writing.rs`, `disk/writer.rs`: an object on its way to disk, the disk thread's side and the worker's
//! - `disk/arriving.rs`: reading an object while it is written
//! - `disk/reading.rs`: reading an object
//! - `disk/renewing.rs`: a new head for the same body
//! - `disk/rebuild.rs`: indexing at a start
//! - `disk/ending.rs`, `disk/sweeping.rs`, `disk/ended.rs`: purges and changes by requests, on their way to the disk
//!   and after a kill

mod arriving;
mod config;
mod ended;
mod ending;
mod format;
mod index;
mod open_object;
mod reading;
mod rebuild;
mod renewing;
mod sweeping;
#[cfg(test)]
mod tests;
mod volume;
mod writer;
mod writing;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use self::ending::Ending;
use self::renewing::Renewal;
use self::volume::{Volume, WriteAt};
use self::writing::Unfinished;
use super::StoreError;
use super::job::{Answer, JobQueue, lock};
use super::object::Object;
use super::purge::{PurgeScope, Purges, Ticket, Verdict};
use super::share::Share;
use super::walk::Key;

pub use arriving::DiskArriving;
pub use config::{DiskConfig, DiskStats, DiskSync};
pub use format::{BLOCK_BYTES, READ_BYTES_OF_BLOCK};
pub use index::Stored;
pub use open_object::DiskObject;
pub use writer::DiskWriter;

/// One object on disk, and no earlier or later one with the same key and variant.
#[derive(Debug, Clone, Copy)]
pub struct DiskName<'a> {
    /// Its primary key.
    pub key: &'a [u8],
    /// Its variant.
    pub variant: &'a [u8],
    /// Its identity, as given by the index, an open object or a commit.
    pub identity: u64,
}

/// The disk tier. When dropped, it does the waiting jobs and then stops its threads.
#[derive(Debug)]
pub struct DiskStore {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

type Job = Box<dyn FnOnce(&Arc<Volume>) + Send>;

struct Shared {
    volume: Arc<Volume>,
    jobs: JobQueue<Job>,
    ending: Ending,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("stats", &self.volume.stats())
            .finish_non_exhaustive()
    }
}

impl DiskStore {
    /// Opens the directory and starts to index it in the background.
    pub fn open(config: DiskConfig, purges: Arc<Purges>) -> Result<Self, StoreError> {
        Self::open_with(config, purges, |file, bytes, offset| {
            std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
        })
    }

    fn open_with(
        config: DiskConfig,
        purges: Arc<Purges>,
        write_at: WriteAt,
    ) -> Result<Self, StoreError> {
        let ticket = purges.ticket();
        let (threads, jobs) = (config.threads.max(1), JobQueue::new(config.jobs_max));
        let volume = Arc::new(Volume::open(config, purges, write_at)?);
        let store = Self {
            shared: Arc::new(Shared {
                volume,
                jobs,
                ending: Ending::default(),
            }),
            threads: Mutex::default(),
        };
        let volume = Arc::clone(&store.shared.volume);
        store.spawn("disk index".to_owned(), move || {
            rebuild::rebuild(&volume, ticket);
        })?;
        for number in 0..threads {
            let shared = Arc::clone(&store.shared);
            store.spawn(format!("disk {number}"), move || {
                while let Some(job) = shared.jobs.next() {
                    job(&shared.volume);
                }
            })?;
        }
        Ok(store)
    }

    /// The variants stored under a primary key, the newest first. Those that a purge covers are left out even before
    /// its sweep reaches them. The rules choose among the variants.
    pub fn find(&self, key: &[u8]) -> Vec<Stored> {
        let volume = &self.shared.volume;
        let ticket = volume.purges.settled_on_disk();
        let mut found = lock(&volume.index).find(key).to_vec();
        found.retain_mut(
            |stored| match volume.purges.verdict(ticket, key, &stored.tags) {
                Verdict::Drop => false,
                Verdict::MarkStale => {
                    stored.is_stale = true;
                    true
                }
                Verdict::Keep => true,
            },
        );
        found
    }

    /// Opens one of the variants. It counts as a use.
    pub fn open_object(&self, key: &[u8], variant: &[u8]) -> Answer<DiskObject> {
        let (key, variant) = (Box::from(key), Box::from(variant));
        let shared = Arc::clone(&self.shared);
        self.ask(move |volume| {
            let opened = Arc::new(reading::open_stored(volume, &key, &variant)?);
            Ok(DiskObject::new(shared, opened))
        })
    }

    /// Reads one of the variants whole, for RAM. It counts as a use.
    pub fn load(&self, key: &[u8], variant: &[u8]) -> Answer<Object> {
        let (key, variant): (Box<[u8]>, Box<[u8]>) = (key.into(), variant.into());
        self.ask(move |volume| {
            let ticket = volume.purges.settled_on_disk();
            let opened = reading::open_stored(volume, &key, &variant)?;
            #[expect(
                clippy::redundant_closure_for_method_calls,
                reason = "the path of the method is for one lifetime, and does not compile"
            )]
            let body = reading::read_or_drop(volume, &opened, |blocks| blocks.read_all())?;
            let trailer = opened.trailer;
            let object = Object::new(&variant, ticket, trailer.metadata, trailer.head, body)
                .with_tags(trailer.tags);
            object.mark_on_disk(opened.header.identity);
            if opened.header.is_stale {
                object.mark_stale();
            }
            Ok(object)
        })
    }

    /// Begins to write an object; `ticket` is from before its first byte was read. If its key has more variants than
    /// its share allows, the oldest are removed.
    pub fn write(
        &self,
        key: &[u8],
        variant: &[u8],
        ticket: Ticket,
        share: Option<&Share>,
    ) -> Result<DiskWriter, StoreError> {
        if !self.shared.volume.is_indexed.load(Ordering::Acquire) {
            return Err(StoreError::Busy);
        }
        Ok(DiskWriter::new(
            Arc::clone(&self.shared),
            key,
            variant,
            ticket,
            self.shared.volume.variants_max(share),
        ))
    }

    /// Writes an object that is whole in RAM, unless the disk is too busy. `is_wanted` is called in a disk thread, just
    /// before the object could be found, and what it holds is dropped when it can be, or never will.
    pub fn store(
        &self,
        key: &[u8],
        object: &Arc<Object>,
        ticket: Ticket,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Answer<()> {
        let (reply, answer) = Answer::pair();
        let (key_of_job, object_of_job) = (Box::<[u8]>::from(key), Arc::clone(object));
        let job: Job = Box::new(move |volume| {
            let (key, object) = (key_of_job, object_of_job);
            let stored = store_whole(volume, &key, &object, ticket, &is_wanted);
            // An object that cannot be written must not leave an older one in its place.
            if !matches!(stored, Ok(()) | Err(StoreError::Gone | StoreError::Purged)) {
                volume.remove(&key, &object.variant, None);
            }
            reply.send(stored);
        });
        match self.shared.jobs.push_if_calm(job) {
            Ok(()) => answer,
            Err(error) => {
                if self.identity(key, &object.variant).is_some() {
                    self.remove(key, &object.variant);
                }
                Answer::ready(Err(error))
            }
        }
    }

    /// Gives the named object another head and other metadata, as after a validation; it is fresh again. If that fails,
    /// the object is removed, since its head is known to be out of date.
    pub fn renew(
        &self,
        object: DiskName<'_>,
        ticket: Ticket,
        metadata: Bytes,
        head: Bytes,
    ) -> Answer<()> {
        let DiskName {
            key,
            variant,
            identity,
        } = object;
        let renewal = Renewal {
            key: key.into(),
            variant: variant.into(),
            identity,
            ticket,
            metadata,
            head,
        };
        self.shared.ask_always(move |volume| {
            renewing::renew(volume, &renewal)
                .inspect_err(|_| volume.remove(&renewal.key, &renewal.variant, Some(identity)))
        })
    }

    /// Removes an object that a newer one in RAM has superseded. An object on its way to disk is handled by the
    /// `is_wanted` of [`DiskStore::store`].
    pub(super) fn remove(&self, key: &[u8], variant: &[u8]) {
        let (key, variant): (Box<[u8]>, Box<[u8]>) = (key.into(), variant.into());
        // This fails only when the store is closed.
        _ = self
            .shared
            .jobs
            .push_always(Box::new(move |volume| volume.remove(&key, &variant, None)));
    }

    /// Some of the objects that a scope covers: those of the next `keys_max` keys after `after`, sorted by key. Also
    /// returns the key after which to go on. For tools.
    pub fn step(
        &self,
        scope: &PurgeScope,
        after: Option<&[u8]>,
        keys_max: usize,
    ) -> (Vec<(Key, Stored)>, Option<Key>) {
        lock(&self.shared.volume.index).covered(scope, after, keys_max)
    }

    /// Reads what the rules know of an object, without counting as a use. For tools.
    pub fn metadata(&self, key: &[u8], variant: &[u8]) -> Answer<Bytes> {
        let (key, variant): (Box<[u8]>, Box<[u8]>) = (key.into(), variant.into());
        self.ask(move |volume| {
            let file = std::fs::File::open(volume.path(&key, &variant))?;
            Ok(reading::open(file)?.trailer.metadata)
        })
    }

    /// The identity of the object with this variant.
    pub fn identity(&self, key: &[u8], variant: &[u8]) -> Option<u64> {
        lock(&self.shared.volume.index)
            .variant(key, variant)
            .map(|stored| stored.identity)
    }

    /// The largest body accepted now. Nothing is accepted until the files of the last run have been indexed.
    pub fn object_bytes_max(&self) -> u64 {
        let volume = &self.shared.volume;
        if volume.is_indexed.load(Ordering::Acquire) {
            volume.config.object_bytes_max
        } else {
            0
        }
    }

    /// What the store holds and has counted.
    pub fn stats(&self) -> DiskStats {
        self.shared.volume.stats()
    }

    fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<Volume>) -> Result<R, StoreError> + Send + 'static,
    ) -> Answer<R> {
        let (reply, answer) = Answer::pair();
        match self
            .shared
            .jobs
            .push(Box::new(move |volume| reply.send(job(volume))))
        {
            Ok(()) => answer,
            Err(error) => Answer::ready(Err(error)),
        }
    }

    fn spawn(&self, name: String, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = thread::Builder::new().name(name).spawn(work)?;
        lock(&self.threads).push(thread);
        Ok(())
    }
}

impl Shared {
    fn ask_always<R: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<Volume>) -> Result<R, StoreError> + Send + 'static,
    ) -> Answer<R> {
        let (reply, answer) = Answer::pair();
        match self
            .jobs
            .push_always(Box::new(move |volume| reply.send(job(volume))))
        {
            Ok(()) => answer,
            Err(error) => Answer::ready(Err(error)),
        }
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.shared.volume.is_closing.store(true, Ordering::Release);
        self.shared.jobs.close();
        for thread in lock(&self.threads).drain(..) {
            // A thread that panicked has already said so.
            _ = thread.join();
        }
    }
}

fn store_whole(
    volume: &Arc<Volume>,
    key: &[u8],
    object: &Arc<Object>,
    ticket: Ticket,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(), StoreError> {
    let mut unfinished = Unfinished::create(volume)?;
    for piece in object.body() {
        unfinished.append(piece)?;
    }
    let (metadata, head) = object.bytes_for_disk();
    let trailer = writing::trailer(key, &object.variant, metadata, head, object.tags.to_vec());
    let variants_max = volume.variants_max(object.share().map(Arc::as_ref));
    let opened = unfinished.commit(key, ticket, trailer, variants_max, is_wanted)?;
    object.mark_on_disk(opened.header.identity);
    Ok(())
}
