//! The upstream's side of an exchange, whatever protocol it speaks: the request goes out, and the response comes in.
//!
//! What was read lies in the `Input` of the exchange: the lines of a head, in which [`ResponseHead`] points, and behind them
//! the body as the wire frames it.

use std::io;
use std::task::{Context, Poll};

use weir_http::body::{self, Framing};
use weir_http::request::Progress;
use weir_http::{Method, Reject, ResponseHead};
use weir_socket::Stream;

use crate::buffers::{Buffers, Input};
use crate::connection::link::Piece;

pub(crate) mod h1;

/// A connection to an endpoint, or a part of one, with one request on it.
#[derive(Debug)]
pub(crate) enum Wire {
    /// HTTP/1.1, on a connection that has no other request meanwhile.
    H1(h1::Wire),
}

impl Wire {
    /// A connection that nothing was sent on since its last response.
    pub(crate) fn h1(stream: Stream) -> Self {
        Self::H1(h1::Wire::new(stream))
    }

    /// Sends the request's head, and the body behind it when all of that is here. Ready when it was sent, or when the endpoint
    /// takes no more of it; it may have answered before it closed.
    pub(crate) fn poll_request(
        &mut self,
        request: &[u8],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::H1(wire) => wire.poll_request(request, cx),
        }
    }

    /// Sends as much of a piece of the body as the endpoint takes.
    pub(crate) fn poll_send(
        &self,
        piece: Piece<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::H1(wire) => wire.poll_send(piece, cx),
        }
    }

    /// So many bytes of the request, as far as it was sent with the head.
    pub(crate) fn bytes_sent(&self) -> usize {
        match self {
            Self::H1(wire) => wire.bytes_sent,
        }
    }

    /// Whether that was all of it.
    pub(crate) fn is_sent(&self) -> bool {
        match self {
            Self::H1(wire) => wire.is_sent,
        }
    }

    /// Reads once, as soon as something has come; 0 is the end.
    pub(crate) fn poll_read(
        &mut self,
        incoming: &mut Input,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::H1(wire) => incoming.poll_fill(&mut wire.stream, buffers, cx),
        }
    }

    /// Whether the endpoint has said nothing more, as far as the runtime has heard.
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            Self::H1(wire) => wire.stream.is_quiet(),
        }
    }

    /// Looks for a head, interim or final, in what was read.
    ///
    /// # Errors
    /// What comes is no head.
    pub(crate) fn head(
        &mut self,
        incoming: &Input,
        response: &mut ResponseHead,
        method: Method,
    ) -> Result<Progress, Reject> {
        match self {
            Self::H1(wire) => wire.head(incoming, response, method),
        }
    }

    /// The final head was taken, and the body that it announces follows.
    pub(crate) fn begin_body(&mut self, framing: Framing) {
        match self {
            Self::H1(wire) => wire.begin_body(framing),
        }
    }

    /// How many of these bytes, which follow what was taken before, are the body's, framing included.
    ///
    /// # Errors
    /// Broken framing.
    pub(crate) fn take_body(&mut self, bytes: &[u8]) -> Result<usize, Reject> {
        match self {
            Self::H1(wire) => wire.body.take(bytes),
        }
    }

    /// The same, and hands what the body is made of to `piece`.
    ///
    /// # Errors
    /// Broken framing.
    pub(crate) fn read_body(
        &mut self,
        bytes: &[u8],
        piece: impl FnMut(body::Piece<'_>),
    ) -> Result<usize, Reject> {
        match self {
            Self::H1(wire) => wire.body.read(bytes, piece),
        }
    }

    /// Whether all of the body was taken.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::H1(wire) => wire.body.is_done(),
        }
    }

    /// Whether the body may be ended here for who gets it, see [`Body::may_be_ended_here`](weir_http::body::Body::may_be_ended_here).
    pub(crate) fn may_be_ended_here(&self) -> bool {
        match self {
            Self::H1(wire) => wire.body.may_be_ended_here(),
        }
    }

    /// Whether the endpoint may close now without cutting the body off.
    pub(crate) fn may_end_here(&self) -> bool {
        match self {
            Self::H1(wire) => wire.body.may_end_here(),
        }
    }

    /// Its connection, which ends with it unless it can serve again.
    pub(crate) fn into_stream(self) -> Stream {
        match self {
            Self::H1(wire) => wire.stream,
        }
    }
}
