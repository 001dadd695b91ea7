//! Memory for bytes in flight: buffers that a worker lends out, the one used last first.
//!
//! A connection takes a buffer when its socket has something to read and returns it when everything read has been
//! passed on, so idle connections hold none and the busy ones share a few that stay in the processor's cache.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, ready};

use weir_socket::Stream;

/// Capacity of a lent buffer: a head of the default limit fits, and a long body moves in few system calls.
pub(crate) const BUFFER_BYTES: usize = 32 << 10;
/// Returned buffers beyond this many are freed, so a burst does not hold its memory for ever.
const KEPT_BUFFERS_MAX: usize = 256;
/// With less room than this left, what is unread is moved to the front of its buffer.
pub(crate) const ROOM_BYTES_MIN: usize = 4 << 10;
/// An input of several buffers grows by this part of itself.
pub(crate) const GROWTH: usize = 4;

/// A worker's buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    fn take(&self) -> Vec<u8> {
        self.free
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    fn put(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if buffer.capacity() == BUFFER_BYTES && free.len() < KEPT_BUFFERS_MAX {
            buffer.clear();
            free.push(buffer);
        }
    }
}

/// What was read from a socket and not yet used. Holds memory only while there is something in it.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
}

impl Input {
    /// The bytes not yet used.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Marks the next `count` bytes as used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(
            self.start <= self.bytes.len(),
            "no more is used than was read"
        );
    }

    /// Gives the memory back if everything was used.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            buffers.put(std::mem::take(&mut self.bytes));
            self.start = 0;
        }
    }

    /// Reads once, as soon as something is there, behind what is unread; 0 is the end.
    ///
    /// The buffer grows when it is full of unread bytes, so callers stop reading at their limit.
    pub(crate) fn poll_fill(
        &mut self,
        stream: &mut Stream,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        ready!(stream.poll_readable(cx))?;
        self.make_room(buffers);
        let read = stream.poll_read(&mut self.bytes, cx);
        if read.is_pending() {
            self.release(buffers);
        }
        read
    }

    fn make_room(&mut self, buffers: &Buffers) {
        if self.bytes.capacity() == 0 {
            self.bytes = buffers.take();
        }
        if self.is_empty() {
            self.bytes.clear();
            self.start = 0;
        } else if self.bytes.capacity() - self.bytes.len() < ROOM_BYTES_MIN {
            self.bytes.drain(..self.start);
            self.start = 0;
            if self.bytes.capacity() - self.bytes.len() < ROOM_BYTES_MIN {
                // Not twice as much, because what is held is counted.
                let more = (self.bytes.len() / GROWTH).max(BUFFER_BYTES);
                self.bytes.reserve_exact(more);
            }
        }
    }
}
