//! One thread that sends: how it begins, runs and ends. It shares nothing with other threads but the recorder it hands
//! over. `lane` holds what its connections share.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Instant;

use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::task::spawn_local;

use crate::arrivals::Share;
use crate::audit::Usage;
use crate::connection;
use crate::lane::{Lane, keep_time};
use crate::overrun::Overrun;
use crate::plan::Plan;
use crate::recorder::{Handover, Recorder};
use crate::source::Source;

/// Tasks polled before the runtime looks for events: in a long round, one system call brings many responses.
const EVENT_INTERVAL: u32 = 1024;

/// When a run is ended early, for all its threads.
#[derive(Debug)]
pub(crate) struct Halt(AtomicU64);

impl Halt {
    pub(crate) const NEVER: u64 = u64::MAX;

    /// Stops sending at `now_ns` on the run's clock.
    pub(crate) fn set(&self, now_ns: u64) {
        self.0.fetch_min(now_ns, Ordering::Relaxed);
    }

    /// When sending stops; [`Halt::NEVER`] until that is known.
    pub(crate) fn at_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Halt {
    fn default() -> Self {
        Self(AtomicU64::new(Self::NEVER))
    }
}

/// What a thread is started with.
pub(crate) struct ThreadStart {
    pub(crate) plan: Arc<Plan>,
    pub(crate) share: Share,
    pub(crate) connections: usize,
    /// Zero of the run's clock, the same for all threads.
    pub(crate) epoch: Instant,
    pub(crate) handover: Arc<Handover>,
    pub(crate) halt: Arc<Halt>,
    /// Told once whether connections are open, or why none is.
    pub(crate) opened: SyncSender<Result<(), String>>,
    /// Says when, on the run's clock, the load starts. If it is closed, the load never starts.
    pub(crate) start: Receiver<u64>,
    /// Told that the thread is over.
    pub(crate) done: Sender<()>,
}

/// What a thread leaves behind.
pub(crate) struct ThreadEnd {
    /// What was not handed over yet.
    pub(crate) recorder: Recorder,
    /// Requests that were due and were not sent.
    pub(crate) not_sent: u64,
    /// Requests that were sent after the end of their schedule.
    pub(crate) overrun: Overrun,
    /// Requests that a halt cut off.
    pub(crate) abandoned: u64,
    /// Used while counted requests were sent.
    pub(crate) sending: Usage,
    /// Used from then until all requests had ended.
    pub(crate) ending: Usage,
}

impl ThreadStart {
    /// Runs the thread to its end. `None`: it was never told to start.
    pub(crate) fn run(self) -> std::io::Result<Option<ThreadEnd>> {
        let opened = self.opened.clone();
        let end = self.run_to_end();
        if let Err(error) = &end {
            // The coordinator waits for all threads and must not wait for this one.
            let _ = opened.try_send(Err(format!(
                "a thread cannot start: {error}; use fewer --threads, or raise the limit of open files (ulimit -n)"
            )));
        }
        end
    }

    fn run_to_end(self) -> std::io::Result<Option<ThreadEnd>> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let _ = builder.enable_io().event_interval(EVENT_INTERVAL);
        let runtime: LocalRuntime = builder.build_local(LocalOptions::default())?;
        runtime.block_on(async {
            let done = self.done.clone();
            let end = self.send().await;
            let _ = done.send(());
            end
        })
    }

    async fn send(self) -> std::io::Result<Option<ThreadEnd>> {
        let lane = Rc::new(Lane::new(&self)?);
        let time = spawn_local(keep_time(Rc::clone(&lane)));
        let streams = connection::open_all(&lane, self.connections).await;
        let (streams, verdict) = match streams {
            Ok(streams) => (streams, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let _ = self.opened.send(verdict);
        // Nothing can happen before the start, so the thread may block.
        let Ok(start_ns) = self.start.recv() else {
            return Ok(None);
        };
        lane.start(Source::new(&self.plan, self.share, start_ns), start_ns);
        for task in connection::spawn_all(&lane, streams) {
            task.await.expect("connections do not panic");
        }
        lane.close();
        time.await.expect("the clock does not panic");
        Ok(Some(lane.end()))
    }
}
