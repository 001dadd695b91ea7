//! What processes used: CPU time and memory, from `/proc`.
//!
//! The scheduler's account of a thread (`schedstat`) counts nanoseconds but ends with the thread. The account of a
//! process (`stat`) includes ended threads, in ticks of 10 ms. The first is used, unless the second shows that it
//! missed something.

pub(crate) mod connections;

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Pid;

/// The unit of times in `/proc/PID/stat`: `USER_HZ`, which is 100 on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;
/// The rounding error in the ticks of a process: user and system time, at both ends of a measurement.
const TICKS_OFF_MAX: f64 = 4.0;

/// What a set of processes had used at a moment.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Nanoseconds by process and thread.
    threads: BTreeMap<(i32, i32), u64>,
    /// Ticks of each process, with its ended threads and the ended children it waited for.
    ticks: BTreeMap<i32, u64>,
    /// The largest resident memory of each process so far, in bytes.
    rss_peaks: BTreeMap<i32, u64>,
    /// Its processes are in another account, so it adds nothing.
    is_elsewhere: bool,
}

impl Account {
    /// What `processes` have used. A process that ended counts nothing.
    pub fn of(processes: &[Pid]) -> Self {
        let mut account = Self::default();
        for process in processes {
            account.add(process.as_raw_nonzero().get());
        }
        account
    }

    /// The account of a service whose processes are those of another one.
    pub fn elsewhere() -> Self {
        Self {
            is_elsewhere: true,
            ..Self::default()
        }
    }

    fn add(&mut self, process: i32) {
        let Some(stat) = Stat::read(process) else {
            return;
        };
        self.ticks.insert(process, stat.ticks);
        if let Some(peak) = rss_peak(process) {
            self.rss_peaks.insert(process, peak);
        }
        for thread in numbers_in(&format!("/proc/{process}/task")) {
            let path = format!("/proc/{process}/task/{thread}/schedstat");
            let text = fs::read_to_string(path).unwrap_or_default();
            let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
            if let Some(nanos) = nanos {
                self.threads.insert((process, thread), nanos);
            }
        }
    }

    /// CPU seconds from `earlier` to now; `None` when nothing could be read.
    pub fn cpu_seconds_since(&self, earlier: &Self) -> Option<f64> {
        if self.is_elsewhere {
            return Some(0.0);
        }
        if self.ticks.is_empty() {
            return None;
        }
        let threads = self.threads.iter();
        let nanos: u64 = threads
            .map(|(thread, now)| now.saturating_sub(*earlier.threads.get(thread).unwrap_or(&0)))
            .sum();
        let processes = self.ticks.iter();
        let ticks: u64 = processes
            .map(|(process, now)| now.saturating_sub(*earlier.ticks.get(process).unwrap_or(&0)))
            .sum();
        let exact = nanos as f64 / 1e9;
        let coarse = ticks as f64 / TICKS_PER_SECOND;
        let off_max = TICKS_OFF_MAX * self.ticks.len() as f64 / TICKS_PER_SECOND;
        Some(if coarse > exact + off_max {
            coarse
        } else {
            exact
        })
    }

    /// The largest resident memory so far, summed over the processes; `None` when nothing could be read.
    pub fn rss_peak_bytes(&self) -> Option<u64> {
        (!self.rss_peaks.is_empty()).then(|| self.rss_peaks.values().sum())
    }
}

/// The processes of a group that have not ended.
pub(crate) fn processes_of_group(group: Pid) -> Vec<Pid> {
    let group = group.as_raw_nonzero().get();
    all_processes(|stat| stat.group == group)
}

/// `roots` and all their descendants.
pub(crate) fn processes_of_trees(roots: &[Pid]) -> Vec<Pid> {
    let mut tree: Vec<i32> = roots
        .iter()
        .map(|root| root.as_raw_nonzero().get())
        .collect();
    let parents: Vec<(i32, i32)> = numbers_in("/proc")
        .into_iter()
        .filter_map(|process| Some((process, Stat::read(process)?.parent)))
        .collect();
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        let children = parents
            .iter()
            .filter(|(child, of)| *of == parent && !tree.contains(child));
        let children: Vec<i32> = children.map(|(child, _)| *child).collect();
        tree.extend(children);
        next += 1;
    }
    tree.into_iter().filter_map(Pid::from_raw).collect()
}

/// The processes that hold a socket which listens on `port`.
pub(crate) fn processes_listening(port: u16) -> Vec<Pid> {
    let all = connections::table().into_iter();
    let listening = all.filter(|it| it.is_listening && it.local.port() == port);
    let sockets: Vec<u64> = listening.map(|it| it.inode).collect();
    let holds_one = |process: &i32| sockets_of(*process).any(|inode| sockets.contains(&inode));
    if sockets.is_empty() {
        return Vec::new();
    }
    numbers_in("/proc")
        .into_iter()
        .filter(holds_one)
        .filter_map(Pid::from_raw)
        .collect()
}

/// The inodes of the sockets that a process holds.
fn sockets_of(process: i32) -> impl Iterator<Item = u64> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
    let entries = descriptors.into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter_map(|target| {
        let inode = target
            .to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?;
        inode.parse().ok()
    })
}

/// The name of a process, as the kernel has it.
pub(crate) fn name(process: Pid) -> Option<String> {
    let path = format!("/proc/{}/comm", process.as_raw_nonzero());
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn all_processes(is_meant: impl Fn(&Stat) -> bool) -> Vec<Pid> {
    let processes = numbers_in("/proc").into_iter();
    let found =
        processes.filter(|process| Stat::read(*process).is_some_and(|stat| is_meant(&stat)));
    found.filter_map(Pid::from_raw).collect()
}

fn numbers_in(directory: &str) -> Vec<i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn rss_peak(process: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The fields of `/proc/PID/stat` that are read here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    group: i32,
    ticks: u64,
}

impl Stat {
    /// `None` when there is no such process, or only a zombie.
    fn read(process: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the program stands in brackets and may contain anything, also brackets and spaces.
        let (_, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let has_ended = matches!(*fields.first()?, "Z" | "X");
        // utime, stime, cutime, cstime
        let times = fields.get(11..15)?.iter();
        let ticks = times
            .map(|time| time.parse::<u64>())
            .sum::<Result<u64, _>>()
            .ok()?;
        (!has_ended).then_some(Self {
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            ticks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let text = |name: &str, state: &str| {
            format!("77 ({name}) {state} 5 6 6 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 9\n")
        };
        for name in ["nginx", "a) S 1 (b", ""] {
            let stat = Stat::parse(&text(name, "S"));
            assert_eq!(
                stat,
                Some(Stat {
                    parent: 5,
                    group: 6,
                    ticks: 100
                }),
                "{name}"
            );
        }
        assert_eq!(Stat::parse(&text("nginx", "Z")), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn this_process_uses_time_and_memory_and_has_a_group() {
        let this = rustix::process::getpid();
        let before = Account::of(&[this]);
        let mut sum = 0_u64;
        while Account::of(&[this]).cpu_seconds_since(&before).unwrap() < 0.02 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(before.rss_peak_bytes().unwrap() > 100_000);
        let group = rustix::process::getpgrp();
        assert!(processes_of_group(group).contains(&this));
        assert!(processes_of_trees(&[this]).contains(&this));
    }

    #[test]
    fn the_listening_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(processes_listening(port), [rustix::process::getpid()]);
        drop(listener);
        assert_eq!(processes_listening(port), []);
    }

    #[test]
    fn nothing_is_known_of_processes_that_are_not_there() {
        let account = Account::of(&[]);
        assert_eq!(account.cpu_seconds_since(&account), None);
        assert_eq!(account.rss_peak_bytes(), None);
    }
}
