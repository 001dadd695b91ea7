//! The client's side of an exchange, whatever protocol it speaks: pieces of the request's body come in, bytes of the response
//! go out.
//!
//! Who counts, waits and refuses is above: `exchange/upload.rs` for what comes in, `exchange/outgoing.rs` for what goes out.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use weir_http::Reject;
use weir_http::body::Framing;

use crate::buffers::Buffers;
use crate::connection::h1;

/// The client's side of an exchange.
#[derive(Debug)]
pub(crate) enum Link {
    /// HTTP/1.1 or HTTP/1.0, on a socket of its own.
    H1(h1::Link),
    /// Nobody, who takes everything and never leaves: for requests that the gateway makes by itself. A body that such a request
    /// has is in its upload from the beginning.
    Nobody,
}

/// Bytes of a request's body on their way to an upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Piece<'a> {
    /// As they came, in the framing of HTTP/1.1.
    Framed(&'a [u8]),
    /// Content alone. The head says how long all of it is.
    Content(&'a [u8]),
}

impl<'a> Piece<'a> {
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Framed(bytes) | Self::Content(bytes) => bytes,
        }
    }
}

/// What was claimed of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claimed {
    /// So many bytes more are ready.
    pub(crate) bytes: usize,
    /// Nothing follows them.
    pub(crate) is_all: bool,
}

impl Link {
    pub(crate) fn is_nobody(&self) -> bool {
        matches!(self, Self::Nobody)
    }

    /// A request has begun, whose body has this framing.
    pub(crate) fn begin_body(&mut self, framing: Framing) {
        match self {
            Self::H1(link) => link.begin_body(framing),
            Self::Nobody => {}
        }
    }

    /// Claims what has come of the body behind the bytes that are `ready` already.
    ///
    /// # Errors
    /// Broken framing.
    pub(crate) fn claim(&mut self, ready: usize) -> Result<Claimed, Reject> {
        match self {
            Self::H1(link) => link.claim(ready),
            Self::Nobody => Ok(Claimed {
                bytes: 0,
                is_all: true,
            }),
        }
    }

    /// The bytes of the body that are `ready`.
    pub(crate) fn body(&self, ready: usize) -> Piece<'_> {
        match self {
            Self::H1(link) => Piece::Framed(&link.input.unread()[..ready]),
            Self::Nobody => Piece::Content(&[]),
        }
    }

    /// So many bytes of the body are done with.
    pub(crate) fn consume(&mut self, bytes: usize) {
        match self {
            Self::H1(link) => link.input.consume(bytes),
            Self::Nobody => {}
        }
    }

    /// Reads once, as soon as something has come; 0 is the end.
    pub(crate) fn poll_read(
        &mut self,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::H1(link) => link.poll_read(buffers, cx),
            Self::Nobody => Poll::Pending,
        }
    }

    /// Gives back the memory of what is done with.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        match self {
            Self::H1(link) => link.input.release(buffers),
            Self::Nobody => {}
        }
    }

    /// Writes the two pieces, one after the other, as far as the client takes them.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::H1(link) => link.stream.poll_write(cx, first, second),
            Self::Nobody => Poll::Ready(Ok(first.len() + second.len())),
        }
    }

    /// The same for any number of pieces.
    pub(crate) fn poll_write_pieces(
        &self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::H1(link) => link.stream.poll_write_pieces(cx, pieces),
            Self::Nobody => Poll::Ready(Ok(pieces.iter().map(|piece| piece.len()).sum())),
        }
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::H1(link) => link.stream.poll_writable(cx),
            Self::Nobody => Poll::Ready(Ok(())),
        }
    }

    /// Whether the client takes no answer any more; the task is woken when it does not.
    pub(crate) fn has_left(&self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::H1(link) => link.has_left(cx),
            Self::Nobody => false,
        }
    }
}
