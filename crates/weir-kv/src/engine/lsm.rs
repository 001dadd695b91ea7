//! Cells in a log-structured merge tree on this machine's disk.
//!
//! ```text
//! write ──► inbox ──► one thread: a batch of all that waits ──► journal, synced as the durability says ──► answers
//! read  ──► rows (memory) ──► else threads that read the tree
//! scan  ──► a thread of its own, over a snapshot
//! ```
//!
//! The tree is fjall's. It may stall a write, when flushes or compactions are behind; that holds up the thread that writes, and then
//! writes are refused when too many wait. Workers never call it.

mod lane;
mod rows;
mod tree;
mod writeback;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use fjall::PersistMode;
use weir_gateway::service::Replier;

use self::lane::{Lane, Taker};
use self::rows::Rows;
use self::tree::{META_NODE, Tree};
use self::writeback::Writeback;
use self::writer::{BatchClock, Failing, How, Write, Writer};
use crate::cell::Cell;
use crate::engine::{Durability, Each, Engine, EngineError, Then};
use crate::seldom::Seldom;
use crate::version::Version;

/// Writes that wait, by their bytes.
const WRITES_BYTES_MAX: usize = 64 << 20;
/// Reads that wait.
const READS_MAX: usize = 16_384;
const READERS: usize = 2;
const POLL: Duration = Duration::from_millis(1);
/// A batch that takes longer is taken for stuck: the tree waits for a disk that may never take anything again. Writes are refused
/// then at once, and nobody waits for the end of the thread.
const STUCK: Duration = Duration::from_secs(5);
const STUCK_WHY: &str = "the disk has not taken what was written before";
/// Scans at once; each has a thread, and holds a snapshot.
const SCANS_MAX: usize = 16;
/// Of the memory for reading, the part that whole rows get; blocks of the tree get the rest.
const ROWS_PART: f64 = 0.5;

/// Where the data is, and what is done for it.
#[derive(Debug, Clone, PartialEq)]
pub struct LsmSettings {
    /// The directory.
    pub path: PathBuf,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Bytes of memory for reading.
    pub memory_bytes: u64,
}

/// An open tree.
pub struct Lsm {
    tree: Tree,
    rows: Arc<Rows>,
    writes: Arc<Lane<Write>>,
    reads: Arc<Lane<(Bytes, Then<Option<Cell>>)>>,
    scans: Arc<AtomicUsize>,
    opened: (Version, u16),
    batch: Arc<BatchClock>,
    failing: Arc<Failing>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Lsm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lsm").finish_non_exhaustive()
    }
}

fn no_thread(error: &std::io::Error) -> String {
    format!("cannot start a thread: {error}")
}

impl Lsm {
    /// Opens the directory, and makes it if there is none.
    ///
    /// # Errors
    /// Another process has it, it is not of this store, or the disk refuses.
    pub fn open(settings: &LsmSettings) -> Result<Arc<Self>, String> {
        let path = &settings.path;
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        std::fs::create_dir_all(path).map_err(|error| told(&error))?;
        let rows_bytes = (settings.memory_bytes as f64 * ROWS_PART) as u64;
        let tree =
            Tree::open(path, settings.memory_bytes - rows_bytes).map_err(|error| told(&error))?;
        let opened = tree.begin_run().map_err(|error| told(&error))?;
        let rows = Arc::new(Rows::new(rows_bytes));
        let is_synced = matches!(settings.durability, Durability::Group | Durability::Each);
        let writeback =
            Writeback::start(path, &tree, is_synced).map_err(|error| no_thread(&error))?;
        let lsm = Arc::new(Self {
            writes: Arc::new(Lane::new(WRITES_BYTES_MAX)),
            reads: Arc::new(Lane::new(READS_MAX)),
            scans: Arc::default(),
            opened,
            batch: Arc::default(),
            failing: Arc::default(),
            threads: Mutex::default(),
            rows: Arc::clone(&rows),
            tree: tree.clone(),
        });
        let writer = Writer {
            tree: tree.clone(),
            rows: Arc::clone(&rows),
            lane: Arc::clone(&lsm.writes),
            durability: settings.durability,
            writeback,
            newest: opened.0,
            batch: Arc::clone(&lsm.batch),
            failing: Arc::clone(&lsm.failing),
            told: Seldom::default(),
        };
        let taker = Taker::new(&lsm.writes);
        lsm.spawn("kv write", move || {
            let _taker = taker;
            writer.run();
        })?;
        for _ in 0..READERS {
            let (tree, rows, taker) = (tree.clone(), Arc::clone(&rows), Taker::new(&lsm.reads));
            lsm.spawn("kv read", move || read_all(&tree, &rows, taker.lane()))?;
        }
        Ok(lsm)
    }

    /// Whether the thread that writes has been at one batch for too long.
    fn is_stuck(&self) -> bool {
        self.batch.under_way() > STUCK
    }

    /// Has a write wait for its batch.
    fn put(&self, write: Write) {
        if self.is_stuck() {
            answer([(write.then)(Err(EngineError::Failed(STUCK_WHY.to_owned())))]);
            return;
        }
        let bytes = write.bytes();
        if let Err(write) = self.writes.put(write, bytes) {
            answer([(write.then)(Err(EngineError::Busy))]);
        }
    }

    /// Has a key taken away.
    fn take(&self, key: Bytes, version: Version, how: How, then: Then<Option<Version>>) {
        let cell = Cell {
            version,
            expires_ms: None,
            value: None,
        };
        self.put(Write {
            key,
            cell,
            how,
            then,
        });
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(run).map_err(|error| no_thread(&error))?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(thread);
        Ok(())
    }
}

impl Engine for Lsm {
    fn at_hand(&self, key: &[u8]) -> Option<Cell> {
        self.rows.find(key)
    }

    fn read(&self, key: Bytes, then: Then<Option<Cell>>) {
        if let Err((_, then)) = self.reads.put((key, then), 1) {
            answer([then(Err(EngineError::Busy))]);
        }
    }

    fn write(&self, key: Bytes, cell: Cell, over: Option<Version>, then: Then<Option<Version>>) {
        let how = over.map_or(How::Newer, How::Over);
        self.put(Write {
            key,
            cell,
            how,
            then,
        });
    }

    fn forget(&self, key: Bytes, version: Version, then: Then<Option<Version>>) {
        self.take(key, version, How::Forget, then);
    }

    fn remove(&self, key: Bytes, version: Version, then: Then<Option<Version>>) {
        self.take(key, version, How::Remove, then);
    }

    fn scan(&self, from: Bytes, to: Option<Bytes>, mut each: Each, then: Then<()>) {
        if self.scans.fetch_add(1, Ordering::AcqRel) >= SCANS_MAX {
            self.scans.fetch_sub(1, Ordering::AcqRel);
            answer([then(Err(EngineError::Busy))]);
            return;
        }
        let (tree, scans) = (self.tree.clone(), Arc::clone(&self.scans));
        let run = move || {
            let result = tree.scan(&from, to.as_deref(), &mut each);
            drop(each);
            answer([then(result)]);
            scans.fetch_sub(1, Ordering::AcqRel);
        };
        // A thread that cannot be started drops `then`: the client gets a 500.
        let thread = std::thread::Builder::new().name("kv scan".to_owned());
        if thread.spawn(run).is_err() {
            self.scans.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn opened(&self) -> (Version, u16) {
        self.opened
    }

    fn claim(&self, node: &str) -> Result<(), String> {
        match self.owner()? {
            Some(owner) if owner == node => Ok(()),
            Some(owner) => Err(format!(
                "the data is of the node {owner}, and the configuration says {node}"
            )),
            None => self.note(&[(META_NODE, Bytes::copy_from_slice(node.as_bytes()))]),
        }
    }

    fn owner(&self) -> Result<Option<String>, String> {
        let owner = self.noted(META_NODE)?;
        Ok(owner.map(|owner| String::from_utf8_lossy(&owner).into_owned()))
    }

    fn noted(&self, name: &str) -> Result<Option<Bytes>, String> {
        let noted = self.tree.meta.get(name);
        let noted = noted.map_err(|error| error.to_string())?;
        Ok(noted.map(|bytes| Bytes::copy_from_slice(&bytes)))
    }

    fn note(&self, notes: &[(&str, Bytes)]) -> Result<(), String> {
        let database = &self.tree.database;
        let mut batch = database.batch().durability(Some(PersistMode::SyncAll));
        for (name, bytes) in notes {
            batch.insert(&self.tree.meta, *name, &bytes[..]);
        }
        batch.commit().map_err(|error| error.to_string())
    }

    fn failing(&self) -> Option<String> {
        let is_stuck = self.is_stuck().then(|| STUCK_WHY.to_owned());
        is_stuck.or_else(|| self.failing.why())
    }

    fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty() && self.scans.load(Ordering::Acquire) == 0
    }
}

impl Drop for Lsm {
    fn drop(&mut self) {
        self.writes.close();
        self.reads.close();
        let threads = self.threads.get_mut();
        let threads = std::mem::take(threads.unwrap_or_else(PoisonError::into_inner));
        let current = std::thread::current().id();
        for thread in threads {
            // What a thread had to do may have been the last that held the tree.
            if thread.thread().id() == current {
                continue;
            }
            while !thread.is_finished() {
                if self.is_stuck() {
                    // It holds the journal, too. The end of the process ends it.
                    return;
                }
                std::thread::sleep(POLL);
            }
            let _ = thread.join();
        }
        // What was acknowledged is as durable as was said. The rest of it comes for nothing.
        let _ = self.tree.database.persist(PersistMode::SyncAll);
    }
}

/// Reads what waits, until nothing comes any more.
fn read_all(tree: &Tree, rows: &Rows, lane: &Lane<(Bytes, Then<Option<Cell>>)>) {
    while let Some(reads) = lane.take(lane::FEW) {
        let count = reads.len();
        let answers = reads.into_iter().map(|(key, then)| {
            let stamp = rows.stamp(&key);
            let found = tree.read(&key);
            if let Ok(Some(cell)) = &found {
                rows.fill(&key, cell, stamp);
            }
            then(found)
        });
        answer(answers);
        lane.done(count);
    }
}

/// Gives the answers that there are.
fn answer<T>(answers: T)
where
    T: IntoIterator<Item = Option<(Replier, weir_gateway::service::Answer)>>,
{
    Replier::answer_all(answers.into_iter().flatten());
}

#[cfg(test)]
mod tests;
