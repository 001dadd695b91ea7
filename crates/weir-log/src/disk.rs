//! Where a log's files are: a directory, or in a test a disk that crashes.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Advice;

use crate::Error;

/// The file whose lock keeps other processes out.
const LOCK: &str = "lock";

/// A directory of files. What was done to it is durable once it was synced, and until then in any order, in part or not at all.
pub trait Disk: Debug + Send + Sync {
    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;

    /// An empty file of this name, whatever was there.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// The file of this name, to be read and written.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// The same, and what the kernel remembers of its content is read anew. After a sync that failed, that is not what the
    /// disk has.
    fn open_afresh(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Removes the file of this name. Whoever has it open can go on reading.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names that were created and removed durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// A file.
pub trait DiskFile: Debug + Send + Sync {
    /// Its length.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads what is there, which may be less than `buffer` has room for; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes all of `bytes`. After an error, any part of it may be written.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;

    /// Cuts it off.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Makes content and length durable.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of this machine, which belongs to this process as long as the value lives.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Opens it, and creates it if there is none.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |doing| move |error| Error::io(doing, path.display(), error);
        create(path).map_err(failed("create"))?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let lock = options.open(path.join(LOCK)).map_err(failed("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_path_buf(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(Error::InUse(path.to_path_buf())),
            Err(TryLockError::Error(error)) => Err(failed("lock")(error)),
        }
    }
}

/// Creates a directory and those that it is in, durably: what is synced in it would be lost with its name.
fn create(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    create(parent)?;
    // What is logged may be anything that clients send, credentials included.
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

impl Disk for Directory {
    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names = names.filter(|name| !matches!(name, Ok(name) if name == LOCK));
        names.collect()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).read(true).write(true);
        Ok(Arc::new(options.open(self.path.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        Ok(Arc::new(options.open(self.path.join(name))?))
    }

    fn open_afresh(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path.join(name))?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(Arc::new(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl DiskFile for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.write_all_at(bytes, position)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
