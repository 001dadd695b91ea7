//! Idle connections to one endpoint, kept by one worker.
//!
//! The one used last is used next: its socket is warm, and the ones at the bottom grow old and are closed. An idle
//! connection must be silent: one that was closed or that speaks unasked is dropped, on taking and by the worker's sweep.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use crate::io::Stream;

/// The idle connections of one endpoint.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: RefCell<VecDeque<Idle>>,
    connections_max: usize,
    idle_timeout_ms: u64,
}

#[derive(Debug)]
struct Idle {
    stream: Stream,
    since_ms: u64,
}

impl Pool {
    pub(crate) fn new(connections_max: usize, idle_timeout: Duration) -> Self {
        Self {
            idle: RefCell::default(),
            connections_max,
            idle_timeout_ms: idle_timeout.as_millis() as u64,
        }
    }

    /// A connection that, as far as is known, still stands.
    pub(crate) fn take(&self) -> Option<Stream> {
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { stream, .. }) = idle.pop_back() {
            if stream.is_quiet() {
                return Some(stream);
            }
        }
        None
    }

    /// Keeps a connection whose last response was read to its end.
    pub(crate) fn put(&self, stream: Stream, now_ms: u64) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < self.connections_max {
            idle.push_back(Idle {
                stream,
                since_ms: now_ms,
            });
        }
    }

    /// Closes what has been idle for too long or was closed by the endpoint.
    pub(crate) fn sweep(&self, now_ms: u64) {
        let is_old = |idle: &Idle| idle.since_ms + self.idle_timeout_ms <= now_ms;
        self.idle
            .borrow_mut()
            .retain(|idle| !is_old(idle) && idle.stream.is_quiet());
    }

    pub(crate) fn len(&self) -> usize {
        self.idle.borrow().len()
    }
}
