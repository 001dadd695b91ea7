//! Nothing of a laboratory outlives it, however it ends.
//!
//! The janitor is a process of its own that reads from a pipe. The laboratory tells it of each process group, cgroup
//! and directory before anything can happen in it, and when one is gone. When the pipe ends, because the laboratory
//! closed it, crashed or was killed, the janitor kills and removes whatever was not reported as gone. [`Janitor`] is
//! the laboratory's end, [`keep_house`] is the other process.

use std::fmt;
use std::io::{self, BufRead, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::cgroup;
use crate::cpu;

/// The hidden command of the binary that runs [`keep_house`].
pub const COMMAND: &str = "lab-janitor";
/// The prefix of every directory and cgroup of a laboratory. The janitor removes no other, whatever it is told.
pub const DIRECTORY_PREFIX: &str = "weir-lab-";

/// How long killed processes may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// Something that must not be left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A process group, by its id.
    Group(Pid),
    /// A cgroup and the processes in it, by its directory.
    Cgroup(PathBuf),
    /// The request that a cgroup gives the CPU controller to its children, by its directory.
    Controller(PathBuf),
    /// A directory and everything in it.
    Directory(PathBuf),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(id) => write!(f, "group {}", id.as_raw_nonzero()),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Self::Controller(path) => write!(f, "controller {}", path.display()),
            Self::Directory(path) => write!(f, "directory {}", path.display()),
        }
    }
}

impl Item {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ')? {
            ("group", id) => {
                let id = id.parse().ok().filter(|id| *id > 0)?;
                Some(Self::Group(Pid::from_raw(id)?))
            }
            ("cgroup", path) => Some(Self::Cgroup(PathBuf::from(path))),
            ("controller", path) => Some(Self::Controller(PathBuf::from(path))),
            ("directory", path) => Some(Self::Directory(PathBuf::from(path))),
            _ => None,
        }
    }

    /// Kills or removes the item. Returns whether it is gone now.
    fn remove(&self) -> bool {
        match self {
            Self::Group(id) => end_group(*id),
            Self::Cgroup(path) => is_ours(path) && cgroup::remove(path),
            Self::Controller(path) => cgroup::take_back(path),
            Self::Directory(path) => {
                let _ = is_ours(path).then(|| std::fs::remove_dir_all(path));
                !path.exists()
            }
        }
    }
}

/// The laboratory's end of the pipe. Dropping it waits until the janitor has left.
#[derive(Debug)]
pub struct Janitor {
    child: Child,
    pipe: Option<Mutex<ChildStdin>>,
}

impl Janitor {
    /// Starts the janitor, `weir lab-janitor`.
    pub fn start(weir: &Path) -> io::Result<Self> {
        let mut child = Command::new(weir)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal must not reach the process that cleans up after it.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take().map(Mutex::new);
        Ok(Self { child, pipe })
    }

    /// Must be called before the item can do anything that would need a clean-up.
    pub fn exists(&self, item: &Item) -> io::Result<()> {
        self.tell('+', item)
    }

    /// Kills or removes the item. Only an item that is certainly gone is crossed off: the janitor tries the rest again.
    pub(super) fn remove(&self, item: &Item) {
        if item.remove() {
            self.cross_off(item);
        }
    }

    /// Crosses off an item that is certainly gone. It does no harm if the janitor does not hear of it: either it has
    /// ended, or it will find nothing to do.
    pub(super) fn cross_off(&self, item: &Item) {
        let _ = self.tell('-', item);
    }

    fn tell(&self, sign: char, item: &Item) -> io::Result<()> {
        let pipe = self.pipe.as_ref().expect("the pipe lasts until the drop");
        let mut pipe = pipe.lock().expect("nobody panics while writing a line");
        pipe.write_all(format!("{sign}{item}\n").as_bytes())
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.child.wait();
    }
}

/// The work of the janitor: it reads until `input` ends, then cleans up. A session of its own protects it from signals
/// of the laboratory's terminal.
pub fn keep_house(input: impl BufRead) {
    // This fails for the leader of a group, which is out of reach of the terminal's signals anyway.
    let _ = rustix::process::setsid();
    let mut left = Vec::new();
    // An incomplete line is about something that has not begun.
    for line in input.lines().map_while(Result::ok) {
        note(&line, &mut left);
    }
    // What was made last may lie inside what was made before.
    left.reverse();
    // Processes come first: a cgroup or directory in use comes back or cannot be removed.
    left.sort_by_key(|item| !matches!(item, Item::Group(_)));
    for item in &left {
        let _ = item.remove();
    }
}

fn note(line: &str, left: &mut Vec<Item>) {
    let Some((sign, item)) = line.split_at_checked(1) else {
        return;
    };
    let Some(item) = Item::parse(item) else {
        return;
    };
    match sign {
        "+" => left.push(item),
        "-" => left.retain(|other| *other != item),
        _ => {}
    }
}

/// Kills all processes of a group and waits until they are gone; `false` when they are not.
pub(super) fn end_group(id: Pid) -> bool {
    let _ = kill_process_group(id, Signal::KILL);
    wait_for_group(id, KILL_PATIENCE)
}

/// Waits until no process of the group runs; `false` when the time is over first.
pub(super) fn wait_for_group(id: Pid, patience: Duration) -> bool {
    let started = Instant::now();
    while !cpu::processes_of_group(id).is_empty() {
        if started.elapsed() > patience {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    path.is_absolute() && name.as_bytes().starts_with(DIRECTORY_PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_read_back_as_they_were_written() {
        for item in [
            Item::Group(Pid::from_raw(4242).unwrap()),
            Item::Cgroup("/sys/fs/cgroup/cpu/weir-lab-1".into()),
            Item::Controller("/sys/fs/cgroup".into()),
            Item::Directory("/tmp/weir-lab-1 with a blank".into()),
        ] {
            assert_eq!(Item::parse(&item.to_string()), Some(item));
        }
        for text in [
            "",
            "group",
            "group 0",
            "group -1",
            "group x",
            "file /etc/passwd",
        ] {
            assert_eq!(Item::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_is_gone_counts_as_gone() {
        let name = |kind: &str| format!("{kind}-{}-janitor", std::process::id());
        let ours = std::env::temp_dir().join(name("weir-lab"));
        let theirs = std::env::temp_dir().join(name("somebody-elses"));
        for path in [&ours, &theirs] {
            std::fs::create_dir_all(path.join("inside")).unwrap();
            // This is no cgroup: it is not empty, and cannot be emptied.
            assert!(!Item::Cgroup(path.clone()).remove());
        }
        assert!(!Item::Directory(theirs.clone()).remove());
        assert!(!Item::Controller(theirs.clone()).remove());
        assert!(theirs.join("inside").is_dir());
        assert!(!theirs.join("cgroup.subtree_control").exists());
        assert!(Item::Directory(ours.clone()).remove());
        assert!(Item::Directory(ours.clone()).remove());
        assert!(Item::Cgroup(ours).remove());
        std::fs::remove_dir_all(theirs).unwrap();
    }

    #[test]
    fn what_was_not_reported_as_gone_is_left() {
        let mut left = Vec::new();
        for line in [
            "+directory /a",
            "+group 5",
            "",
            "é",
            "-group 5",
            "-group 6",
            "+cgroup /c",
        ] {
            note(line, &mut left);
        }
        assert_eq!(
            left,
            [Item::Directory("/a".into()), Item::Cgroup("/c".into())]
        );
    }

    #[test]
    fn only_directories_of_a_laboratory_are_removed() {
        for path in [
            "/",
            "/tmp",
            "weir-lab-1",
            "/tmp/weir-lab-1/..",
            "/home/weir-la",
        ] {
            assert!(!is_ours(Path::new(path)), "{path}");
        }
        assert!(is_ours(Path::new("/tmp/weir-lab-1")));
    }
}
