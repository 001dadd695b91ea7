//! A disk in memory that keeps of what was not synced what it likes: any part, in any order, torn at any sector.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use weir_log::{Disk, DiskFile};

/// What is written whole or not at all.
const SECTOR_BYTES: usize = 64;

/// The disk. A clone is the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crashing(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Operations that were begun.
    operations: usize,
    /// The operation at which the machine ends: it is done in part, and none after it.
    crashes_at: Option<usize>,
    /// Bytes of all files together.
    bytes_max: Option<usize>,
    fails_to_sync: bool,
}

#[derive(Debug, Clone, Default)]
struct Content {
    /// As whoever reads it sees it.
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// What was done since it was synced.
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

#[derive(Debug)]
struct OpenFile {
    disk: Crashing,
    file: usize,
}

impl Crashing {
    /// A disk whose machine ends at the operation of this number.
    pub(crate) fn that_crashes_at(operation: usize) -> Self {
        let disk = Self::default();
        disk.state().crashes_at = Some(operation);
        disk
    }

    /// Operations that change something, so far.
    pub(crate) fn operations(&self) -> usize {
        self.state().operations
    }

    /// No more than this fits from now on.
    pub(crate) fn hold_at_most(&self, bytes_max: Option<usize>) {
        self.state().bytes_max = bytes_max;
    }

    /// Whether syncs fail from now on.
    pub(crate) fn fail_to_sync(&self, fails: bool) {
        self.state().fails_to_sync = fails;
    }

    /// What the machine finds when it starts again.
    pub(crate) fn image(&self, rng: &mut Rng) -> Self {
        let state = self.state();
        let mut names = BTreeMap::new();
        let all = state.names.keys().chain(state.durable_names.keys());
        for name in all {
            let (now, then) = (state.names.get(name), state.durable_names.get(name));
            let kept = if now == then || rng.bool() { now } else { then };
            if let Some(&file) = kept {
                names.insert(name.clone(), file);
            }
        }
        let files = state.files.iter().map(|file| file.after_a_crash(rng));
        let after = State {
            files: files.collect(),
            durable_names: names.clone(),
            names,
            ..State::default()
        };
        Self(Arc::new(Mutex::new(after)))
    }

    /// What the process finds when it starts again on a machine that has gone on.
    pub(crate) fn left_behind(&self) -> Self {
        let state = self.state();
        let after = State {
            files: state.files.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            ..State::default()
        };
        Self(Arc::new(Mutex::new(after)))
    }

    /// The content of a file, to be changed.
    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let file = state.names[name];
        let content = &mut state.files[file];
        edit(&mut content.bytes);
        content.durable = content.bytes.clone();
        content.unsynced.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation that changes something. The one at which the machine ends may still have been done: that is left to
    /// the image. It is told of an error, as of all after it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        let number = state.operations;
        state.operations += 1;
        let gone = || io::Error::other("the machine has ended");
        match state.crashes_at {
            Some(at) if number > at => Err(gone()),
            Some(at) if number == at => {
                let _ = change(&mut state);
                Err(gone())
            }
            _ => change(&mut state),
        }
    }
}

impl Content {
    fn apply(&mut self, change: Change) {
        apply(&mut self.bytes, &change);
        self.unsynced.push(change);
    }

    fn after_a_crash(&self, rng: &mut Rng) -> Self {
        let mut bytes = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Change::Length(_) if rng.bool() => apply(&mut bytes, change),
                Change::Length(_) => {}
                Change::Write(position, written) => {
                    let kept = rng.u8(..4);
                    let sectors = written.chunks(SECTOR_BYTES).enumerate();
                    for (at, sector) in sectors {
                        let is_kept = match kept {
                            0 => false,
                            1 => true,
                            _ => rng.bool(),
                        };
                        if is_kept {
                            let position = position + at * SECTOR_BYTES;
                            apply(&mut bytes, &Change::Write(position, sector.to_vec()));
                        }
                    }
                }
            }
        }
        Self {
            durable: bytes.clone(),
            bytes,
            unsynced: Vec::new(),
        }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => bytes.resize(*length, 0),
        Change::Write(position, written) => {
            let ends = position + written.len();
            if bytes.len() < ends {
                bytes.resize(ends, 0);
            }
            bytes[*position..ends].copy_from_slice(written);
        }
    }
}

impl Disk for Crashing {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.change(|state| {
            state.files.push(Content::default());
            let file = state.files.len() - 1;
            state.names.insert(name.to_owned(), file);
            Ok(file)
        })?;
        Ok(Arc::new(OpenFile {
            disk: self.clone(),
            file,
        }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.state().names.get(name).copied();
        Ok(Arc::new(OpenFile {
            disk: self.clone(),
            file: file.ok_or(io::ErrorKind::NotFound)?,
        }))
    }

    fn open_afresh(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(|state| {
            let removed = state.names.remove(name);
            removed.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
        })
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        let crashes_at = state.crashes_at;
        if crashes_at.is_some_and(|at| state.operations >= at) {
            state.operations += 1;
            return Err(io::Error::other("the machine has ended"));
        }
        state.operations += 1;
        state.durable_names = state.names.clone();
        Ok(())
    }
}

impl DiskFile for OpenFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let bytes = &state.files[self.file].bytes;
        let there = bytes.get(position as usize..).unwrap_or_default();
        // Real ones give less than was asked for, too.
        let read = buffer.len().min(there.len()).min(100_000);
        buffer[..read].copy_from_slice(&there[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.disk.change(|state| {
            let held: usize = state.files.iter().map(|file| file.bytes.len()).sum();
            let ends = position as usize + bytes.len();
            let more = ends.saturating_sub(state.files[self.file].bytes.len());
            let room = state
                .bytes_max
                .map_or(usize::MAX, |max| max.saturating_sub(held));
            let fits = bytes.len() - more.saturating_sub(room).min(bytes.len());
            let change = Change::Write(position as usize, bytes[..fits].to_vec());
            state.files[self.file].apply(change);
            if fits < bytes.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        })
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.disk.change(|state| {
            state.files[self.file].apply(Change::Length(bytes as usize));
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let number = state.operations;
        state.operations += 1;
        if state.crashes_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("the machine has ended"));
        }
        if state.fails_to_sync {
            return Err(io::Error::other("input/output error"));
        }
        let content = &mut state.files[self.file];
        content.durable = content.bytes.clone();
        content.unsynced.clear();
        Ok(())
    }
}
