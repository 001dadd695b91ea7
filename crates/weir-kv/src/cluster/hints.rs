//! What another node did not take, kept on disk until it does (hinted handoff, as in Dynamo, SOSP 2007).
//!
//! Each other node has a log and a thread. Cells are appended as they come, and sent in order when the node is up; how far it has
//! come is kept beside the log. What was sent twice does no harm. Hints are a help and no promise: those that are too many, or too
//! old, are left to repair.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use weir_log::{Cursor, Directory, Log, Readable, Settings};

use super::Calls;
use crate::cell::Cell;
use crate::frame::{Say, Why, value_bytes};
use crate::seldom::Seldom;
use crate::wall::unix_ms;

/// Cells that wait for the thread, and bytes of them. More are left to repair.
const INBOX_MAX: usize = 8192;
const INBOX_BYTES_MAX: usize = 64 << 20;
/// Bytes on disk for a node.
const LOG_BYTES_MAX: u64 = 1 << 30;
const SEGMENT_BYTES: u64 = 16 << 20;
/// Hints that are under way to a node at once.
const BATCH_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How often it is looked whether the node is up.
const TICK: Duration = Duration::from_millis(100);
/// How long to wait after a node has not taken one, at first and at most.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long to wait for an answer, which has a deadline.
const PATIENCE: Duration = Duration::from_secs(3);
const LOG: &str = "log";
const DONE: &str = "done";

/// The hints for a node.
#[derive(Debug)]
pub(super) struct Hints {
    keeper: Keeper,
    thread: Option<JoinHandle<()>>,
}

/// Takes hints for a node.
#[derive(Debug, Clone)]
pub(super) struct Keeper {
    inbox: SyncSender<(Bytes, Cell)>,
    counts: Arc<Counts>,
}

/// What is told of them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Hints that wait on disk.
    pub(crate) waiting: AtomicU64,
    /// Hints that were not kept, or were left out: too many, too old, or the disk refused.
    pub(crate) left_out: AtomicU64,
    /// Hints that were taken.
    pub(crate) taken: AtomicU64,
    inbox_bytes: AtomicUsize,
    has_ended: AtomicBool,
}

impl Hints {
    /// Opens those for `node` in this directory. Hints that are older than `age` are left out.
    ///
    /// # Errors
    /// The disk refuses, or another process has the directory.
    pub(super) fn open(
        path: &Path,
        (node, is_up): (u16, Arc<AtomicBool>),
        calls: Calls,
        age: Duration,
    ) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let directory = Directory::open(&path.join(LOG)).map_err(|error| told(&error))?;
        let settings = Settings {
            segment_bytes: SEGMENT_BYTES,
            readable: Readable::Written,
            seed: unix_ms() ^ u64::from(std::process::id()) << 40,
        };
        let (mut log, _) =
            Log::open(Arc::new(directory), settings).map_err(|error| told(&error))?;
        let done_path = path.join(DONE);
        let done = match fs::read(&done_path) {
            Ok(bytes) => bytes.try_into().map_or(0, u64::from_be_bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(told(&error)),
        };
        // After a crash of the machine, the log may be shorter than what was sent of it.
        log.skip_to(done).map_err(|error| told(&error))?;
        let (inbox, received) = sync_channel(INBOX_MAX);
        let counts: Arc<Counts> = Arc::default();
        let sender = Sender {
            node,
            is_up,
            calls,
            age_ms: age.as_millis() as u64,
            cursor: log.read_from(done),
            log,
            directory: path.join(LOG),
            done,
            done_path,
            counts: Arc::clone(&counts),
            told: Seldom::default(),
        };
        sender.count();
        let thread = std::thread::Builder::new().name("kv hints".to_owned());
        let thread = thread.spawn(move || sender.run(&received));
        let thread = thread.map_err(|error| told(&error))?;
        Ok(Self {
            keeper: Keeper { inbox, counts },
            thread: Some(thread),
        })
    }

    pub(super) fn keeper(&self) -> Keeper {
        self.keeper.clone()
    }

    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.keeper.counts)
    }
}

impl Keeper {
    /// Keeps a cell, unless too many wait already.
    pub(super) fn keep(&self, key: Bytes, cell: Cell) {
        let bytes = hint_bytes(&key, &cell);
        let before = self.counts.inbox_bytes.fetch_add(bytes, Ordering::AcqRel);
        let has_room = before + bytes <= INBOX_BYTES_MAX;
        if !has_room || self.inbox.try_send((key, cell)).is_err() {
            self.counts.inbox_bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.counts.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.counts().has_ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn hint_bytes(key: &Bytes, cell: &Cell) -> usize {
    key.len() + value_bytes(cell)
}

/// The thread.
struct Sender {
    node: u16,
    is_up: Arc<AtomicBool>,
    calls: Calls,
    age_ms: u64,
    log: Log,
    cursor: Cursor,
    /// Where the log is.
    directory: PathBuf,
    /// The first hint that was not taken.
    done: u64,
    done_path: PathBuf,
    counts: Arc<Counts>,
    told: Seldom,
}

impl Sender {
    fn run(mut self, received: &Receiver<(Bytes, Cell)>) {
        let mut pause = PAUSE;
        let mut not_before = tokio::time::Instant::now();
        loop {
            let has_ended = self.counts.has_ended.load(Ordering::Acquire);
            match received.recv_timeout(TICK) {
                Ok(first) => self.append(std::iter::once(first).chain(received.try_iter())),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if has_ended {
                return;
            }
            let now = tokio::time::Instant::now();
            let is_wanted = self.done < self.log.written() && now >= not_before;
            if !is_wanted || !self.is_up.load(Ordering::Acquire) {
                continue;
            }
            if self.send() {
                pause = PAUSE;
            } else {
                not_before = now + pause;
                pause = (2 * pause).min(PAUSE_MAX);
            }
            self.count();
        }
    }

    /// Appends what has come. What the disk does not take is left to repair.
    fn append(&mut self, hints: impl Iterator<Item = (Bytes, Cell)>) {
        let (mut count, mut cell_bytes) = (0, Vec::new());
        if !self.directory.is_dir() {
            self.begin_anew();
        }
        let mut failed = None;
        for (key, cell) in hints.take(INBOX_MAX) {
            let bytes = hint_bytes(&key, &cell);
            self.counts.inbox_bytes.fetch_sub(bytes, Ordering::AcqRel);
            cell_bytes.clear();
            cell.encode(&mut cell_bytes);
            count += 1;
            failed = self
                .log
                .append(unix_ms(), &key, &cell_bytes)
                .err()
                .or(failed);
        }
        failed = self.log.write().err().or(failed);
        if let Some(error) = failed {
            self.counts.left_out.fetch_add(count, Ordering::Relaxed);
            self.told.tell(format_args!(
                "kv: hints for node number {} are not kept, and are left to repair: {error}",
                self.node
            ));
        }
        // The oldest ones go where there are too many.
        while let Ok(Some(_)) = self.log.drop_oldest(u64::MAX, LOG_BYTES_MAX, 0) {}
        let first = self.log.first_offset();
        if first > self.done {
            let left_out = first - self.done;
            self.counts.left_out.fetch_add(left_out, Ordering::Relaxed);
            self.go_to(first);
        }
        self.count();
    }

    /// Sends the next hints; whether all were taken. Those that were not are sent again.
    fn send(&mut self) -> bool {
        let too_old = unix_ms().saturating_sub(self.age_ms);
        let (mut awaited, mut bytes, mut behind) = (Vec::new(), 0, self.done);
        self.cursor.go_to(self.done);
        while awaited.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            let record = match self.cursor.read() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    self.told.tell(format_args!(
                        "kv: hints for node number {} cannot be read: {error}",
                        self.node
                    ));
                    if !awaited.is_empty() {
                        break;
                    }
                    if matches!(error, weir_log::Error::Damaged(_)) {
                        self.skip_damaged();
                    } else if is_gone(&error) {
                        self.skip_gone();
                    }
                    return false;
                }
            };
            behind = record.offset + 1;
            let cell = Cell::decode(&Bytes::copy_from_slice(record.body));
            match cell {
                Ok(cell) if record.time_ms >= too_old => {
                    let key = Bytes::copy_from_slice(record.head);
                    bytes += hint_bytes(&key, &cell);
                    awaited.push((
                        record.offset,
                        self.calls.begin(self.node, Say::Write(key, cell)),
                    ));
                }
                _ => {
                    self.counts.left_out.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        for (offset, answered) in awaited {
            let answer = answered.and_then(|answered| answered.recv_timeout(PATIENCE).ok());
            match answer {
                Some(Say::Written { .. }) => self.counts.taken.fetch_add(1, Ordering::Relaxed),
                // Its version is too far ahead of the clock there. It would hold up all others, and is left to repair.
                Some(Say::Refused(Why::Clock, _)) => {
                    self.counts.left_out.fetch_add(1, Ordering::Relaxed)
                }
                _ => {
                    self.go_to(offset);
                    return false;
                }
            };
        }
        self.go_to(behind);
        true
    }

    /// Leaves out what cannot be read.
    fn skip_damaged(&mut self) {
        let written = self.log.written();
        let next = self.cursor.skip_damaged().unwrap_or(written);
        let left_out = next.saturating_sub(self.done);
        self.counts.left_out.fetch_add(left_out, Ordering::Relaxed);
        self.go_to(next);
    }

    /// A segment was taken away. The segments behind it may be there.
    fn skip_gone(&mut self) {
        match self.cursor.skip_damaged() {
            Some(next) if next > self.done => {
                self.counts
                    .left_out
                    .fetch_add(next - self.done, Ordering::Relaxed);
                self.go_to(next);
            }
            _ => self.begin_anew(),
        }
    }

    /// Begins another segment, since the one that is written was taken away with its directory or without it: it would be written on, and
    /// nobody could read it. What was in it is left out.
    fn begin_anew(&mut self) {
        let next = self.log.written() + 1;
        let mut directory = fs::DirBuilder::new();
        let made = directory
            .recursive(true)
            .mode(0o700)
            .create(&self.directory);
        let begun = match made {
            Ok(()) => self.log.skip_to(next).map_err(|error| error.to_string()),
            Err(error) => Err(format!("{}: {error}", self.directory.display())),
        };
        if let Err(error) = begun {
            self.told.tell(format_args!(
                "kv: the hints for node number {} were taken away, and no others are kept: {error}",
                self.node
            ));
            return;
        }
        let left_out = next - 1 - self.done;
        self.counts.left_out.fetch_add(left_out, Ordering::Relaxed);
        self.told.tell(format_args!(
            "kv: the hints for node number {} were taken away: {left_out} are left to repair",
            self.node
        ));
        self.go_to(next);
    }

    /// Everything before this was taken, or is left out.
    fn go_to(&mut self, offset: u64) {
        if offset == self.done {
            return;
        }
        self.done = offset;
        let kept = write_whole(&self.done_path, &offset.to_be_bytes());
        if let Err(error) = kept {
            self.told
                .tell(format_args!("kv: {}: {error}", self.done_path.display()));
        }
        while let Ok(Some(_)) = self.log.drop_oldest(self.done, 0, 0) {}
    }

    fn count(&self) {
        let waiting = self.log.written().saturating_sub(self.done);
        self.counts.waiting.store(waiting, Ordering::Relaxed);
    }
}

fn is_gone(error: &weir_log::Error) -> bool {
    let weir_log::Error::Io { error, .. } = error else {
        return false;
    };
    error.kind() == std::io::ErrorKind::NotFound
}

/// Replaces a file, so that it is the old one or the new one.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    fs::write(&draft, bytes)?;
    fs::rename(draft, path)
}

#[cfg(test)]
mod tests;
