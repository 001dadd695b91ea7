//! Allocations per request: calls of the C library's allocator, counted by probes at its functions.
//!
//! A program with its own allocator, as Go programs have, does not call these, and the report says so. Probes live in
//! the kernel and outlive their process, so their names carry its id. [`Probes`] removes its own, and those of
//! laboratories that were killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::calls;
use super::perf::{self, Started};
use super::summary::Calls;

const FUNCTIONS: [&str; 5] = [
    "malloc",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
];
/// The beginnings of the names of libraries that contain these functions.
const LIBRARIES: [&str; 5] = [
    "libc.so",
    "ld-musl",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
];
const IN_KERNEL: &str = "/sys/kernel/tracing/uprobe_events";
const GROUP: &str = "weir_lab_";

/// Probes in the kernel. Dropping them removes them.
#[derive(Debug)]
pub(super) struct Probes {
    group: String,
    events: Vec<String>,
}

impl Probes {
    /// Puts a probe at every function of the allocators that `pids` use.
    pub(super) fn put(pids: &[u32]) -> Result<Self, String> {
        static SETS: AtomicU32 = AtomicU32::new(0);
        take_out_abandoned();
        let libraries: BTreeSet<PathBuf> = pids.iter().flat_map(|pid| libraries(*pid)).collect();
        if libraries.is_empty() {
            return Err("the processes do not use the allocator of a C library".to_owned());
        }
        let set = SETS.fetch_add(1, Ordering::Relaxed);
        let mut probes = Self {
            group: format!("{GROUP}{}_{set}", std::process::id()),
            events: Vec::new(),
        };
        for (index, library) in libraries.iter().enumerate() {
            for function in FUNCTIONS {
                match probes.put_one(index, library, function) {
                    Ok(event) => probes.events.push(event),
                    // A library need not have all of the functions, but without `malloc` a count would be wrong.
                    Err(why) if function == "malloc" => return Err(why),
                    Err(_) => {}
                }
            }
        }
        Ok(probes)
    }

    fn put_one(&self, index: usize, library: &Path, function: &str) -> Result<String, String> {
        let library = library
            .to_str()
            .ok_or("the name of the C library is not valid UTF-8")?;
        let event = format!("{}:{function}_{index}", self.group);
        perf::output(
            "perf",
            &[
                "probe",
                "-q",
                "-x",
                library,
                "--add",
                &format!("{event}={function}"),
            ],
        )?;
        Ok(event)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        take_out(&self.group);
    }
}

pub(super) fn start(probes: &Probes, pids: &[u32], duration: Duration, file: &Path) -> Started {
    if pids.iter().all(|pid| libraries(*pid).is_empty()) {
        return Started::Failed("the process does not use the allocator of a C library".to_owned());
    }
    calls::count(&probes.events, pids, duration, file)
}

pub(super) fn finish(started: Started, requests: u64) -> Result<Calls, String> {
    let counts = calls::counted(started)?;
    let mut by_function: Vec<(String, u64)> = Vec::new();
    for function in FUNCTIONS {
        let of_function = counts.iter().filter(|(event, _)| {
            let name = event
                .rsplit(':')
                .next()
                .and_then(|event| event.rsplit_once('_'));
            name.is_some_and(|(name, _)| name == function)
        });
        by_function.push((
            function.to_owned(),
            of_function.map(|(_, count)| count).sum(),
        ));
    }
    let all = by_function.iter().map(|(_, count)| count).sum();
    Ok(calls::per_request(
        "counted by probes at the allocator",
        all,
        by_function,
        requests as f64,
    ))
}

/// The allocator libraries that a process has mapped.
fn libraries(pid: u32) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .map(Path::new);
    let has_allocator = |path: &&Path| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        LIBRARIES.iter().any(|library| name.starts_with(library))
    };
    paths.filter(has_allocator).map(Path::to_owned).collect()
}

/// Removes the probes of laboratories that have ended.
fn take_out_abandoned() {
    let events = fs::read_to_string(IN_KERNEL).unwrap_or_default();
    let groups = events
        .lines()
        .filter_map(|line| line.strip_prefix("p:")?.split('/').next());
    let of_labs =
        groups.filter_map(|group| Some((group, group.strip_prefix(GROUP)?.split('_').next()?)));
    let abandoned = of_labs.filter(|(_, pid)| !Path::new("/proc").join(pid).exists());
    let groups: BTreeSet<&str> = abandoned.map(|(group, _)| group).collect();
    groups.into_iter().for_each(take_out);
}

fn take_out(group: &str) {
    // Nobody can act on a failure here, and a probe that nobody reads costs nothing.
    let _ = perf::output("perf", &["probe", "-q", "-d", &format!("{group}:*")]);
}
