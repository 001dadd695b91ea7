//! Where CPU time goes: samples of the CPU clock with their stacks.
//!
//! The kernel's clock is used, not the processor's cycles, which virtual machines often do not have. Stacks are unwound
//! with DWARF, because few programs keep frame pointers.

use std::collections::HashMap;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};

use super::perf::{self, Started};
use super::summary::Cpu;

/// A longer time gives no better picture, and costs 4 MB a second for each busy core.
const DURATION_MAX: Duration = Duration::from_secs(10);
/// How many functions are named in words.
const HOTTEST: usize = 6;
/// Functions in the stacks of the kernel's probes.
const OF_PROBES: [&str; 2] = ["uprobe", "exc_int3"];
/// The mark of kernel functions in stacks.
const KERNEL_MARK: &str = "_[k]";

/// Folded stacks of samples.
pub(super) struct Sampled {
    /// A line for each stack: functions from the outermost, and the microseconds.
    pub(super) folded: String,
}

pub(super) fn start(pids: &[u32], duration: Duration, file: &Path) -> Started {
    let arguments = [
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "499",
        "--call-graph",
        "dwarf,8192",
    ];
    perf::start(&arguments, pids, duration.min(DURATION_MAX), file)
}

pub(super) fn finish(started: Started) -> Result<Sampled, String> {
    let (perf, _) = started.end()?;
    let file = perf
        .file
        .to_str()
        .ok_or("the directory is not valid UTF-8")?;
    let script = perf::output("perf", &["script", "--no-inline", "-i", file])?;
    let mut options = Options::default();
    options.annotate_kernel = true;
    let mut folded = Vec::new();
    Folder::from(options)
        .collapse(BufReader::new(script.as_slice()), &mut folded)
        .map_err(|error| format!("what perf wrote cannot be read: {error}"))?;
    let folded = String::from_utf8_lossy(&folded);
    let folded: String = folded.lines().filter_map(of_service).collect();
    if folded.is_empty() {
        return Err("the service did not use its CPUs while it was looked at".to_owned());
    }
    Ok(Sampled { folded })
}

/// A folded stack with microseconds instead of nanoseconds. `None` for stacks of the probes that count allocations:
/// that time is ours, not the service's.
fn of_service(line: &str) -> Option<String> {
    let (stack, ns) = line.rsplit_once(' ')?;
    let ns: u64 = ns.parse().ok()?;
    let is_ours = OF_PROBES.iter().any(|function| stack.contains(function));
    (!is_ours).then(|| format!("{stack} {}\n", ns / 1_000))
}

impl Sampled {
    pub(super) fn summary(&self, graph: String) -> Cpu {
        let mut all_us = 0;
        let mut by_function: HashMap<&str, u64> = HashMap::new();
        for line in self.folded.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else {
                continue;
            };
            let count = count.parse().unwrap_or(0);
            all_us += count;
            *by_function
                .entry(stack.rsplit(';').next().unwrap_or(stack))
                .or_default() += count;
        }
        let mut hottest: Vec<(&str, u64)> = by_function.into_iter().collect();
        hottest.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let shares = hottest.into_iter().take(HOTTEST).map(|(name, count)| {
            let share = count as f64 / all_us as f64;
            match name.strip_suffix(KERNEL_MARK) {
                Some(name) => (format!("{name} (kernel)"), share),
                None => (name.to_owned(), share),
            }
        });
        Cpu {
            seconds: all_us as f64 / 1e6,
            hottest: shares.collect(),
            graph,
        }
    }
}
