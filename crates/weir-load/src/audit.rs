//! An audit of the generator: what it used, whether it kept its own schedule, and so whether a run's figures are the
//! server's.

use rustix::time::{ClockId, clock_gettime};

use crate::outcome::Outcome;
use crate::report::{PERCENTILES, Report, show};

/// What a thread has used, up to an instant or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The instant on the run's clock, or the time between two.
    pub wall_ns: u64,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time ready to run while others had the CPU; 0 where the kernel does not say.
    pub waited_ns: u64,
}

impl Usage {
    /// What the calling thread has used so far.
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

/// With less than this part of the planned requests sent, the load was not the one that was asked for.
const SENT_MIN: f64 = 0.99;
/// A thread that was busy, or waited for a CPU, for more than this part of the time could not have sent more.
const BUSY_MAX: f64 = 0.9;
/// In less time than this, nobody can tell how busy a thread is.
const BUSY_FOR_NS_MIN: u64 = 50_000_000;
/// A generator whose lateness is more than this part of the latency measures itself.
const LAG_MAX: f64 = 0.25;
/// With more than this part of the requests refused, reset or not answered in time, the server carries less than it is sent.
const LOST_MAX: f64 = 0.1;
/// With more than this part of the requests ended after the planned time, a reader who divides is told why.
const LATE_ENDS_MAX: f64 = 0.01;
/// The quantiles at which lateness is judged, and how much of it, in nanoseconds, any kernel's timers may add there.
/// Half of all timers are on time.
const LAG_AT: [(f64, &str, u64); 2] = [(0.99, "99th percentile", 100_000), (0.5, "median", 0)];

/// Why the figures of `report` are not the server's, in whole sentences with the remedy.
pub(crate) fn verdict(report: &Report) -> Vec<String> {
    [
        nothing_measured(report),
        not_sent(report).filter(|_| server_limit(report).is_none()),
        local_failures(report),
        busy(report),
        lag(report),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What kept the generator, and not the server, from doing better, if anything did.
pub(crate) fn generator_limit(report: &Report) -> Option<String> {
    local_failures(report)
        .or_else(|| busy(report))
        .or_else(|| lag(report))
}

pub(crate) fn nothing_measured(report: &Report) -> Option<String> {
    (report.requests() == 0)
        .then(|| "No request ended, so there is nothing to say about the server.".to_owned())
}

/// How many of how many planned requests were sent by the end of their schedule, if they were too few. A run that catches
/// up later did not put the planned load on the server.
fn missed_schedule(report: &Report) -> Option<(u64, u64)> {
    let planned = report.planned()?;
    let median_ns = report.outcomes.good_latency_ns().value_at_quantile(0.5);
    let overruns = report.overruns.iter();
    let after_end: u64 = overruns.map(|overrun| overrun.unexplained(median_ns)).sum();
    let in_time = report.sent.saturating_sub(after_end);
    let is_kept = planned == 0 || in_time as f64 >= SENT_MIN * planned as f64;
    (!is_kept).then_some((in_time, planned))
}

/// The server fell behind, and the generator did all it could: every connection was waiting, and the server lost requests
/// or held them longer the more it had.
pub(crate) fn server_limit(report: &Report) -> Option<String> {
    let (in_time, planned) = missed_schedule(report)?;
    if generator_limit(report).is_some() {
        return None;
    }
    let lost = [Outcome::Refused, Outcome::Reset, Outcome::Timeout];
    let lost: u64 = lost.iter().map(|it| report.outcomes.count(*it)).sum();
    let lost = lost as f64 / report.requests().max(1) as f64;
    let evidence = if lost > LOST_MAX {
        format!(
            "it refused, broke off or did not answer in time {:.0} % of what it was sent",
            100.0 * lost
        )
    } else {
        let (few, all) = report.held.grew()?;
        format!(
            "an answer took {} with all connections in use, and {} with few",
            show(all),
            show(few)
        )
    };
    let rest = match report.not_sent {
        0 => "the others were sent later".to_owned(),
        never => format!("{never} never were"),
    };
    Some(format!(
        "Only {in_time} of {planned} planned requests ({:.1} %) could be sent by the end of their schedule, and {rest}: every \
         connection was waiting for the server, and {evidence}.",
        100.0 * in_time as f64 / planned as f64
    ))
}

/// The planned load was not sent, whoever the reason is.
pub(crate) fn not_sent(report: &Report) -> Option<String> {
    let (in_time, planned) = missed_schedule(report)?;
    let percent = 100.0 * in_time as f64 / planned as f64;
    let remedy = if waited_for_connections(report) {
        "every connection was waiting for the server, which was not seen to slow down; raise --connections, or lower the \
         rate"
    } else {
        "raise --threads, or lower the rate"
    };
    Some(format!(
        "Only {in_time} of {planned} planned requests were sent by the end of their schedule ({percent:.1} %): {remedy}."
    ))
}

/// Whether requests were late, or not sent, because no connection was free. The generator was then not late with those
/// that it could send.
pub(crate) fn waited_for_connections(report: &Report) -> bool {
    report.sent_late > report.sent / 10 || lag(report).is_none()
}

/// Requests that certainly had no good answer, or one later than `within_ns`, by the doing of the server: the reading that is
/// most favourable to it. A request without a port here says nothing. A generator that was busy may have left any answer unread.
/// One that was late has made no latency longer than by its longest delay, and with more connections requests that waited for one
/// might have been in time.
pub(crate) fn certainly_bad(report: &Report, within_ns: u64) -> u64 {
    let count = |outcome| report.outcomes.count(outcome);
    let answered_badly = count(Outcome::ClientError) + count(Outcome::ServerError);
    let refused = count(Outcome::Refused).saturating_sub(report.local_failures);
    let failed = answered_badly + refused + count(Outcome::Reset);
    if busy(report).is_some() {
        return failed;
    }
    let failed = failed + count(Outcome::Timeout);
    if missed_schedule(report).is_some() {
        return failed;
    }
    let late_from_ns = within_ns
        .saturating_add(report.lag_ns.max())
        .saturating_add(1);
    let good = report.outcomes.good_latency_ns();
    let late = good.len() - good.count_between(0, late_from_ns);
    failed + late
}

/// Whether so much of the load was made that a promise kept under it is kept under the planned one.
pub(crate) fn is_load_made(report: &Report) -> bool {
    let failed_here = report.local_failures as f64;
    failed_here <= (1.0 - SENT_MIN) * report.sent.max(1) as f64
}

fn local_failures(report: &Report) -> Option<String> {
    (report.local_failures > 0).then(|| {
        format!(
            "{} connections could not be made because this machine had no port or descriptor left: use fewer \
             connections, keep them alive, or raise the limit of open files (ulimit -n).",
            report.local_failures
        )
    })
}

/// A thread that only computes is busy. A thread that is ready but has no CPU, because the server has it, is a
/// bottleneck as well. In both cases answers lay unread, and requests were sent later than they could have been.
fn busy(report: &Report) -> Option<String> {
    let share = |part: u64, usage: &Usage| part as f64 / usage.wall_ns.max(1) as f64;
    let long_enough = report
        .usage
        .iter()
        .filter(|usage| usage.wall_ns >= BUSY_FOR_NS_MIN);
    let busiest = long_enough.max_by(|one, other| {
        let occupied = |usage: &Usage| share(usage.cpu_ns + usage.waited_ns, usage);
        occupied(one).total_cmp(&occupied(other))
    })?;
    let (computing, waiting) = (
        share(busiest.cpu_ns, busiest),
        share(busiest.waited_ns, busiest),
    );
    if computing + waiting <= BUSY_MAX {
        return None;
    }
    let percent = |share: f64| (100.0 * share).round();
    Some(if waiting > 0.1 {
        format!(
            "The generator was held up: its busiest thread computed for {} % of the time and waited for a CPU that \
             others had for {} %; give it CPUs of its own (taskset), or another machine than the server's.",
            percent(computing),
            percent(waiting)
        )
    } else {
        format!(
            "The generator was the bottleneck: its busiest thread computed for {} % of the time; raise --threads if \
             CPUs are free, or use another machine as well.",
            percent(computing)
        )
    })
}

fn lag(report: &Report) -> Option<String> {
    let latency = report.outcomes.good_latency_ns();
    if report.lag_ns.is_empty() || latency.is_empty() {
        return None;
    }
    LAG_AT.into_iter().find_map(|(quantile, name, harmless_ns)| {
        let (lag, latency) = (
            report.lag_ns.value_at_quantile(quantile),
            latency.value_at_quantile(quantile),
        );
        (lag > harmless_ns && lag as f64 > LAG_MAX * latency as f64).then(|| {
            format!(
                "The generator sent late: by {} at its {name}, beside a latency of {}; give it CPUs of its own (taskset), \
                 or another rate.",
                show(lag),
                show(latency)
            )
        })
    })
}

/// What is in the figures of `report` besides the server's own time, in whole sentences. The figures are not wrong:
/// clients with as many connections see the same.
pub(crate) fn remarks(report: &Report) -> Vec<String> {
    let all = [
        ended_late(report),
        waits_for_connections(report),
        falls_behind(report),
    ];
    all.into_iter().flatten().collect()
}

/// Rates are over the planned time, latencies over all requests.
fn ended_late(report: &Report) -> Option<String> {
    let part = report.overtime as f64 / report.requests().max(1) as f64;
    (part > LATE_ENDS_MAX).then(|| {
        format!(
            "{} of {} requests ended after the {} s of the run: they are in the table, and in no rate.",
            report.overtime,
            report.requests(),
            report.seconds
        )
    })
}

/// The server answers less than it is sent, and what waits for it grows.
fn falls_behind(report: &Report) -> Option<String> {
    let (first, last) = report.fell_behind()?;
    if server_limit(report).is_some() {
        return None;
    }
    Some(format!(
        "The server answered less than it was sent, {:.1} good answers per second: the median latency rose from {} in the first third \
         of the run to {} in the last, and would go on rising.",
        report.goodput(),
        show(first),
        show(last)
    ))
}

/// A server that pauses keeps every connection busy, and requests that become due meanwhile wait.
fn waits_for_connections(report: &Report) -> Option<String> {
    if report.sent_late == 0 || report.planned().is_none() {
        return None;
    }
    let share = report.sent_late as f64 / report.sent.max(1) as f64;
    let mut names = PERCENTILES
        .iter()
        .filter(|(_, quantile)| *quantile > 1.0 - share);
    let from = names.next().map_or("max", |(name, _)| *name);
    Some(format!(
        "{} of {} requests ({:.2} %) were sent late because every connection was waiting for the server: latencies from {from} on \
         are also of that wait, and would be others with more --connections.",
        report.sent_late,
        report.sent,
        100.0 * share
    ))
}

#[cfg(test)]
mod tests;
