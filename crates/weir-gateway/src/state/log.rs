//! The access log: a line for each exchange, collected by each worker and written by one thread.
//!
//! A worker formats lines into its own buffer, and hands the buffer over when it is full or old. If the disk is too
//! slow and no empty buffer is left, lines are dropped and counted; requests are not delayed.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::settings::{AccessLog, LogFormat};
use crate::time;

pub(crate) use crate::state::log::writer::{LogWriter, Sink};

mod writer;

/// A worker's lines that are not handed over yet.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    lines: RefCell<Vec<u8>>,
    since: Cell<Option<Instant>>,
    sink: Sink,
    format: LogFormat,
    bytes_max: usize,
    flush: Duration,
}

impl LogBuffer {
    pub(crate) fn new(settings: &AccessLog, sink: Sink) -> Self {
        Self {
            lines: RefCell::new(sink.empty_buffer().unwrap_or_default()),
            since: Cell::default(),
            sink,
            format: settings.format,
            bytes_max: settings.buffer_bytes,
            flush: settings.flush,
        }
    }

    /// Adds a line, unless there is no room because nobody took the last buffer.
    pub(crate) fn write(&self, line: impl FnOnce(LogFormat, &mut Vec<u8>)) -> bool {
        let mut lines = self.lines.borrow_mut();
        if lines.len() >= self.bytes_max {
            return false;
        }
        if lines.is_empty() {
            self.since.set(Some(time::now()));
        }
        line(self.format, &mut lines);
        if lines.len() >= self.bytes_max {
            self.sink.hand_over(&mut lines);
        }
        true
    }

    /// Hands over lines that have waited long enough, or that could not be handed over before; with `now`, all of
    /// them.
    pub(crate) fn tick(&self, now: bool) {
        let mut lines = self.lines.borrow_mut();
        let is_old = self
            .since
            .get()
            .is_some_and(|since| time::since(since) >= self.flush);
        if !lines.is_empty() && (now || is_old || lines.len() >= self.bytes_max) {
            self.sink.hand_over(&mut lines);
        }
    }
}

impl Drop for LogBuffer {
    /// When a worker ends, its lines are written before the log is closed.
    fn drop(&mut self) {
        self.sink.hand_over_last(&mut self.lines.borrow_mut());
    }
}
