//! Reads the responses of one connection as the bytes arrive. It keeps nothing of a body.

use weir_http::body::Framing;
use weir_http::head::HeadScan;
use weir_http::request::Progress;
use weir_http::{Body, HeadLimits, Method, Reject, ResponseHead};

/// No sane answer has a larger head.
const HEAD_LIMITS: HeadLimits = HeadLimits {
    bytes: 64 << 10,
    fields: HeadLimits::FIELDS_CEILING,
};
/// Larger heads are parsed each time and not remembered.
const SEEN_BYTES_MAX: usize = 2 << 10;

/// A response that has begun.
#[derive(Debug, Default)]
pub(crate) struct ResponseReader {
    head: ResponseHead,
    scan: HeadScan,
    /// The beginning of an incomplete head.
    unread: Vec<u8>,
    reading: Reading,
}

#[derive(Debug, Default)]
enum Reading {
    #[default]
    Head,
    Body {
        meaning: Meaning,
        body: Body,
    },
}

/// What a head says about the response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) status: u16,
    pub(crate) keep_alive: bool,
}

/// The head that any connection of a thread read last. A server under load mostly sends the same bytes, at least for a
/// second, until `Date` changes; comparing them costs a tenth of parsing them.
#[derive(Debug, Default)]
pub(crate) struct SeenHead {
    bytes: Vec<u8>,
    method: Method,
    meaning: Meaning,
    framing: Framing,
}

impl ResponseReader {
    /// Reads up to the end of the answer to a request made with `method`, and cuts the bytes it took off the start of
    /// `input`. `None`: it took all of them, and more must come.
    ///
    /// # Errors
    /// The bytes are not HTTP; the connection cannot be used any further.
    pub(crate) fn read(
        &mut self,
        input: &mut &[u8],
        method: Method,
        seen: &mut SeenHead,
    ) -> Result<Option<Meaning>, Reject> {
        loop {
            match &mut self.reading {
                Reading::Head => {
                    if !self.read_head(input, method, seen)? {
                        return Ok(None);
                    }
                }
                Reading::Body { meaning, body } => {
                    let taken = body.take(input)?;
                    *input = &input[taken..];
                    if !body.is_done() {
                        return Ok(None);
                    }
                    let meaning = *meaning;
                    self.reading = Reading::Head;
                    return Ok(Some(meaning));
                }
            }
        }
    }

    /// The server has closed. Gives the response that this ends, if a response may end so.
    pub(crate) fn end(&mut self) -> Option<Meaning> {
        match &self.reading {
            Reading::Body { meaning, body } if body.may_end_here() => Some(*meaning),
            _ => None,
        }
    }

    /// Forgets the response that has begun, for a new connection.
    pub(crate) fn reset(&mut self) {
        self.scan = HeadScan::default();
        self.unread.clear();
        self.reading = Reading::Head;
    }

    /// Whether a whole head has come. The body follows, which may be empty.
    fn read_head(
        &mut self,
        input: &mut &[u8],
        method: Method,
        seen: &mut SeenHead,
    ) -> Result<bool, Reject> {
        if self.unread.is_empty() {
            if method == seen.method && !seen.bytes.is_empty() && input.starts_with(&seen.bytes) {
                *input = &input[seen.bytes.len()..];
                self.reading = Reading::Body {
                    meaning: seen.meaning,
                    body: Body::new(seen.framing),
                };
                return Ok(true);
            }
            if input.is_empty() {
                return Ok(false);
            }
            let progress = self
                .head
                .parse(input, &mut self.scan, HEAD_LIMITS, method)?;
            let Progress::Complete(bytes) = progress else {
                self.unread.extend_from_slice(input);
                *input = &[];
                return Ok(false);
            };
            self.scan = HeadScan::default();
            self.begin_body();
            if matches!(self.reading, Reading::Body { .. }) && bytes <= SEEN_BYTES_MAX {
                seen.remember(&input[..bytes], method, &self.head);
            }
            *input = &input[bytes..];
            return Ok(true);
        }
        let before = self.unread.len();
        self.unread.extend_from_slice(input);
        let progress = self
            .head
            .parse(&self.unread, &mut self.scan, HEAD_LIMITS, method)?;
        let Progress::Complete(bytes) = progress else {
            *input = &[];
            return Ok(false);
        };
        self.scan = HeadScan::default();
        self.unread.clear();
        *input = &input[bytes - before..];
        self.begin_body();
        Ok(true)
    }

    /// An interim response (RFC 9110 §15.2) is skipped: the head of the final one follows.
    fn begin_body(&mut self) {
        self.reading = if self.head.is_interim() {
            Reading::Head
        } else {
            Reading::Body {
                meaning: Meaning {
                    status: self.head.status,
                    keep_alive: self.head.keep_alive,
                },
                body: Body::new(self.head.framing),
            }
        };
    }
}

impl SeenHead {
    fn remember(&mut self, bytes: &[u8], method: Method, head: &ResponseHead) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.method = method;
        self.meaning = Meaning {
            status: head.status,
            keep_alive: head.keep_alive,
        };
        self.framing = head.framing;
    }
}

#[cfg(test)]
mod tests;
