//! The thread that writes log buffers out, so that no worker ever waits for a disk or for the reader of a pipe.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::lock::lock;
use crate::outlet::write_all;
use crate::paths;
use crate::service::Service;
use crate::settings::{AccessLog, Level, LogTarget};
use crate::tell::tell;
use crate::time;

/// Buffers for each worker: one is being filled, the others are on their way to the disk and back.
const BUFFERS_PER_WORKER: usize = 4;

/// How long the file before is kept for lines that workers hold. They hand them over in their next tick, unless they are stuck.
const HANDING_OVER: Duration = Duration::from_secs(1);

/// A task for the writer.
#[derive(Debug)]
enum Order {
    Write(Vec<u8>),
    Reopen,
    /// A worker has handed over all that it had when the log was to be reopened.
    HandedOver,
}

/// Where a worker hands its buffers over.
#[derive(Debug, Clone)]
pub(crate) struct Sink {
    orders: SyncSender<Order>,
    reopening: Arc<AtomicBool>,
    /// How often the log was to be reopened.
    reopenings: Arc<AtomicU32>,
    empty: Arc<Mutex<Receiver<Vec<u8>>>>,
    /// Whether somebody watches the lines as they come.
    pub(super) is_terminal: bool,
}

/// The writing thread. It ends when every sink is gone and everything was written.
#[derive(Debug)]
pub(crate) struct LogWriter {
    pub(crate) sink: Sink,
    pub(crate) thread: JoinHandle<()>,
}

impl LogWriter {
    /// Opens the log and starts the thread.
    pub(crate) fn start(
        settings: &AccessLog,
        service: Option<&Arc<dyn Service>>,
        workers: usize,
    ) -> io::Result<Self> {
        let target = settings.target.clone();
        let mut output = match service {
            Some(service) => Output::Service(Arc::clone(service), false),
            None => Output::File(OpenFile::open(&target)?),
        };
        let is_terminal = target == LogTarget::Stdout && io::stdout().is_terminal();
        let buffers = workers * BUFFERS_PER_WORKER;
        // Each buffer, one reopening and what workers say to it have room, so the queue is never full.
        let (orders, to_do) = sync_channel(buffers + 1 + workers);
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
                // Until when, and for how many workers, the file before is kept.
                let mut waits: Option<(Instant, usize)> = None;
                loop {
                    let order = match waits {
                        None => to_do.recv().map_err(|_| RecvTimeoutError::Disconnected),
                        Some((until, _)) => {
                            to_do.recv_timeout(until.saturating_duration_since(time::now()))
                        }
                    };
                    match order {
                        Ok(Order::Write(mut buffer)) => {
                            output.write(&buffer);
                            buffer.clear();
                            let _ = give_back.try_send(buffer);
                        }
                        Ok(Order::Reopen) => waits = Some((time::now() + HANDING_OVER, workers)),
                        Ok(Order::HandedOver) => {
                            waits = waits.map(|(until, left)| (until, left.saturating_sub(1)));
                        }
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                    if waits.is_some_and(|(until, left)| left == 0 || until <= time::now()) {
                        waits = None;
                        is_reopening.store(false, Ordering::Release);
                        output.reopen(&target);
                    }
                }
            })?;
        Ok(Self {
            sink: Sink {
                orders,
                reopening,
                reopenings: Arc::default(),
                empty: Arc::new(Mutex::new(empty)),
                is_terminal,
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

    /// Reopens the log, after what was logged before: workers hand it over first.
    pub(crate) fn reopen(&self) {
        if !self.reopening.swap(true, Ordering::Acquire) {
            let _ = self.orders.try_send(Order::Reopen);
            self.reopenings.fetch_add(1, Ordering::Release);
        }
    }

    /// How often the log was to be reopened.
    pub(super) fn reopenings(&self) -> u32 {
        self.reopenings.load(Ordering::Acquire)
    }

    /// A worker has nothing left of before the last reopening.
    pub(super) fn handed_over(&self) {
        let _ = self.orders.try_send(Order::HandedOver);
    }
}

/// Where lines are written.
#[derive(Debug)]
enum Output {
    File(OpenFile),
    /// And whether it takes none.
    Service(Arc<dyn Service>, bool),
}

/// A file that is written to.
#[derive(Debug)]
struct OpenFile {
    file: File,
    /// The most that one write may be of. What others write to a pipe gets between pieces of more than this (`PIPE_BUF`,
    /// write(2)), and standard output is often one pipe with standard error.
    piece_bytes_max: usize,
    is_failing: bool,
}

/// `PIPE_BUF` on Linux; POSIX guarantees 512.
const PIPE_BYTES_MAX: usize = 4096;

impl Output {
    /// Goes on in the file that has the name now, if it is one.
    fn reopen(&mut self, target: &LogTarget) {
        if let Self::File(file) = self {
            file.reopen(target);
        }
    }

    fn write(&mut self, lines: &[u8]) {
        match self {
            Self::File(file) => file.write(lines),
            Self::Service(service, is_failing) => {
                let was_failing = std::mem::replace(is_failing, !service.log(lines));
                if *is_failing && !was_failing {
                    let error = io::Error::other("its queue takes no more");
                    complain("access log lines are lost", &error);
                }
            }
        }
    }
}

impl OpenFile {
    fn open(target: &LogTarget) -> io::Result<Self> {
        let (file, piece_bytes_max) = match target {
            LogTarget::Stdout => {
                let own = io::stdout().as_fd().try_clone_to_owned()?;
                (File::from(own), PIPE_BYTES_MAX)
            }
            LogTarget::File(path) => (paths::open_to_append(path)?, usize::MAX),
            LogTarget::Service(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Self {
            file,
            piece_bytes_max,
            is_failing: false,
        })
    }

    /// Goes on in the file that has the name now.
    fn reopen(&mut self, target: &LogTarget) {
        match Self::open(target) {
            Ok(reopened) => *self = reopened,
            Err(error) => {
                let what = match target {
                    LogTarget::File(path) => format!(" ({})", path.display()),
                    LogTarget::Stdout | LogTarget::Service(_) => String::new(),
                };
                complain(
                    &format!("the access log{what} stays as it is, it cannot be opened again"),
                    &error,
                );
            }
        }
    }

    /// Writes everything, or reports once that it cannot: a full disk, or a reader that has gone, must not end the gateway.
    fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(piece_of_lines(rest, self.piece_bytes_max));
            rest = behind;
            match write_all(&mut self.file, piece) {
                Ok(()) => self.is_failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        complain("access log lines are lost", &error);
                    }
                    return;
                }
            }
        }
    }
}

/// How much of `lines` is written at once: whole lines of at most `bytes_max`, or one line that is longer.
fn piece_of_lines(lines: &[u8], bytes_max: usize) -> usize {
    if lines.len() <= bytes_max {
        return lines.len();
    }
    let within = memchr::memrchr(b'\n', &lines[..bytes_max]);
    let end = within.or_else(|| memchr::memchr(b'\n', lines));
    end.map_or(lines.len(), |end| end + 1)
}

fn complain(what: &str, error: &io::Error) {
    tell(Level::Error, format_args!("{what}: {error}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_whole() {
        for (lines, bytes_max, expected) in [
            ("a\nb\n", 4, 4),
            ("a\nb\nc\n", 5, 4),
            ("a\nb\nc\n", 4, 4),
            ("abcdef\ng\n", 4, 7),
            ("ab\ncdef\n", 4, 3),
            ("abcdef", 4, 6),
        ] {
            let bytes = piece_of_lines(lines.as_bytes(), bytes_max);
            assert_eq!(bytes, expected, "{lines:?}");
        }
    }
}
