//! What all starts of a laboratory share: the program, the janitor, private directories and CPU shares.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fastrand::Rng;

use super::address;
use super::cgroup::{self, CpuShares};
use super::janitor::{DIRECTORY_PREFIX, Item, Janitor};
use crate::error::{LabError, Tried as _};

/// A directory whose files are in memory.
const MEMORY: &str = "/dev/shm";

/// A laboratory. Dropping it removes its directories. The janitor removes what it cannot, and takes back its requests
/// to cgroups.
#[derive(Debug)]
pub struct Lab {
    weir: PathBuf,
    cache: PathBuf,
    directory: PathBuf,
    memory_directory: PathBuf,
    shares: Result<CpuShares, String>,
    stop: Arc<AtomicBool>,
    rng: RefCell<Rng>,
    counter: AtomicU32,
    /// The last field: the janitor leaves after all else is gone.
    janitor: Janitor,
}

impl Lab {
    /// Opens a laboratory that starts `weir` for its own services and keeps reusable files in `cache`. It ends its work
    /// when `stop` becomes true.
    pub fn open(
        weir: PathBuf,
        cache: PathBuf,
        stop: Arc<AtomicBool>,
        mut rng: Rng,
    ) -> Result<Self, LabError> {
        let janitor = Janitor::start(&weir).tried(|| format!("start {}", weir.display()))?;
        let name = format!(
            "{DIRECTORY_PREFIX}{}-{:06x}",
            std::process::id(),
            rng.u32(..1 << 24)
        );
        let memory = Some(Path::new(MEMORY)).filter(|path| path.is_dir());
        let temporary = std::env::temp_dir();
        let memory_directory = memory.unwrap_or(&temporary).join(format!("{name}-m"));
        let lab = Self {
            weir,
            cache,
            directory: temporary.join(name),
            memory_directory,
            shares: CpuShares::open(&janitor),
            stop,
            rng: RefCell::new(rng),
            counter: AtomicU32::new(0),
            janitor,
        };
        for path in [&lab.directory, &lab.memory_directory] {
            let exists = lab.janitor.exists(&Item::Directory(path.clone()));
            exists
                .and_then(|()| private_directory(path))
                .tried(|| format!("make {}", path.display()))?;
        }
        Ok(lab)
    }

    /// The path of the running program.
    pub fn weir(&self) -> &Path {
        &self.weir
    }

    /// Becomes true when the user wants to end.
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Whether the user wants to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Cgroups for CPU shares, or why there are none.
    pub fn cpu_shares(&self) -> Result<&CpuShares, &str> {
        self.shares.as_ref().map_err(String::as_str)
    }

    /// Where virtualenvs are kept.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// The private temporary directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The private temporary directory in memory.
    pub(crate) fn memory_directory(&self) -> &Path {
        &self.memory_directory
    }

    pub(crate) fn empty_memory_directory(&self) {
        for entry in fs::read_dir(&self.memory_directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }

    pub(crate) fn janitor(&self) -> &Janitor {
        &self.janitor
    }

    pub(crate) fn free_ports(&self, count: usize) -> Result<Vec<u16>, LabError> {
        let ports = address::free_ports(count, &mut self.rng.borrow_mut());
        ports.tried(|| "choose ports".to_owned())
    }

    /// A new directory for a service.
    pub(crate) fn new_directory(&self, service: &str) -> Result<PathBuf, LabError> {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("{number}-{service}"));
        private_directory(&path).tried(|| format!("make {}", path.display()))?;
        Ok(path)
    }

    /// A new cgroup with a share of one CPU: its file of members, and the item to remove.
    pub(crate) fn make_cgroup(&self, share: f64) -> Result<(PathBuf, Item), LabError> {
        let shares = self
            .shares
            .as_ref()
            .map_err(|why| LabError::NoCpuShares(why.clone()))?;
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let path = shares.path(&number.to_string());
        let item = Item::Cgroup(path.clone());
        let exists = self
            .janitor
            .exists(&item)
            .and_then(|()| shares.make(&path, share));
        exists.tried(|| format!("make {}", path.display()))?;
        Ok((cgroup::members_file(&path), item))
    }

    /// Removes something that the janitor knows of.
    pub(crate) fn remove(&self, item: &Item) {
        self.janitor.remove(item);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for path in [&self.directory, &self.memory_directory] {
            self.remove(&Item::Directory(path.clone()));
        }
    }
}

fn private_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path)
}
