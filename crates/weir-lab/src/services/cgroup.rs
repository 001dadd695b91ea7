//! A share of one CPU for a service: a cgroup of its own with a quota, v1 or v2.
//!
//! The cgroup is made below the one that the laboratory runs in, where the system lets it. A process joins it by writing
//! its own id into the file of [`Cgroup::members_file`], before it becomes the service. Nothing but the CPU is limited.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How much of a CPU may be used in each period; the kernel's default.
const PERIOD_US: u64 = 100_000;
/// The least quota that the kernel takes.
const QUOTA_US_MIN: u64 = 1_000;
/// How long a cgroup may take to lose its last process.
const REMOVE_PATIENCE: Duration = Duration::from_secs(2);

/// Where cgroups with a CPU quota can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuShares {
    /// A directory of the `cpu` controller of version 1.
    V1(PathBuf),
    /// A directory of version 2 whose children have the `cpu` controller.
    V2(PathBuf),
}

impl fmt::Display for CpuShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1(_) => "cgroup v1",
            Self::V2(_) => "cgroup v2",
        })
    }
}

impl CpuShares {
    /// Finds out; the error says in one sentence why there are none.
    pub fn find() -> Result<Self, String> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let candidates = candidates(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        if candidates.is_empty() {
            return Err("no cgroup file system with a cpu controller is mounted".to_owned());
        }
        let mut refusal = String::new();
        for candidate in candidates {
            match candidate.probe() {
                Ok(()) => return Ok(candidate),
                Err(error) => {
                    refusal = format!(
                        "{} cannot be written: {error}",
                        candidate.parent().display()
                    );
                }
            }
        }
        Err(refusal)
    }

    fn parent(&self) -> &Path {
        match self {
            Self::V1(path) | Self::V2(path) => path,
        }
    }

    fn probe(&self) -> io::Result<()> {
        // A controller is given to children by their parent, once.
        if let Self::V2(parent) = self {
            let control = parent.join("cgroup.subtree_control");
            let given = fs::read_to_string(&control)?;
            if !given
                .split_whitespace()
                .any(|controller| controller == "cpu")
            {
                fs::write(control, "+cpu")?;
            }
        }
        let path = self
            .parent()
            .join(format!("weir-lab-{}-probe", std::process::id()));
        fs::create_dir(&path)?;
        let made = self.limit(&path, 1.0);
        remove(&path);
        made
    }

    /// Where the cgroup called `name` will be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.parent().join(name)
    }

    /// Makes the cgroup at `path`, whose processes together get `share` of one CPU.
    pub fn make(&self, path: &Path, share: f64) -> io::Result<Cgroup> {
        fs::create_dir(path)?;
        self.limit(path, share)?;
        Ok(Cgroup {
            path: path.to_owned(),
        })
    }

    fn limit(&self, path: &Path, share: f64) -> io::Result<()> {
        let quota_us = ((share * PERIOD_US as f64).round() as u64).max(QUOTA_US_MIN);
        match self {
            Self::V1(_) => {
                fs::write(path.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(path.join("cpu.cfs_quota_us"), quota_us.to_string())
            }
            Self::V2(_) => fs::write(path.join("cpu.max"), format!("{quota_us} {PERIOD_US}")),
        }
    }
}

/// A cgroup that was made here. It is removed by [`remove`], when its processes have ended.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A process joins by writing its id here.
    pub fn members_file(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

/// Removes a cgroup whose processes have been killed: they leave it a moment after they have ended.
pub(super) fn remove(path: &Path) {
    let started = Instant::now();
    while let Err(error) = fs::remove_dir(path) {
        let is_busy = error.kind() == io::ErrorKind::ResourceBusy;
        if !is_busy || started.elapsed() > REMOVE_PATIENCE {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where cgroups may be made, from the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`: the laboratory's own cgroup,
/// then those around it, since version 2 gives no controller to children of a cgroup that holds processes.
fn candidates(mounts: &str, own: &str) -> Vec<CpuShares> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let (Some(mount), mut after) = (before.split(' ').nth(4), after.split(' ')) else {
            continue;
        };
        let (kind, options) = (after.next(), after.nth(1).unwrap_or(""));
        let has_cpu = options.split(',').any(|option| option == "cpu");
        match kind {
            Some("cgroup") if has_cpu => {
                let inside = own_path(own, |controllers| {
                    controllers.split(',').any(|c| c == "cpu")
                });
                found.extend(upwards(mount, inside).map(CpuShares::V1));
            }
            Some("cgroup2") => {
                let inside = own_path(own, str::is_empty);
                found.extend(upwards(mount, inside).map(CpuShares::V2));
            }
            _ => {}
        }
    }
    // Where both are mounted, the cpu controller belongs to one of them, and then it is the first.
    found.sort_by_key(|shares| matches!(shares, CpuShares::V2(_)));
    found
}

/// The path of the line `N:CONTROLLERS:PATH` that is meant.
fn own_path(own: &str, is_meant: impl Fn(&str) -> bool) -> &str {
    let mut lines = own.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':')
    });
    lines
        .find(|(controllers, _)| is_meant(controllers))
        .map_or("/", |(_, path)| path)
}

fn upwards<'p>(mount: &'p str, inside: &'p str) -> impl Iterator<Item = PathBuf> {
    let inside = Path::new(inside.trim_start_matches('/'));
    inside
        .ancestors()
        .map(move |inside| Path::new(mount).join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(path: &str) -> CpuShares {
        CpuShares::V1(path.into())
    }

    fn v2(path: &str) -> CpuShares {
        CpuShares::V2(path.into())
    }

    #[test]
    fn the_cpu_controller_is_found_wherever_it_is_mounted() {
        let hybrid = "25 24 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      26 24 0:23 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      27 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            candidates(hybrid, "3:cpu,cpuacct:/\n0::/\n"),
            [
                v1("/sys/fs/cgroup/cpu,cpuacct/"),
                v2("/sys/fs/cgroup/unified/")
            ]
        );
        let unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            candidates(unified, "0::/user.slice/session-1.scope\n"),
            [
                v2("/sys/fs/cgroup/user.slice/session-1.scope"),
                v2("/sys/fs/cgroup/user.slice"),
                v2("/sys/fs/cgroup/"),
            ]
        );
        assert_eq!(
            candidates("1 2 3:4 / /proc rw - proc proc rw\n", "0::/\n"),
            []
        );
    }

    #[test]
    fn a_quota_is_written_as_each_version_wants_it() {
        let directory = std::env::temp_dir().join(format!("weir-cgroup-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let read = |file: &str| fs::read_to_string(directory.join(file)).unwrap();
        v1("/nowhere").limit(&directory, 0.2).unwrap();
        assert_eq!(read("cpu.cfs_quota_us"), "20000");
        assert_eq!(read("cpu.cfs_period_us"), "100000");
        v2("/nowhere").limit(&directory, 2.0 / 3.0).unwrap();
        assert_eq!(read("cpu.max"), "66667 100000");
        v2("/nowhere").limit(&directory, 0.000_1).unwrap();
        assert_eq!(read("cpu.max"), "1000 100000");
        fs::remove_dir_all(&directory).unwrap();
    }
}
