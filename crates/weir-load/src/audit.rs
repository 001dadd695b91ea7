//! The generator looked at as the server is: what it used, whether it kept its own schedule, and so whether a run's
//! figures are the server's.

use rustix::time::{ClockId, clock_gettime};

use crate::report::Report;

/// What a thread has used, at an instant or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// On the run's clock, or how long.
    pub wall_ns: u64,
    /// On a CPU.
    pub cpu_ns: u64,
    /// Ready to run while others had the CPU; 0 where the kernel does not say.
    pub waited_ns: u64,
}

impl Usage {
    /// Of the calling thread so far.
    pub(crate) fn of_this_thread(now_ns: u64) -> Self {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        // "on a CPU, waiting for one, times run" in nanoseconds (Documentation/scheduler/sched-stats.rst).
        let waited = std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok());
        Self {
            wall_ns: now_ns,
            cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
            waited_ns: waited.unwrap_or(0),
        }
    }

    /// What was used after `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            waited_ns: self.waited_ns.saturating_sub(earlier.waited_ns),
        }
    }
}

/// Why the figures of `report` are not the server's, in whole sentences with the remedy.
pub(crate) fn verdict(_report: &Report) -> Vec<String> {
    Vec::new()
}
