//! A share of one CPU for a service: a cgroup of its own with a quota, v1 or v2.
//!
//! The cgroup is made below the laboratory's own, if the system allows it. A process joins it by writing its id into
//! [`members_file`] before it becomes the service. Only the CPU is limited.
//!
//! In version 2 a cgroup gives a controller to its children on request (`cgroup.subtree_control`). If the laboratory
//! makes that request, it takes it back in the end. It makes its cgroups inside one of its own, which requests the
//! controller as well. While that one exists, the kernel lets no other laboratory take the controller away.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::janitor::{DIRECTORY_PREFIX, Item, Janitor};

/// The period of a quota; the kernel's default.
const PERIOD_US: u64 = 100_000;
/// The smallest quota that the kernel takes.
const QUOTA_US_MIN: u64 = 1_000;
/// How long a cgroup may take to lose its last process.
const REMOVE_PATIENCE: Duration = Duration::from_secs(2);
/// The file that says what a cgroup of version 2 gives to its children.
const SUBTREE_CONTROL: &str = "cgroup.subtree_control";

/// Where cgroups with a CPU quota can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuShares {
    /// A directory of the `cpu` controller of version 1.
    V1(PathBuf),
    /// A directory of version 2, whose children have the `cpu` controller once it is requested.
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
    /// Finds the place and prepares it; `janitor` is told. The error says in one sentence why there are no CPU shares.
    pub(super) fn open(janitor: &Janitor) -> Result<Self, String> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let candidates = candidates(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        let mut refusal = "no cgroup file system with a cpu controller is mounted".to_owned();
        for candidate in candidates {
            match candidate.made_ready(janitor) {
                Ok(ready) => return Ok(ready),
                Err(error) => {
                    let place = candidate.parent().display();
                    refusal = format!("{place} cannot be used: {error}");
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

    /// Where cgroups are made from now on: here, or in a cgroup of the laboratory's own. If neither works, everything
    /// is left as it was.
    fn made_ready(&self, janitor: &Janitor) -> io::Result<Self> {
        let mut made = Vec::new();
        let ready = self.prepared(janitor, &mut made);
        let ready = ready.and_then(|ready| ready.probe(janitor).map(|()| ready));
        if ready.is_err() {
            for item in made.iter().rev() {
                janitor.remove(item);
            }
        }
        ready
    }

    fn prepared(&self, janitor: &Janitor, made: &mut Vec<Item>) -> io::Result<Self> {
        let Self::V2(parent) = self else {
            return Ok(self.clone());
        };
        let names_cpu = |file: &str| -> io::Result<bool> {
            let names = fs::read_to_string(parent.join(file))?;
            Ok(names.split_whitespace().any(|name| name == "cpu"))
        };
        if !names_cpu("cgroup.controllers")? {
            return Err(io::Error::other("it has no cpu controller"));
        }
        if !names_cpu(SUBTREE_CONTROL)? {
            let given = Item::Controller(parent.clone());
            janitor.exists(&given)?;
            made.push(given);
            write_to(&parent.join(SUBTREE_CONTROL), "+cpu")?;
        }
        let own = parent.join(format!("{DIRECTORY_PREFIX}{}", std::process::id()));
        let item = Item::Cgroup(own.clone());
        janitor.exists(&item)?;
        made.push(item);
        fs::create_dir(&own)?;
        write_to(&own.join(SUBTREE_CONTROL), "+cpu")?;
        Ok(Self::V2(own))
    }

    fn probe(&self, janitor: &Janitor) -> io::Result<()> {
        let path = self.path("probe");
        let item = Item::Cgroup(path.clone());
        janitor.exists(&item)?;
        let made = self.make(&path, 1.0);
        janitor.remove(&item);
        made
    }

    /// Where the cgroup of this laboratory called `name` will be.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let own = std::process::id();
        self.parent()
            .join(format!("{DIRECTORY_PREFIX}{own}-{name}"))
    }

    /// Makes the cgroup at `path`, whose processes together get `share` of one CPU.
    pub(super) fn make(&self, path: &Path, share: f64) -> io::Result<()> {
        fs::create_dir(path)?;
        self.limit(path, share)
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

/// A process joins the cgroup at `path` by writing its id here.
pub(super) fn members_file(path: &Path) -> PathBuf {
    path.join("cgroup.procs")
}

/// Kills all processes of the cgroup at `path`, in whatever group or session, and removes it. Returns whether it is
/// gone.
pub(super) fn remove(path: &Path) -> bool {
    let started = Instant::now();
    loop {
        kill_members(path);
        match fs::remove_dir(path) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            // A process leaves its cgroup a moment after it ends.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            Err(_) => return false,
        }
        if started.elapsed() > REMOVE_PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the kernel can, it kills those in child cgroups too. Otherwise the next call meets processes that were born
/// meanwhile.
fn kill_members(path: &Path) {
    if write_to(&path.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let members = fs::read_to_string(members_file(path)).unwrap_or_default();
    for member in members.lines().filter_map(|line| line.parse().ok()) {
        if let Some(member) = Pid::from_raw(member) {
            let _ = kill_process(member, Signal::KILL);
        }
    }
}

/// Takes the CPU controller away from the children of the cgroup at `path`. Returns whether that worked. The kernel
/// refuses while another laboratory relies on it; then the controller stays.
pub(super) fn take_back(path: &Path) -> bool {
    write_to(&path.join(SUBTREE_CONTROL), "-cpu").is_ok()
}

/// Writes to a file of the kernel, which must exist.
fn write_to(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Where cgroups may be made, from the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. First the laboratory's
/// own cgroup, then its ancestors, since version 2 gives no controller to children of a cgroup that holds processes.
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
    // When both are mounted, version 1 has the cpu controller if it lists it, so it comes first.
    found.sort_by_key(|shares| matches!(shares, CpuShares::V2(_)));
    found
}

/// The path in the matching line `N:CONTROLLERS:PATH`.
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
