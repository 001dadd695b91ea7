//! The service that keeps the lines of an access log: a message for each, without anybody who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_gateway::service::{Ask, Reply, Service};

use crate::inbox::{Letter, Part};
use crate::message::Message;
use crate::outcome::said;
use crate::queue::Queue;
use crate::shared::add;

/// What its messages have for a route.
const ROUTE: &str = "access_log";

/// Keeps the lines of an access log.
#[derive(Debug)]
pub struct Logging {
    queue: Arc<Queue>,
    is_drained: AtomicBool,
}

impl Logging {
    /// Has lines left with `queue`.
    pub fn new(queue: Arc<Queue>) -> Self {
        queue.join();
        Self {
            queue,
            is_drained: AtomicBool::new(false),
        }
    }
}

impl Service for Logging {
    fn body_bytes_max(&self) -> u64 {
        0
    }

    fn call(&self, _: Ask) -> Reply {
        Reply::ready(said(404, "{\"error\":\"there is nothing here\"}\n"))
    }

    fn log(&self, lines: &[u8]) -> bool {
        let lines = lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty());
        let parts: Vec<Part> = lines.map(part).collect();
        if parts.is_empty() {
            return true;
        }
        let count = parts.len() as u64;
        let letter = Letter {
            parts,
            id: None,
            replier: None,
        };
        let is_taken = self.queue.inbox().put(letter).is_ok();
        if !is_taken {
            add(&self.queue.shared().counts.refused_busy, count);
        }
        is_taken
    }

    fn drain(&self) {
        if !self.is_drained.swap(true, Ordering::AcqRel) {
            self.queue.leave();
        }
    }

    fn is_drained(&self) -> bool {
        self.queue.is_drained()
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.drain();
    }
}

/// The message of a line.
fn part(line: &[u8]) -> Part {
    let kind = if line.starts_with(b"{") {
        "application/json"
    } else {
        "text/plain"
    };
    let length = line.len();
    let head = format!(
        "POST /access-log HTTP/1.1\r\nhost: weir\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    );
    let message = Message::of_nobody(ROUTE, head.as_bytes());
    let mut envelope = Vec::with_capacity(head.len() + 64);
    // Nothing of it is long.
    let _ = message.write(&mut envelope);
    Part {
        head: envelope,
        body: line.to_vec(),
    }
}
