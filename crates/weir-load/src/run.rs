//! A run from beginning to end: it starts the threads, has them begin together, and adds up what they record.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::arrivals::Share;
use crate::audit::{self, Usage};
use crate::plan::{End, Plan};
use crate::progress::Progress;
use crate::recorder::{Handover, Recorder};
use crate::report::{Interval, Report};
use crate::thread::{Halt, ThreadEnd, ThreadStart};

/// How often the threads' recorders are collected.
const COLLECT: Duration = Duration::from_millis(100);
/// Collections between two reports of progress.
const PROGRESS_COLLECTIONS: u32 = 2;
/// The length of an interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between "all threads are ready" and the start of the load, so that no thread begins late.
const HEAD_START: Duration = Duration::from_millis(2);

/// Why there was no run.
#[derive(Debug)]
pub enum RunError {
    /// No run can follow the plan: what is wrong with it.
    Plan(String),
    /// No connection could be opened: what happened.
    Connect(String),
    /// A thread or its runtime could not be made.
    Thread(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(what) | Self::Connect(what) => f.write_str(what),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

/// Carries out `plan`. The run ends early when `stop` is set; `on_progress` is called a few times a second.
///
/// # Errors
/// The plan contradicts itself, or no connection could be opened. Whatever goes wrong later is part of the report.
pub fn run(
    plan: Plan,
    stop: &AtomicBool,
    mut on_progress: impl FnMut(&Progress<'_>),
) -> Result<Report, RunError> {
    plan.check().map_err(RunError::Plan)?;
    let plan = Arc::new(plan);
    let epoch = Instant::now();
    let (threads, done) = Threads::start(&plan, epoch)?;
    let mut gathering = Gathering::new(&plan, epoch, threads.begin(epoch)?);
    loop {
        match done.recv_timeout(COLLECT) {
            Err(RecvTimeoutError::Timeout) => {}
            // One thread is over, or all are.
            Ok(()) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stop.load(Ordering::Relaxed) {
            gathering.is_cut_short = true;
            threads.halt.set(gathering.now_ns());
        }
        gathering.collect(&threads.handovers);
        gathering.tell(&mut on_progress);
    }
    gathering.collect(&threads.handovers);
    Ok(gathering.finish(&threads.join()?))
}

/// The threads of a run.
struct Threads {
    handles: Vec<JoinHandle<io::Result<Option<ThreadEnd>>>>,
    handovers: Vec<Arc<Handover>>,
    starts: Vec<SyncSender<u64>>,
    opened: Receiver<Result<(), String>>,
    halt: Arc<Halt>,
}

impl Threads {
    /// Starts the threads. The receiver is disconnected once the last one is over.
    fn start(plan: &Arc<Plan>, epoch: Instant) -> Result<(Self, Receiver<()>), RunError> {
        let (done, all_done) = channel();
        let (opened, all_opened) = sync_channel(plan.threads);
        let mut threads = Self {
            handles: Vec::new(),
            handovers: Vec::new(),
            starts: Vec::new(),
            opened: all_opened,
            halt: Arc::default(),
        };
        for index in 0..plan.threads {
            let handover = Arc::<Handover>::default();
            let (start, started) = sync_channel(1);
            let thread = ThreadStart {
                plan: Arc::clone(plan),
                share: Share {
                    index: index as u64,
                    of: plan.threads as u64,
                },
                connections: plan.connections / plan.threads
                    + usize::from(index < plan.connections % plan.threads),
                epoch,
                handover: Arc::clone(&handover),
                halt: Arc::clone(&threads.halt),
                opened: opened.clone(),
                start: started,
                done: done.clone(),
            };
            let handle = std::thread::Builder::new()
                .name(format!("load-{index}"))
                .spawn(move || thread.run())
                .map_err(RunError::Thread)?;
            threads.handles.push(handle);
            threads.handovers.push(handover);
            threads.starts.push(start);
        }
        Ok((threads, all_done))
    }

    /// Waits until all threads are ready and starts them together. Returns when, on the run's clock.
    fn begin(&self, epoch: Instant) -> Result<u64, RunError> {
        let mut failure = None;
        for _ in &self.handles {
            match self.opened.recv() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failure = Some(RunError::Connect(error)),
                // `join` reports it.
                Err(_) => break,
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let start_ns = (epoch.elapsed() + HEAD_START).as_nanos() as u64;
        for start in &self.starts {
            // `join` reports a thread that is gone.
            let _ = start.send(start_ns);
        }
        Ok(start_ns)
    }

    fn join(self) -> Result<Vec<ThreadEnd>, RunError> {
        let ends = self.handles.into_iter().map(|handle| {
            let end = handle.join().expect("a sending thread does not panic");
            end.map_err(RunError::Thread)
        });
        let ends: Result<Vec<_>, _> = ends.collect();
        Ok(ends?.into_iter().flatten().collect())
    }
}

/// What has been collected so far.
struct Gathering {
    plan: Arc<Plan>,
    epoch: Instant,
    start_ns: u64,
    counted_from_ns: u64,
    started_unix: f64,
    sum: Recorder,
    interval: Recorder,
    interval_from_ns: u64,
    intervals: Vec<Interval>,
    collections: u32,
    is_cut_short: bool,
}

impl Gathering {
    fn new(plan: &Arc<Plan>, epoch: Instant, start_ns: u64) -> Self {
        let counted_from_ns = start_ns + plan.warm_up.as_nanos() as u64;
        let since_epoch = epoch.elapsed().as_nanos() as f64;
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |unix| unix.as_secs_f64());
        Self {
            plan: Arc::clone(plan),
            epoch,
            start_ns,
            counted_from_ns,
            started_unix: unix + (counted_from_ns as f64 - since_epoch) / 1e9,
            sum: Recorder::default(),
            interval: Recorder::default(),
            interval_from_ns: counted_from_ns,
            intervals: Vec::new(),
            collections: 0,
            is_cut_short: false,
        }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn collect(&mut self, handovers: &[Arc<Handover>]) {
        for handover in handovers {
            handover.collect(&mut self.interval);
        }
        let now_ns = self.now_ns();
        if now_ns >= self.interval_from_ns + INTERVAL.as_nanos() as u64 {
            self.close_interval(now_ns);
        }
    }

    fn close_interval(&mut self, now_ns: u64) {
        self.sum.merge(&self.interval);
        self.intervals.push(Interval {
            from_s: self.seconds_at(self.interval_from_ns),
            to_s: self.seconds_at(now_ns),
            outcomes: self.interval.outcomes.clone(),
        });
        self.interval.clear();
        self.interval_from_ns = now_ns;
    }

    fn seconds_at(&self, now_ns: u64) -> f64 {
        now_ns.saturating_sub(self.counted_from_ns) as f64 / 1e9
    }

    fn tell(&mut self, on_progress: &mut impl FnMut(&Progress<'_>)) {
        self.collections += 1;
        if !self.collections.is_multiple_of(PROGRESS_COLLECTIONS) {
            return;
        }
        let now_ns = self.now_ns();
        let mut so_far = self.sum.outcomes.clone();
        so_far.merge(&self.interval.outcomes);
        let seconds = self.seconds_at(now_ns);
        let done = match self.plan.end {
            End::After(lasts) => seconds / lasts.as_secs_f64(),
            End::Requests(requests) => so_far.total() as f64 / requests as f64,
        };
        // Just after an interval has closed, it says more than the new one.
        let last = self.intervals.last();
        let (recent, recent_seconds) = match last {
            Some(last)
                if self.interval.outcomes.total() == 0
                    || now_ns < self.interval_from_ns + INTERVAL.as_nanos() as u64 / 2 =>
            {
                (&last.outcomes, last.to_s - last.from_s)
            }
            _ => (
                &self.interval.outcomes,
                now_ns.saturating_sub(self.interval_from_ns) as f64 / 1e9,
            ),
        };
        on_progress(&Progress {
            elapsed: Duration::from_nanos(now_ns.saturating_sub(self.start_ns)),
            is_counting: now_ns >= self.counted_from_ns,
            done: done.clamp(0.0, 1.0),
            so_far: &so_far,
            recent,
            recent_seconds,
        });
    }

    fn finish(mut self, ends: &[ThreadEnd]) -> Report {
        for end in ends {
            self.interval.merge(&end.recorder);
        }
        let now_ns = self.now_ns();
        if self.interval.outcomes.total() > 0 || self.intervals.is_empty() {
            self.close_interval(now_ns.max(self.interval_from_ns));
        } else {
            self.sum.merge(&self.interval);
        }
        let seconds = match self.plan.end {
            End::After(lasts) if !self.is_cut_short => lasts.as_secs_f64(),
            End::After(_) => self.seconds_at(self.sum.last_sent_ns),
            End::Requests(_) => self.seconds_at(self.sum.last_ended_ns),
        };
        let cpu = |usage: &Usage| usage.cpu_ns as f64 / 1e9;
        let mut report = Report {
            plan: self.plan,
            started_unix: self.started_unix,
            seconds,
            lapses: self.sum.lapses.since(self.counted_from_ns),
            held: self.sum.held,
            trend: self.sum.trend,
            outcomes: self.sum.outcomes,
            intervals: self.intervals,
            sent: self.sum.sent,
            not_sent: ends.iter().map(|end| end.not_sent).sum(),
            sent_late: self.sum.sent_late,
            overruns: ends.iter().map(|end| end.overrun).collect(),
            overtime: self.sum.overtime,
            overtime_good: self.sum.overtime_good,
            abandoned: ends.iter().map(|end| end.abandoned).sum(),
            is_cut_short: self.is_cut_short,
            lag_ns: self.sum.lag_ns,
            bytes_received: self.sum.bytes_received,
            local_failures: self.sum.local_failures,
            usage: ends.iter().map(|end| end.sending).collect(),
            generator_cpu_s: ends
                .iter()
                .map(|end| cpu(&end.sending) + cpu(&end.ending))
                .sum(),
            why_invalid: Vec::new(),
            server_limit: None,
            remarks: Vec::new(),
        };
        report.why_invalid = audit::verdict(&report);
        report.server_limit = audit::server_limit(&report);
        report.remarks = audit::remarks(&report);
        report
    }
}
