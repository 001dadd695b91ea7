//! Messages on their way to standard error: who tells something never waits for whoever reads it.
//!
//! The order stays. What finds no room is dropped and counted, and the count stands where the messages are missing.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::lock::lock;

/// The most that waits to be written.
const QUEUE_BYTES_MAX: usize = 256 << 10;

/// What comes next on standard error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Message(String),
    /// So many messages are missing here.
    Dropped(u64),
}

/// The queue between those who tell and the one thread that writes.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting::new()),
            changed: Condvar::new(),
        }
    }

    /// Adds a message, or drops it.
    pub(super) fn put(&self, message: String) {
        lock(&self.waiting).put(message);
        self.changed.notify_all();
    }

    /// What is to be written next, once there is something. What was taken before has been written.
    pub(super) fn next(&self) -> Next {
        let mut waiting = lock(&self.waiting);
        waiting.is_writing = false;
        self.changed.notify_all();
        loop {
            if let Some(next) = waiting.take() {
                waiting.is_writing = true;
                return next;
            }
            // A thread that panicked with the lock has broken nothing.
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Waits until all is written, or `patience` is over.
    pub(super) fn flush(&self, patience: Duration) {
        let waiting = lock(&self.waiting);
        let is_left = |waiting: &mut Waiting| waiting.is_writing || !waiting.messages.is_empty();
        let _ = self.changed.wait_timeout_while(waiting, patience, is_left);
    }
}

#[derive(Debug)]
struct Waiting {
    messages: VecDeque<Next>,
    bytes: usize,
    /// Messages that found no room behind the last one.
    dropped: u64,
    /// Whether the thread has a message in its hands.
    is_writing: bool,
}

impl Waiting {
    const fn new() -> Self {
        Self {
            messages: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            is_writing: false,
        }
    }

    /// Once one was dropped, so are those behind it until [`Waiting::take`] has told of them.
    fn put(&mut self, message: String) {
        let is_full = self.bytes + message.len() > QUEUE_BYTES_MAX;
        if self.dropped > 0 || (is_full && !self.messages.is_empty()) {
            self.dropped += 1;
            return;
        }
        self.bytes += message.len();
        self.messages.push_back(Next::Message(message));
    }

    /// What was dropped is told when half of the room is free, so that a slow reader gets one number and not hundreds.
    fn take(&mut self) -> Option<Next> {
        let next = self.messages.pop_front();
        if let Some(Next::Message(message)) = &next {
            self.bytes -= message.len();
        }
        if self.dropped > 0 && self.bytes <= QUEUE_BYTES_MAX / 2 {
            let dropped = std::mem::take(&mut self.dropped);
            self.messages.push_back(Next::Dropped(dropped));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_where_it_is_missing() {
        let quarter = |name: &str| name.repeat(QUEUE_BYTES_MAX / 4);
        let mut waiting = Waiting::new();
        for name in ["a", "b", "c", "d", "lost", "e"] {
            waiting.put(quarter(name));
        }
        assert_eq!(waiting.take(), Some(Next::Message(quarter("a"))));
        // There would be room again, but not in its place.
        waiting.put(quarter("f"));
        assert_eq!(waiting.take(), Some(Next::Message(quarter("b"))));
        waiting.put(quarter("g"));
        assert_eq!(waiting.take(), Some(Next::Message(quarter("c"))));
        assert_eq!(waiting.take(), Some(Next::Message(quarter("d"))));
        assert_eq!(waiting.take(), Some(Next::Dropped(3)));
        assert_eq!(waiting.take(), Some(Next::Message(quarter("g"))));
        assert_eq!(waiting.take(), None);
        assert_eq!((waiting.bytes, waiting.dropped), (0, 0));
    }

    #[test]
    fn a_message_that_is_larger_than_the_queue_finds_room_alone() {
        let mut waiting = Waiting::new();
        let large = "x".repeat(2 * QUEUE_BYTES_MAX);
        waiting.put(large.clone());
        waiting.put("behind".to_owned());
        assert_eq!(waiting.take(), Some(Next::Message(large)));
        assert_eq!(waiting.take(), Some(Next::Dropped(1)));
    }

    #[test]
    fn the_end_waits_for_what_is_being_written_and_not_for_ever() {
        let queue = Queue::new();
        queue.flush(Duration::MAX);
        queue.put("first".to_owned());
        queue.flush(Duration::from_millis(1));
        assert_eq!(queue.next(), Next::Message("first".to_owned()));
        queue.flush(Duration::from_millis(1));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                queue.put("second".to_owned());
                let _ = queue.next();
                queue.put("last".to_owned());
                let _ = queue.next();
                lock(&queue.waiting).is_writing = false;
                queue.changed.notify_all();
            });
            queue.flush(Duration::MAX);
        });
    }
}
