//! The service that says what became of a request, to whoever was told where to ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_gateway::service::{Answer, Ask, Reply, Service};

use crate::group::Command;
use crate::queue::Queue;

/// The name of the route's parameter.
const MESSAGE: &str = "message";

/// Answers where a `Location` leads.
#[derive(Debug)]
pub struct Telling {
    queue: Arc<Queue>,
    is_drained: AtomicBool,
}

impl Telling {
    /// Tells of the messages of `queue`.
    pub fn new(queue: Arc<Queue>) -> Self {
        queue.join();
        Self {
            queue,
            is_drained: AtomicBool::new(false),
        }
    }
}

impl Service for Telling {
    fn body_bytes_max(&self) -> u64 {
        0
    }

    fn call(&self, ask: Ask) -> Reply {
        let name = ask.parameters.iter().find(|(name, _)| **name == *MESSAGE);
        let offset = name.and_then(|(_, value)| self.queue.answers().offset(value));
        let Some(offset) = offset else {
            return Reply::ready(said(
                404,
                "{\"error\":\"there is no message of this name\"}\n",
            ));
        };
        let (replier, reply) = Reply::later();
        match self.queue.command_of(Command::State(offset, replier)) {
            Ok(()) => reply,
            Err(_) => Reply::ready(
                said(503, "{\"error\":\"the queue is busy\"}\n").with("retry-after", *b"1"),
            ),
        }
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

impl Drop for Telling {
    fn drop(&mut self) {
        self.drain();
    }
}

/// An answer that is not to be kept.
pub(crate) fn said(status: u16, body: impl Into<Vec<u8>>) -> Answer {
    let answer = Answer::new(status).with("content-type", *b"application/json");
    answer
        .with("cache-control", *b"no-store")
        .content(body.into())
}
