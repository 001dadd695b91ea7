//! The thread that writes log buffers out, so that no worker ever waits for a disk.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::lock::lock;
use crate::paths;
use crate::settings::{AccessLog, LogTarget};

/// Buffers for each worker: one is being filled, the others are on their way to the disk and back.
const BUFFERS_PER_WORKER: usize = 4;

/// A task for the writer.
#[derive(Debug)]
enum Order {
    Write(Vec<u8>),
    Reopen,
}

/// Where a worker hands its buffers over.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    orders: SyncSender<Order>,
    reopening: Arc<AtomicBool>,
    empty: Arc<Mutex<Receiver<Vec<u8>>>>,
}

/// The writing thread. It ends when every sink is gone and everything was written.
#[derive(Debug)]
pub(crate) struct LogWriter {
    pub(crate) sink: Sink,
    pub(crate) thread: JoinHandle<()>,
}

impl LogWriter {
    /// Opens the log and starts the thread.
    pub(crate) fn start(settings: &AccessLog, workers: usize) -> io::Result<Self> {
        let mut output = Output::open(&settings.target)?;
        let target = settings.target.clone();
        let buffers = workers * BUFFERS_PER_WORKER;
        // Each buffer and one reopening have room, so the queue is never full.
        let (orders, to_do) = sync_channel(buffers + 1);
        let reopening = Arc::<AtomicBool>::default();
        let is_reopening = Arc::clone(&reopening);
        let (give_back, empty) = sync_channel(buffers);
        for _ in 0..buffers {
            // A line may begin before the limit and end after it.
            let buffer = Vec::with_capacity(settings.buffer_bytes + settings.buffer_bytes / 8);
            let _ = give_back.try_send(buffer);
        }
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                while let Ok(order) = to_do.recv() {
                    match order {
                        Order::Write(mut buffer) => {
                            output.write(&buffer);
                            buffer.clear();
                            let _ = give_back.try_send(buffer);
                        }
                        Order::Reopen => {
                            is_reopening.store(false, Ordering::Relaxed);
                            match Output::open(&target) {
                                Ok(reopened) => output = reopened,
                                Err(error) => complain(
                                    "the access log stays as it is, it cannot be reopened",
                                    &error,
                                ),
                            }
                        }
                    }
                }
            })?;
        Ok(Self {
            sink: Sink {
                orders,
                reopening,
                empty: Arc::new(Mutex::new(empty)),
            },
            thread,
        })
    }
}

impl Sink {
    /// An empty buffer, unless all are on their way to the disk.
    pub(super) fn empty_buffer(&self) -> Option<Vec<u8>> {
        // Workers meet here once for each full buffer, not for each line.
        lock(&self.empty).try_recv().ok()
    }

    /// Swaps `lines` for an empty buffer and has them written. If there is no empty buffer, `lines` stays.
    pub(super) fn hand_over(&self, lines: &mut Vec<u8>) {
        if let Some(empty) = self.empty_buffer() {
            let full = std::mem::replace(lines, empty);
            // It fails only when the thread has died, which has been reported then.
            let _ = self.orders.try_send(Order::Write(full));
        }
    }

    /// Hands `lines` over at the end, and waits for the writer if necessary.
    pub(super) fn hand_over_last(&self, lines: &mut Vec<u8>) {
        let _ = self.orders.send(Order::Write(std::mem::take(lines)));
    }

    /// Reopens the log, after what was handed over before.
    pub(crate) fn reopen(&self) {
        if !self.reopening.swap(true, Ordering::Relaxed) {
            let _ = self.orders.try_send(Order::Reopen);
        }
    }
}

#[derive(Debug)]
enum Output {
    Stdout,
    File { file: File, is_failing: bool },
}

impl Output {
    fn open(target: &LogTarget) -> io::Result<Self> {
        Ok(match target {
            LogTarget::Stdout => Self::Stdout,
            LogTarget::File(path) => Self::File {
                file: paths::open_to_append(path)?,
                is_failing: false,
            },
        })
    }

    /// Writes everything, or reports once that it cannot; a full disk must not end the gateway.
    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Stdout => {
                // If the pipe is closed, nobody is left to tell.
                let mut stdout = io::stdout().lock();
                let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
            }
            Self::File { file, is_failing } => match file.write_all(bytes) {
                Ok(()) => *is_failing = false,
                Err(error) if !*is_failing => {
                    *is_failing = true;
                    complain("access log lines are lost", &error);
                }
                Err(_) => {}
            },
        }
    }
}

/// Tells the operator; a closed standard error must not end the thread.
fn complain(what: &str, error: &io::Error) {
    let _ = writeln!(io::stderr(), "weir: {what}: {error}");
}
