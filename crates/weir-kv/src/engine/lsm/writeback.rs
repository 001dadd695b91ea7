//! Does little by little, and beside the tree, what the tree would otherwise do at once while it keeps everybody out.
//!
//! **Writing.** The tree syncs its journal while it keeps all writers out: when a journal is full, and for each flush. And it syncs the list of
//! its tables five times over while it keeps readers out as well: after each flush and each compaction. A file system with a
//! journal of its own has such a sync wait for what other files have written, too; with tens of megabytes of it, the store
//! would stand still for as long as the disk takes. So another thread syncs the same files all the time, which keeps nobody out. No
//! acknowledgement waits for it, and it promises nothing: if the disk fails, the tree finds out itself.
//!
//! **Letting go.** When a flush or a compaction is done, the tree drops what it has replaced under the same lock: half a million cells of
//! a table in memory, one by one, and files, which a file system with `discard` takes hundreds of milliseconds for. So this thread has a share of
//! them, and another one is the last to drop it.

use std::any::Any;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, SystemTime};

use fjall::{AbstractTree as _, Keyspace};

use super::tree::Tree;

/// Bytes of the journal that wait in the memory of the kernel, about.
const UNSYNCED_BYTES: usize = 4 << 20;
/// How often it is looked for tables that have grown.
const TICK: Duration = Duration::from_millis(100);
/// How often it is looked for more when nothing has grown: what is written may be compacted a while later.
const TICKS_IDLE_MAX: u32 = 50;
/// Tables that are written at once: one for each thread of the tree, and some for those that have just been ended.
const TABLES: usize = 4;
/// How long the end of the thread is waited for: a disk may never answer.
const END: Duration = Duration::from_secs(5);

/// What is written to the journal and not synced.
#[derive(Debug)]
pub(super) struct Writeback {
    unsynced_bytes: usize,
    /// Holds one order: what comes while files are synced is for the next time.
    orders: Option<SyncSender<()>>,
    is_idle: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl Writeback {
    /// Begins to see to the tree in this directory; to its journal only if that is not synced anyway.
    pub(super) fn start(
        directory: &Path,
        tree: &Tree,
        is_journal_synced: bool,
    ) -> std::io::Result<Self> {
        let (orders, ordered) = sync_channel(1);
        let (ends, ended) = sync_channel(0);
        let is_idle = Arc::new(AtomicBool::new(true));
        let (lets_go, let_go) = channel();
        let syncer = Syncer {
            journal: (!is_journal_synced).then(|| directory.to_owned()),
            tables: folders(directory),
            shares: Shares::new(lets_go),
            cells: tree.cells.clone(),
            ordered,
            is_idle: Arc::clone(&is_idle),
            _ends: ends.clone(),
        };
        // As long as it has files to remove, nobody else may open the directory.
        let has_until_the_end = (tree.cells.clone(), ends);
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        spawn("kv let go").spawn(move || {
            let_go.into_iter().for_each(drop);
            drop(has_until_the_end);
        })?;
        spawn("kv sync").spawn(move || syncer.run())?;
        Ok(Self {
            unsynced_bytes: 0,
            orders: Some(orders),
            is_idle,
            ended,
        })
    }

    /// So many bytes more were written.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.unsynced_bytes += bytes;
        let is_due = self.unsynced_bytes >= UNSYNCED_BYTES || self.is_idle.load(Ordering::Relaxed);
        let orders = self.orders.as_ref().filter(|_| is_due);
        if orders.is_some_and(|orders| orders.try_send(()).is_ok()) {
            self.unsynced_bytes = 0;
        }
    }
}

impl Drop for Writeback {
    /// The threads have the tree, and with it the directory.
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.ended.recv_timeout(END);
    }
}

/// The thread.
struct Syncer {
    journal: Option<PathBuf>,
    tables: Vec<Folder>,
    shares: Shares,
    cells: Keyspace,
    ordered: Receiver<()>,
    is_idle: Arc<AtomicBool>,
    /// Dropped last.
    _ends: SyncSender<()>,
}

impl Syncer {
    /// Syncs as long as something is written, and sleeps otherwise, until nothing comes any more.
    fn run(mut self) {
        while self.ordered.recv().is_ok() {
            self.is_idle.store(false, Ordering::Relaxed);
            self.sync_journal();
            let mut idle = 0;
            while idle < TICKS_IDLE_MAX {
                match self.ordered.recv_timeout(TICK) {
                    Ok(()) => {
                        idle = 0;
                        self.sync_journal();
                    }
                    Err(RecvTimeoutError::Timeout) => idle += 1,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                for folder in &mut self.tables {
                    if folder.sync() {
                        idle = 0;
                    }
                }
                self.shares.take(&self.cells);
            }
            self.is_idle.store(true, Ordering::Relaxed);
        }
    }

    fn sync_journal(&self) {
        // One that is full was synced by the tree.
        if let Some(path) = self.journal.as_deref().and_then(newest_journal) {
            sync(&path);
        }
    }
}

/// What somebody else drops.
type LetGo = Box<dyn Any + Send>;

/// What the tree has, or has had just now.
pub(super) struct Shares {
    /// Tables in memory.
    memtables: Vec<Arc<dyn Any + Send + Sync>>,
    lists: Vec<List>,
    lets_go: Sender<LetGo>,
}

/// A list of tables on disk. Who drops the last one that has a table removes its file.
struct List {
    number: u64,
    share: LetGo,
    /// Whether the tree was about to drop it when that was last looked at.
    is_dropped: bool,
}

impl Shares {
    pub(super) fn new(lets_go: Sender<LetGo>) -> Self {
        Self {
            memtables: Vec::new(),
            lists: Vec::new(),
            lets_go,
        }
    }

    /// Takes a share of what there is now, and lets go of what the tree has.
    pub(super) fn take(&mut self, cells: &Keyspace) {
        let memtable: Arc<dyn Any + Send + Sync> = cells.tree.active_memtable();
        if !self
            .memtables
            .iter()
            .any(|held| Arc::ptr_eq(held, &memtable))
        {
            self.memtables.push(memtable);
        }
        let is_let_go = |held: &mut Arc<dyn Any + Send + Sync>| Arc::strong_count(held) == 1;
        for memtable in self.memtables.extract_if(.., is_let_go) {
            let _ = self.lets_go.send(Box::new(memtable));
        }
        let list = cells.tree.current_version();
        let number = list.id();
        if self.lists.last().is_none_or(|last| last.number != number) {
            self.lists.push(List {
                number,
                share: Box::new(list),
                is_dropped: false,
            });
        }
        // The tree removes the file of a list right before it drops it, some of them at once.
        let folder = cells.path();
        let is_let_go = |list: &mut List| {
            let is_there = folder.join(format!("v{}", list.number)).exists();
            std::mem::replace(&mut list.is_dropped, !is_there) && !is_there
        };
        for list in self.lists.extract_if(.., is_let_go) {
            let _ = self.lets_go.send(list.share);
        }
    }

    /// How many tables in memory, and lists.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.memtables.len(), self.lists.len())
    }
}

/// Tables of a part of the tree.
pub(super) struct Folder {
    path: PathBuf,
    /// When a table came or went.
    changed: Option<SystemTime>,
    /// The newest ones, and how long they were when they were synced. Older ones do not change.
    newest: HashMap<PathBuf, u64>,
}

pub(super) fn folders(directory: &Path) -> Vec<Folder> {
    let parts = std::fs::read_dir(directory.join("keyspaces"));
    let parts = parts.into_iter().flatten().flatten();
    let folder = |path| Folder {
        path,
        changed: None,
        newest: HashMap::new(),
    };
    parts
        .map(|part| folder(part.path().join("tables")))
        .collect()
}

impl Folder {
    /// Syncs the tables that have grown; whether there are some.
    pub(super) fn sync(&mut self) -> bool {
        let changed = std::fs::metadata(&self.path).and_then(|it| it.modified());
        if changed.as_ref().ok() != self.changed.as_ref() {
            self.changed = changed.ok();
            self.look();
        }
        let mut has_grown = false;
        for (path, synced) in &mut self.newest {
            let bytes = std::fs::metadata(path).map_or(*synced, |table| table.len());
            if bytes > *synced {
                *synced = bytes;
                has_grown = true;
                sync(path);
            }
        }
        has_grown
    }

    /// Finds the newest tables.
    fn look(&mut self) {
        let mut tables = numbered(&self.path, "");
        tables.sort_unstable_by(|one, two| two.cmp(one));
        tables.truncate(TABLES);
        let before = std::mem::take(&mut self.newest);
        let table = |(_, path): (u64, PathBuf)| {
            let synced = before.get(&path).copied().unwrap_or_default();
            (path, synced)
        };
        self.newest = tables.into_iter().map(table).collect();
    }
}

fn sync(path: &Path) {
    let _ = File::open(path).and_then(|file| file.sync_data());
}

/// The journal that is written to.
pub(super) fn newest_journal(directory: &Path) -> Option<PathBuf> {
    let newest = numbered(directory, ".jnl").into_iter().max();
    newest.map(|(_, path)| path)
}

/// Files that are named by a number, and this behind it.
fn numbered(directory: &Path, suffix: &str) -> Vec<(u64, PathBuf)> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let numbered = files.filter_map(|file| {
        let path = file.path();
        let number = path.file_name()?.to_str()?.strip_suffix(suffix)?;
        Some((number.parse().ok()?, path))
    });
    numbered.collect()
}
