//! A response head: its status, how its body is framed, and whether the upstream keeps the connection open.
//!
//! Upstreams are read as strictly as clients. If two readers could split a response differently, one client could
//! get another client's answer.

use std::mem::MaybeUninit;

use crate::body::Framing;
use crate::framing::{Connection, FramingFields};
use crate::head::{self, Field, FieldName, HeadLimits, HeadScan, Span, Version};
use crate::request::{Method, Progress};
use crate::{Fields, Reject};

/// A response head. One value serves many responses, one after the other.
#[derive(Debug, Default)]
pub struct ResponseHead {
    /// 100 to 599.
    pub status: u16,
    /// How many bytes the head has.
    pub head_bytes: usize,
    /// The status as sent, with the rest of its line.
    pub status_text: Span,
    /// The version.
    pub version: Version,
    /// All fields in order.
    pub fields: Vec<Field>,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the connection can carry another request after this response.
    pub keep_alive: bool,
    /// Whether `Connection` names fields other than the ones every gateway removes.
    pub connection_names_fields: bool,
}

impl ResponseHead {
    /// Reads the head at the start of `bytes`, once it is complete. It is the answer to a request made with
    /// `method`.
    ///
    /// # Errors
    /// Whatever RFC 9112 forbids or leaves to two readings. The connection cannot be used any further.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        scan: &mut HeadScan,
        limits: HeadLimits,
        method: Method,
    ) -> Result<Progress, Reject> {
        // The parser would skip an empty line, which only a recipient of requests may do (RFC 9112 §2.2).
        if matches!(bytes.first(), Some(b'\r' | b'\n')) {
            return Err(Reject::StatusLine);
        }
        // As with requests, a whole head takes one pass.
        let mut end = None;
        if !scan.is_fresh() {
            end = scan.end(bytes, limits)?;
            if end.is_none() {
                return Ok(Progress::Incomplete);
            }
        }
        let mut table = [MaybeUninit::uninit(); HeadLimits::FIELDS_CEILING];
        let mut parsed = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let result = config.parse_response_with_uninit_headers(&mut parsed, bytes, &mut table);
        let end = match (result, end) {
            (Ok(httparse::Status::Complete(end)), _)
                if limits.allow(&bytes[..end], parsed.headers) =>
            {
                end
            }
            (result, None) => match scan.end(bytes, limits)? {
                Some(end) => return Err(diagnose(&bytes[..end], result)),
                None => return Ok(Progress::Incomplete),
            },
            (result, Some(end)) => return Err(diagnose(&bytes[..end], result)),
        };
        let head = &bytes[..end];
        let (Some(status), Some(minor)) = (parsed.code, parsed.version) else {
            return Err(Reject::StatusLine);
        };
        if !(100..600).contains(&status) {
            return Err(Reject::StatusLine);
        }
        // "HTTP/1.1 " is nine bytes, and the line is known to end with CRLF.
        let line_end = memchr::memchr(b'\r', head).ok_or(Reject::StatusLine)?;
        self.head_bytes = end;
        self.status = status;
        self.status_text = Span {
            start: 9,
            end: line_end as u32,
        };
        self.version = if minor == 0 {
            Version::Http10
        } else {
            Version::Http11
        };
        self.read_fields(head, parsed.headers, method)?;
        Ok(Progress::Complete(end))
    }

    /// Whether another response to the same request follows.
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// The fields with their bytes, which lie in `head`.
    pub fn view<'h>(&'h self, head: &'h [u8]) -> Fields<'h> {
        Fields::new(head, &self.fields)
    }

    /// The value of the first field that is `id`.
    pub fn known_field(&self, id: FieldName) -> Option<Span> {
        head::known_field(&self.fields, id)
    }

    fn read_fields(
        &mut self,
        head: &[u8],
        fields: &[httparse::Header<'_>],
        method: Method,
    ) -> Result<(), Reject> {
        self.fields.clear();
        let (mut framing, mut connection) = (FramingFields::default(), Connection::default());
        for field in fields {
            let name = field.name.as_bytes();
            let id = FieldName::of(name);
            self.fields.push(Field {
                name: Span::within(head, name),
                value: Span::within(head, field.value),
                id,
            });
            match id {
                FieldName::ContentLength | FieldName::TransferEncoding => {
                    framing.read(id, field.value)?;
                }
                FieldName::Connection => connection.read(field.value)?,
                _ => {}
            }
        }
        self.framing = self.body_framing(&framing, method)?;
        self.keep_alive =
            self.framing != Framing::UntilClose && connection.keeps_alive(self.version);
        self.connection_names_fields = connection.names_fields;
        Ok(())
    }

    fn body_framing(&self, fields: &FramingFields, method: Method) -> Result<Framing, Reject> {
        let chunked = fields.chunked(self.version)?;
        if method == Method::Head || self.status < 200 || matches!(self.status, 204 | 304) {
            return Ok(Framing::Empty);
        }
        Ok(match (chunked, fields.length()) {
            (true, _) => Framing::Chunked,
            (false, Some(0)) => Framing::Empty,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::UntilClose,
        })
    }
}

/// Finds out what is wrong with a complete head that was refused.
fn diagnose(head: &[u8], result: httparse::Result<usize>) -> Reject {
    let Err(error) = result else {
        return head::diagnose_fields(head);
    };
    match error {
        httparse::Error::TooManyHeaders => Reject::TooManyFields,
        httparse::Error::Version => Reject::Version,
        httparse::Error::HeaderName | httparse::Error::HeaderValue => head::diagnose_fields(head),
        _ => Reject::StatusLine,
    }
}

#[cfg(test)]
mod tests;
