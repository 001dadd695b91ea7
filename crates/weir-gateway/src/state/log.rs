//! The access log: a line for each exchange, collected by each worker and written by one thread.
//!
//! A worker formats lines into its own buffer, and hands the buffer over when it is full or old, to a terminal line by line. If
//! the disk or the reader of a pipe is too slow and no empty buffer is left, lines are dropped and counted; requests are not
//! delayed.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::settings::template::{Template, Variable};
use crate::settings::{AccessLog, LogFormat, Redact};
use crate::time;

pub(crate) use crate::state::log::writer::{LogWriter, Sink};

mod writer;

/// A worker's lines that are not handed over yet.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    lines: RefCell<Vec<u8>>,
    since: Cell<Option<Instant>>,
    sink: Sink,
    bytes_max: usize,
    flush: Cell<Duration>,
    /// The last reopening of the log that its lines were handed over for.
    reopened: Cell<u32>,
}

/// How a line looks, in one configuration.
#[derive(Debug)]
pub(crate) struct LogLine {
    pub(crate) shape: Shape,
    pub(crate) redact: Redact,
    /// The fields of answers that a line names.
    pub(crate) noted: Vec<String>,
}

/// The parts of a line, ready to be written.
#[derive(Debug)]
pub(crate) enum Shape {
    Combined,
    /// What stands before each value, `"name":`, and the value.
    Json(Vec<(Vec<u8>, Variable)>),
    Text(Template),
}

impl LogLine {
    pub(crate) fn new(settings: &AccessLog) -> Self {
        let variables: Vec<&Variable> = match &settings.format {
            LogFormat::Combined => Vec::new(),
            LogFormat::Json(members) => members.iter().collect(),
            LogFormat::Text(template) => template.variables().collect(),
        };
        let noted = variables.into_iter().filter_map(|variable| match variable {
            Variable::ResponseHeader(name) => Some(name.clone()),
            _ => None,
        });
        Self {
            noted: noted.collect(),
            shape: match &settings.format {
                LogFormat::Combined => Shape::Combined,
                LogFormat::Json(members) => {
                    let member = |variable: &Variable| {
                        let key = format!("\"{}\":", variable.name());
                        (key.into_bytes(), variable.clone())
                    };
                    Shape::Json(members.iter().map(member).collect())
                }
                LogFormat::Text(template) => Shape::Text(template.clone()),
            },
            redact: settings.redact.clone(),
        }
    }
}

impl LogBuffer {
    pub(crate) fn new(settings: &AccessLog, sink: Sink) -> Self {
        Self {
            lines: RefCell::new(sink.empty_buffer().unwrap_or_default()),
            since: Cell::default(),
            reopened: Cell::new(sink.reopenings()),
            sink,
            bytes_max: settings.buffer_bytes,
            flush: Cell::new(settings.flush),
        }
    }

    /// Lines wait for so long from now on. How they look is of the snapshot.
    pub(crate) fn follow(&self, settings: &AccessLog) {
        self.flush.set(settings.flush);
    }

    /// Adds a line, unless there is no room because nobody took the last buffer.
    pub(crate) fn write(&self, line: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut lines = self.lines.borrow_mut();
        if lines.len() >= self.bytes_max {
            return false;
        }
        if lines.is_empty() {
            self.since.set(Some(time::now()));
        }
        line(&mut lines);
        if lines.len() >= self.bytes_max || self.sink.is_terminal {
            self.sink.hand_over(&mut lines);
        }
        true
    }

    /// Hands over lines that have waited long enough, or that could not be handed over before; with `now`, or when the
    /// log is to be reopened, all of them.
    pub(crate) fn tick(&self, now: bool) {
        let mut lines = self.lines.borrow_mut();
        let is_old = self
            .since
            .get()
            .is_some_and(|since| time::since(since) >= self.flush.get());
        let reopening = self.sink.reopenings();
        let is_asked = self.reopened.get() != reopening;
        if !lines.is_empty() && (now || is_asked || is_old || lines.len() >= self.bytes_max) {
            self.sink.hand_over(&mut lines);
        }
        if is_asked && lines.is_empty() {
            self.reopened.set(reopening);
            self.sink.handed_over();
        }
    }
}

impl Drop for LogBuffer {
    /// When a worker ends, its lines are written before the log is closed.
    fn drop(&mut self) {
        self.sink.hand_over_last(&mut self.lines.borrow_mut());
    }
}
