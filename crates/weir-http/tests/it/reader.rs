//! The gateway's way of reading requests from a connection, with the pure code alone: no sockets, no deadlines, no
//! routes, and an upstream that takes everything.

use weir_http::head::HeadScan;
use weir_http::request::{Progress, leading_empty_line};
use weir_http::{Body, HeadLimits, Reject, RequestHead, readings, target};

/// The gateway's defaults.
const LIMITS: HeadLimits = HeadLimits {
    bytes: 32 << 10,
    fields: 100,
};
/// Empty lines that the gateway skips before a request line.
const LEADING_EMPTY_LINES_MAX: usize = 2;

/// What became of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The targets of the requests that were forwarded whole.
    pub(crate) forwarded: Vec<String>,
    /// How it ended.
    pub(crate) end: End,
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Where another request could have begun.
    BetweenRequests,
    /// After a request that closes the connection; whatever came after it was not read as a request.
    Closed,
    /// In the middle of a request.
    Inside,
    /// With a refusal.
    Refused(Reject),
}

/// Reads `input` as it arrives in pieces of `step` bytes.
pub(crate) fn read(input: &[u8], step: usize) -> Verdict {
    let mut connection = Connection::default();
    for piece in input.chunks(step) {
        connection.unread.extend_from_slice(piece);
        if let Err(end) = connection.advance() {
            return Verdict {
                forwarded: connection.forwarded,
                end,
            };
        }
    }
    let is_inside = connection.in_body || !connection.unread.is_empty();
    Verdict {
        forwarded: connection.forwarded,
        end: if is_inside {
            End::Inside
        } else {
            End::BetweenRequests
        },
    }
}

#[derive(Debug, Default)]
struct Connection {
    /// Arrived and not yet used.
    unread: Vec<u8>,
    empty_lines: usize,
    scan: HeadScan,
    request: RequestHead,
    target: String,
    body: Body,
    in_body: bool,
    forwarded: Vec<String>,
}

impl Connection {
    /// Uses as much as can be used of what has arrived.
    fn advance(&mut self) -> Result<(), End> {
        loop {
            let goes_on = if self.in_body {
                self.read_body()?
            } else {
                self.read_head().map_err(End::Refused)?
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Whether the head is complete; like [`Connection::read_body`], `false` asks for more bytes.
    fn read_head(&mut self) -> Result<bool, Reject> {
        while leading_empty_line(&self.unread)? == Some(true) {
            if self.empty_lines == LEADING_EMPTY_LINES_MAX {
                return Err(Reject::RequestLine);
            }
            self.empty_lines += 1;
            self.unread.drain(..2);
        }
        match self.request.parse(&self.unread, &mut self.scan, LIMITS)? {
            Progress::Incomplete => Ok(false),
            Progress::Complete(end) => {
                self.route(end)?;
                self.unread.drain(..end);
                self.body = Body::new(self.request.framing);
                (self.scan, self.empty_lines) = (HeadScan::default(), 0);
                self.in_body = true;
                Ok(true)
            }
        }
    }

    /// Routes match a path in normal form, so it must have one.
    fn route(&mut self, end: usize) -> Result<(), Reject> {
        let head = &self.unread[..end];
        let path = self.request.target.path.of(head);
        if !matches!(path, b"" | b"*") && !target::is_normal(path) {
            target::normalize(path, &mut Vec::new())?;
            // There are no routes to tell readings apart, so only what hides a dot segment is refused.
            readings::agree(path, |_| true)?;
        }
        self.target = self.request.target_text.of(head).escape_ascii().to_string();
        Ok(())
    }

    fn read_body(&mut self) -> Result<bool, End> {
        let taken = self.body.take(&self.unread).map_err(End::Refused)?;
        self.unread.drain(..taken);
        if !self.body.is_done() {
            return Ok(false);
        }
        self.in_body = false;
        self.forwarded.push(std::mem::take(&mut self.target));
        if self.request.keep_alive {
            Ok(true)
        } else {
            Err(End::Closed)
        }
    }
}
