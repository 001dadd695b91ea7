//! System calls per request. perf counts them in the kernel, which costs little and is exact. Where its tracepoints may
//! not be read, strace counts for a second, which costs much and is an estimate.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::perf::{self, Started};
use super::summary::Calls;

/// The calls that servers make, by name. All others are only in the sum: hundreds of counters in each thread are more
/// than a process may open.
const NAMES: &[&str] = &[
    "accept",
    "accept4",
    "bind",
    "brk",
    "clock_nanosleep",
    "clone3",
    "close",
    "connect",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fcntl",
    "fdatasync",
    "fsync",
    "futex",
    "getpid",
    "getrandom",
    "getsockname",
    "getsockopt",
    "io_uring_enter",
    "ioctl",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "newfstat",
    "newfstatat",
    "openat",
    "poll",
    "ppoll",
    "pread64",
    "pwrite64",
    "pwritev",
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "rename",
    "sched_yield",
    "select",
    "sendfile64",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socket",
    "splice",
    "statx",
    "timerfd_settime",
    "unlink",
    "write",
    "writev",
];
const ALL: &str = "raw_syscalls:sys_enter";
const TRACEPOINTS: &str = "/sys/kernel/tracing/events/syscalls";
/// How many calls are named, the most frequent first.
const NAMED: usize = 8;
const STRACE_SECONDS: f64 = 1.0;

/// What counts the calls.
#[derive(Debug)]
pub(super) enum Counting {
    Perf(Started),
    /// strace in place of perf, and the reason.
    Strace(Strace, String),
    Nobody(String),
}

impl Counting {
    /// Returns when counting has begun, or has failed.
    pub(super) fn wait_until_looking(&mut self) {
        if let Self::Perf(started) = self {
            started.wait_until_looking();
        }
    }
}

/// An strace that ends by itself.
#[derive(Debug)]
pub(super) struct Strace {
    child: Child,
    file: PathBuf,
}

pub(super) fn start(pids: &[u32], duration: Duration, file: &Path) -> Counting {
    if Path::new(TRACEPOINTS).is_dir() {
        let exists = |name: &&&str| {
            Path::new(TRACEPOINTS)
                .join(format!("sys_enter_{name}"))
                .exists()
        };
        let named = NAMES
            .iter()
            .filter(exists)
            .map(|name| format!("syscalls:sys_enter_{name}"));
        let events: Vec<String> = std::iter::once(ALL.to_owned()).chain(named).collect();
        return Counting::Perf(count(&events, pids, duration, file));
    }
    let why = "the tracepoints of the kernel cannot be read".to_owned();
    match Strace::start(pids, file) {
        Ok(strace) => Counting::Strace(strace, why),
        Err(no_strace) => Counting::Nobody(format!("{why}; {no_strace}")),
    }
}

pub(super) fn finish(counting: Counting, requests: u64, seconds: f64) -> Result<Calls, String> {
    match counting {
        Counting::Perf(started) => {
            let mut counts = counted(started)?;
            let all = counts
                .iter()
                .position(|(name, _)| name == ALL)
                .map(|at| counts.remove(at).1);
            let all = all.ok_or("perf did not count system calls")?;
            let named = counts
                .into_iter()
                .map(|(name, count)| (name.replace("syscalls:sys_enter_", ""), count));
            Ok(per_request(
                "counted by perf stat",
                all,
                named.collect(),
                requests as f64,
            ))
        }
        Counting::Strace(strace, why) => {
            let counts = strace
                .finish()
                .map_err(|no_strace| format!("{why}; {no_strace}"))?;
            let all = counts.iter().map(|(_, count)| count).sum();
            let requests = requests as f64 / seconds.max(STRACE_SECONDS) * STRACE_SECONDS;
            Ok(per_request(
                "an estimate by strace, which slows the service down",
                all,
                counts,
                requests,
            ))
        }
        Counting::Nobody(why) => Err(why),
    }
}

/// Starts to count `events` in `pids`.
pub(super) fn count(events: &[String], pids: &[u32], duration: Duration, file: &Path) -> Started {
    perf::start(
        &["stat", "-x", ",", "-e", &events.join(",")],
        pids,
        duration,
        file,
    )
}

/// What [`count`] counted, by event.
pub(super) fn counted(started: Started) -> Result<Vec<(String, u64)>, String> {
    let (perf, _) = started.end()?;
    let text =
        std::fs::read_to_string(&perf.file).map_err(|error| format!("perf stat: {error}"))?;
    read_counts(&text)
}

/// Reads `perf stat -x,`: count, unit, event, and what does not matter here.
pub(super) fn read_counts(text: &str) -> Result<Vec<(String, u64)>, String> {
    let mut counts = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(',').collect();
        if let [count, _, event, ..] = fields[..] {
            // An event that never occurred says `<not counted>`.
            let is_unknown = count == "<not supported>";
            if is_unknown {
                return Err(format!("perf cannot count {event} here"));
            }
            counts.push((event.to_owned(), count.parse().unwrap_or(0)));
        }
    }
    Ok(counts)
}

/// Counts divided by `requests`, the most frequent first.
pub(super) fn per_request(
    method: &str,
    all: u64,
    mut counts: Vec<(String, u64)>,
    requests: f64,
) -> Calls {
    let requests = requests.max(1.0);
    counts.retain(|(_, count)| *count > 0);
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), name.clone()));
    counts.truncate(NAMED);
    let by_name = counts
        .into_iter()
        .map(|(name, count)| (name, count as f64 / requests));
    Calls {
        method: method.to_owned(),
        per_request: all as f64 / requests,
        by_name: by_name.collect(),
    }
}

impl Strace {
    fn start(pids: &[u32], file: &Path) -> Result<Self, String> {
        let mut command = Command::new("timeout");
        command.args([
            "--signal=INT",
            &STRACE_SECONDS.to_string(),
            "strace",
            "-f",
            "-c",
            "-U",
            "calls,name",
            "-o",
        ]);
        command.arg(file);
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command
            .spawn()
            .map_err(|error| format!("strace does not start: {error}"))?;
        let file = file.to_owned();
        Ok(Self { child, file })
    }

    fn finish(mut self) -> Result<Vec<(String, u64)>, String> {
        self.child
            .wait()
            .map_err(|error| format!("strace: {error}"))?;
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let counts = read_strace(&text);
        if counts.is_empty() {
            return Err(
                "strace counted nothing, perhaps it may not look at the process".to_owned(),
            );
        }
        Ok(counts)
    }
}

/// Reads the table of `strace -c -U calls,name`.
pub(super) fn read_strace(text: &str) -> Vec<(String, u64)> {
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (count, name) = (fields.next()?.parse().ok()?, fields.next()?);
        (name != "total").then(|| (name.to_owned(), count))
    });
    lines.collect()
}
