//! Idle connections to one endpoint, kept by one worker.
//!
//! The connection used last is used next: its socket is warm, and those at the bottom grow old and are closed. An idle
//! connection must be silent. One that was closed, or that sends unasked, is dropped when it is taken and by the
//! worker's sweep.
//!
//! While requests wait in the [`mod@line`], no connection is idle: one that comes back goes to the first of them.

pub(crate) mod line;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use weir_socket::{Peek, Stream};

use crate::state::pool::line::Line;

/// The idle connections of one endpoint.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: RefCell<VecDeque<Idle>>,
    limits: Cell<PoolLimits>,
    /// Idle connections in all pools of the worker.
    total: Rc<Cell<usize>>,
    pub(crate) line: Line,
}

/// What a pool may keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolLimits {
    pub(crate) connections: usize,
    pub(crate) idle_timeout: Duration,
    /// In all pools of the worker together.
    pub(crate) total: usize,
}

#[derive(Debug)]
struct Idle {
    stream: Stream,
    since_ms: u64,
}

impl Pool {
    pub(crate) fn new(limits: PoolLimits, total: &Rc<Cell<usize>>) -> Self {
        Self {
            idle: RefCell::default(),
            limits: Cell::new(limits),
            total: Rc::clone(total),
            line: Line::default(),
        }
    }

    /// Applies other limits.
    pub(crate) fn adjust(&self, limits: PoolLimits) {
        self.limits.set(limits);
    }

    /// Closes all connections, and keeps none of those that come back later.
    pub(crate) fn close(&self) {
        self.limits.update(|limits| PoolLimits {
            connections: 0,
            ..limits
        });
        self.clear();
    }

    /// An idle connection that is still open, if there is one.
    pub(crate) fn take(&self, can_repeat: bool) -> Option<Stream> {
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { stream, .. }) = idle.pop_back() {
            self.total.update(|total| total - 1);
            if still_stands(&stream, can_repeat) {
                return Some(stream);
            }
        }
        None
    }

    /// Keeps a connection whose last response was read to its end, or gives it to a waiting request.
    pub(crate) fn put(&self, stream: Stream, now_ms: u64) {
        let limits = self.limits.get();
        if limits.connections == 0 {
            return;
        }
        let Some(stream) = self.line.offer(stream) else {
            return;
        };
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= limits.connections {
            return;
        }
        if self.total.get() < limits.total {
            self.total.update(|total| total + 1);
        } else if idle.pop_front().is_none() {
            // Other pools hold all that may be held. Otherwise it would have replaced the oldest one here.
            return;
        }
        idle.push_back(Idle {
            stream,
            since_ms: now_ms,
        });
    }

    /// Closes all connections.
    pub(crate) fn clear(&self) {
        let mut idle = self.idle.borrow_mut();
        self.total.update(|total| total - idle.len());
        idle.clear();
    }

    /// Closes connections that were idle for too long or that the endpoint closed.
    pub(crate) fn sweep(&self, now_ms: u64) {
        let idle_timeout_ms = self.limits.get().idle_timeout.as_millis() as u64;
        let is_old = |idle: &Idle| idle.since_ms + idle_timeout_ms <= now_ms;
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|idle| !is_old(idle) && idle.stream.is_quiet());
        self.total.update(|total| total - (before - idle.len()));
    }

    pub(crate) fn len(&self) -> usize {
        self.idle.borrow().len()
    }
}

/// Whether a connection is still open, as far as the worker knows. For a request that `can_repeat` on another one that
/// is enough. For others the kernel is asked, which knows what happened since the last wait.
pub(crate) fn still_stands(stream: &Stream, can_repeat: bool) -> bool {
    stream.is_quiet() && (can_repeat || stream.peek() == Peek::Nothing)
}
