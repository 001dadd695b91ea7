//! Has the tree's journal written to the disk before much of it waits in the memory of the kernel.
//!
//! The tree syncs its journal while it keeps all writers out: when a journal is full, and for each flush. Where writes are not synced
//! anyway, tens of megabytes wait by then, and the store would stand still for as long as the disk takes. So another thread
//! syncs the same file all the time, which keeps nobody out. No acknowledgement waits for it, and it promises nothing: if the disk
//! fails, the tree finds out itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes that wait in the memory of the kernel, about.
const UNSYNCED_BYTES: usize = 4 << 20;

/// What is written to the journal and not synced.
#[derive(Debug)]
pub(super) struct Journal {
    unsynced_bytes: usize,
    /// Holds one order: what comes while the file is synced is for the next time.
    orders: SyncSender<()>,
}

impl Journal {
    /// Begins to see to the journal in this directory.
    pub(super) fn start(directory: &Path) -> std::io::Result<Self> {
        let (orders, ordered) = sync_channel(1);
        let directory = directory.to_owned();
        // Nobody waits for its end: a disk may never answer.
        let thread = std::thread::Builder::new().name("kv sync".to_owned());
        thread.spawn(move || sync_when_ordered(&directory, &ordered))?;
        Ok(Self {
            unsynced_bytes: 0,
            orders,
        })
    }

    /// So many bytes more were written.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= UNSYNCED_BYTES && self.orders.try_send(()).is_ok() {
            self.unsynced_bytes = 0;
        }
    }
}

fn sync_when_ordered(directory: &Path, ordered: &Receiver<()>) {
    while ordered.recv().is_ok() {
        // One that is full was synced by the tree.
        if let Some(path) = newest(directory) {
            let _ = File::open(path).and_then(|file| file.sync_data());
        }
    }
}

/// The journal that is written to: they are numbered.
pub(super) fn newest(directory: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(directory).ok()?.flatten();
    let numbered = files.filter_map(|file| {
        let path = file.path();
        let number = path.file_name()?.to_str()?.strip_suffix(".jnl")?;
        Some((number.parse::<u64>().ok()?, path))
    });
    numbered.max().map(|(_, path)| path)
}
