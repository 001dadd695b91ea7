//! A connection of HTTP/1.1 or HTTP/1.0: its socket, what was read from it, and where the body of a request ends in that.

use std::io;
use std::task::{Context, Poll};

use weir_http::body::Framing;
use weir_http::{Body, Reject};
use weir_socket::Stream;

use crate::buffers::{Buffers, Input};
use crate::connection::link::Claimed;

/// The client's side of exchanges that follow each other on one socket.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: Stream,
    pub(crate) input: Input,
    body: Body,
}

impl Link {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            input: Input::default(),
            body: Body::default(),
        }
    }

    /// Takes so many bytes of a head, into `head`.
    pub(crate) fn take_head(&mut self, bytes: usize, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.input.unread()[..bytes]);
        self.input.consume(bytes);
    }

    pub(super) fn begin_body(&mut self, framing: Framing) {
        self.body = Body::new(framing);
    }

    pub(super) fn claim(&mut self, ready: usize) -> Result<Claimed, Reject> {
        let bytes = self.body.take(&self.input.unread()[ready..])?;
        Ok(Claimed {
            bytes,
            is_all: self.body.is_done(),
        })
    }

    pub(crate) fn poll_read(
        &mut self,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.input.poll_fill(&mut self.stream, buffers, cx)
    }

    /// A client that has sent something behind its request is not known to have left.
    pub(super) fn has_left(&self, cx: &mut Context<'_>) -> bool {
        self.input.is_empty() && self.stream.poll_closed(cx)
    }
}
