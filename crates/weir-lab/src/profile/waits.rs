//! What threads wait for: the time between leaving a CPU and coming back, by the stack that left.
//!
//! Every switch is recorded, so only a short time is observed. Stacks are followed by frame pointers: the kernel has
//! them, and unwinding each stack would cost more than what is measured.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::perf::{self, Started};
use super::summary::Waits;

/// Short, since there may be hundreds of thousands of switches a second.
const DURATION_MAX: Duration = Duration::from_secs(1);

/// What a stack must contain for each kind of wait; the first match counts. Names of kernel functions.
const KINDS: [(&str, &[&str]); 5] = [
    ("locks and parked threads", &["futex"]),
    (
        "events",
        &["epoll_wait", "do_poll", "do_select", "io_cqring_wait"],
    ),
    ("a timer", &["nanosleep"]),
    (
        "disk",
        &["io_schedule", "fsync", "fdatasync", "wait_on_page"],
    ),
    (
        "a socket or pipe",
        &[
            "sk_wait",
            "wait_for_more_packets",
            "accept",
            "pipe_read",
            "pipe_write",
            "unix_stream",
        ],
    ),
];

/// Microseconds off the CPU, by stack and by kind.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Waited {
    pub(super) seconds: f64,
    pub(super) by_stack: BTreeMap<String, f64>,
    pub(super) by_kind: BTreeMap<&'static str, f64>,
}

pub(super) fn start(pids: &[u32], duration: Duration, file: &Path) -> Started {
    let arguments = [
        "record",
        "-q",
        "-e",
        "sched:sched_switch",
        "--switch-events",
        "--call-graph",
        "fp",
    ];
    perf::start(&arguments, pids, duration.min(DURATION_MAX), file)
}

pub(super) fn finish(started: Started) -> Result<Waited, String> {
    let (perf, seconds) = started.end()?;
    let file = perf
        .file
        .to_str()
        .ok_or("the directory is not valid UTF-8")?;
    let fields = "comm,tid,cpu,time,event,trace,ip,sym";
    let script = perf::output(
        "perf",
        &[
            "script",
            "--no-inline",
            "--show-switch-events",
            "-F",
            fields,
            "-i",
            file,
        ],
    )?;
    let mut waited = read(&String::from_utf8_lossy(&script));
    waited.seconds = seconds;
    if waited.by_stack.is_empty() {
        return Err("no thread left its CPU and came back while it was looked at".to_owned());
    }
    Ok(waited)
}

/// A thread that left its CPU.
struct Away {
    since: f64,
    kind: Option<&'static str>,
    /// Functions, from the innermost.
    stack: Vec<String>,
    name: String,
}

/// Reads the output of `perf script`. A switch has a line with the thread's next state, then its stack; a return is a
/// line too.
pub(super) fn read(script: &str) -> Waited {
    let mut waited = Waited::default();
    let mut away: HashMap<u32, Away> = HashMap::new();
    let mut leaving = None;
    for line in script.lines() {
        if line.starts_with(char::is_whitespace)
            && leaving.is_some()
            && !line.contains("PERF_RECORD")
            && !line.contains("sched:")
        {
            let thread = leaving.and_then(|tid| away.get_mut(&tid));
            if let Some((thread, function)) = thread.zip(line.split_whitespace().nth(1)) {
                thread.stack.push(function.to_owned());
            }
            continue;
        }
        leaving = None;
        let Some(header) = Header::read(line) else {
            continue;
        };
        if header.event.contains("PERF_RECORD_SWITCH") {
            if header.event.contains(" IN")
                && let Some(thread) = away.remove(&header.tid)
            {
                waited.add(&thread, header.time);
            }
        } else if let Some((_, state)) = header.event.split_once("prev_state=") {
            let thread = Away {
                since: header.time,
                // A thread that was runnable when it left waited only for a CPU.
                kind: state.starts_with('R').then_some("a CPU"),
                stack: Vec::new(),
                name: header.name.to_owned(),
            };
            away.insert(header.tid, thread);
            leaving = Some(header.tid);
        }
    }
    waited
}

/// `NAME TID [CPU] TIME: EVENT`; the name may contain spaces.
struct Header<'a> {
    name: &'a str,
    tid: u32,
    time: f64,
    event: &'a str,
}

impl<'a> Header<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (before, event) = line.split_once(": ")?;
        let (before, time) = before.trim().rsplit_once(' ')?;
        let (before, _cpu) = before.trim().rsplit_once(' ')?;
        let (name, tid) = before.trim().rsplit_once(' ')?;
        Some(Self {
            name: name.trim(),
            tid: tid.parse().ok()?,
            time: time.parse().ok()?,
            event,
        })
    }
}

impl Waited {
    fn add(&mut self, thread: &Away, until: f64) {
        let us = ((until - thread.since) * 1e6).max(0.0);
        let kind = thread.kind.unwrap_or_else(|| kind(&thread.stack));
        *self.by_kind.entry(kind).or_default() += us;
        let mut stack = thread.name.replace(';', ":");
        for function in thread.stack.iter().rev() {
            let _ = write!(stack, ";{function}");
        }
        *self.by_stack.entry(stack).or_default() += us;
    }

    /// A line for each stack, with microseconds.
    pub(super) fn folded(&self) -> String {
        let mut folded = String::new();
        for (stack, us) in &self.by_stack {
            let _ = writeln!(folded, "{stack} {}", us.round());
        }
        folded
    }

    pub(super) fn summary(&self, graph: String) -> Waits {
        let by_kind = self
            .by_kind
            .iter()
            .map(|(kind, us)| ((*kind).to_owned(), us / 1e6));
        let mut by_kind: Vec<(String, f64)> = by_kind.collect();
        by_kind.sort_by(|one, other| other.1.total_cmp(&one.1));
        Waits {
            seconds: self.seconds,
            by_kind,
            graph,
        }
    }
}

fn kind(stack: &[String]) -> &'static str {
    let fits = |names: &[&str]| {
        stack
            .iter()
            .any(|function| names.iter().any(|name| function.contains(name)))
    };
    let mut kinds = KINDS.iter().filter(|(_, names)| fits(names));
    kinds.next().map_or("something else", |(kind, _)| kind)
}
