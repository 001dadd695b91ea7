//! HTTP/1.1 to an endpoint. One write and one read where the messages are small: a body that is here whole goes along with the
//! head, and what the endpoint says is read in one piece.

use std::io;
use std::task::{Context, Poll, ready};

use weir_http::body::Framing;
use weir_http::head::HeadScan;
use weir_http::request::Progress;
use weir_http::{Body, HeadLimits, Method, Reject, ResponseHead};
use weir_socket::Stream;

use crate::buffers::Input;
use crate::connection::link::Piece;

/// Bounds on a response head. Upstreams are configured by the operator, so this guards memory, not manners.
const RESPONSE_HEAD_LIMITS: HeadLimits = HeadLimits {
    bytes: 128 << 10,
    fields: HeadLimits::FIELDS_CEILING,
};

/// A connection with one request on it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: Stream,
    pub(super) bytes_sent: usize,
    pub(super) is_sent: bool,
    scan: HeadScan,
    pub(super) body: Body,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            bytes_sent: 0,
            is_sent: false,
            scan: HeadScan::default(),
            body: Body::default(),
        }
    }

    pub(super) fn poll_request(
        &mut self,
        request: &[u8],
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.bytes_sent < request.len() {
            let rest = &request[self.bytes_sent..];
            match ready!(self.stream.poll_write(cx, rest, &[])) {
                Ok(count) => self.bytes_sent += count,
                Err(error) if has_closed(&error) => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.is_sent = true;
        Poll::Ready(Ok(()))
    }

    /// Content goes as it is too: the head says how long it is.
    pub(super) fn poll_send(
        &self,
        piece: Piece<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write(cx, piece.bytes(), &[])
    }

    pub(super) fn head(
        &mut self,
        incoming: &Input,
        response: &mut ResponseHead,
        method: Method,
    ) -> Result<Progress, Reject> {
        if incoming.is_empty() {
            return Ok(Progress::Incomplete);
        }
        let limits = RESPONSE_HEAD_LIMITS;
        let progress = response.parse(incoming.unread(), &mut self.scan, limits, method)?;
        if matches!(progress, Progress::Complete(_)) {
            self.scan = HeadScan::default();
        }
        Ok(progress)
    }

    pub(super) fn begin_body(&mut self, framing: Framing) {
        self.body = Body::new(framing);
    }
}

fn has_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}
