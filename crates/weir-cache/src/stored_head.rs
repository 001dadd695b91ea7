//! What is kept of a response's head: the lines that a hit sends, prepared once, and what the rules know of them.
//!
//! A hit copies the fields of [`StoredHead::lines`] as one block and appends what changes from hit to hit: `Age`,
//! `Cache-Status`, `Connection`. So the block has the status line and every end-to-end field of the response,
//! `Content-Length` included. It does not have the fields of one connection (RFC 9111 §3.1), `Age`, the fields that the
//! response itself withholds from shared caches, or the empty line at its end.
//!
//! A route's changes to responses are applied when they are sent, not when they are stored. When a 304 comes, they must
//! not look like statements of the origin, and they may change while the response is stored.
//!
//! The form on disk is in `stored_head/bytes.rs`. This file does not handle bodies.

mod bytes;

use weir_http::forward::{Edits, via, write_field};
use weir_http::head::is_token_byte;
use weir_http::{Content, Field, FieldName, Fields, Span, Version, opening};

use crate::cache_status::write_number;
use crate::control::ResponseControl;
use crate::freshness::{AgeField, Exchanged, age_seconds};
use crate::meta::Meta;
use crate::policy::CachePolicy;
use crate::store_rule;
use crate::time::Timestamp;
use crate::vary;

pub use bytes::Corrupt;

/// The beginning of a status line.
const VERSION: &[u8] = b"HTTP/1.1 ";

/// The head of a stored response.
#[derive(Debug, Clone)]
pub struct StoredHead {
    /// What the rules know about it.
    pub meta: Meta,
    lines: Vec<u8>,
    table: Vec<Field>,
    secondary: Vec<u8>,
    body_bytes: Option<u64>,
    is_negotiated: bool,
}

/// What a head is made from.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The status as sent, with the rest of its line.
    pub status_text: &'a [u8],
    /// The version of the response, for `Via`.
    pub version: Version,
    /// The fields of the response.
    pub response: Fields<'a>,
    /// The fields of the request it answers, as the client sent them.
    pub request: Fields<'a>,
    /// Whether the origin was sent the client's cookies.
    pub has_cookies: bool,
    /// The same fields as they were sent to the origin, for what `Vary` names.
    pub selecting: Fields<'a>,
}

impl StoredHead {
    /// The head of a response that [`store_rule::decide`] wants stored. It has no `Content-Length` yet: the length of
    /// the body is known when the body is complete.
    pub fn new(arrived: &Arrived<'_>, meta: Meta, policy: &CachePolicy) -> Self {
        let response = arrived.response;
        let mut lines = Vec::with_capacity(512);
        opening::begin(arrived.status_text, &mut lines);
        let control = ResponseControl::of(response);
        for (id, name, value) in response.iter() {
            let is_kept = is_kept(id)
                && !response.connection_names(name)
                && !control.withholds(response, name);
            if is_kept {
                write_field(&mut lines, name, value);
            }
        }
        if !response.has(FieldName::Date) {
            write_date(meta.date, &mut lines);
        }
        write_field(&mut lines, b"Via", via(arrived.version));
        let mut secondary = Vec::new();
        vary::write_secondary(
            response,
            arrived.selecting,
            policy.language_order_matters,
            &mut secondary,
        );
        let table = scan(&lines).expect("lines made of a parsed head are lines");
        Self {
            meta,
            lines,
            table,
            secondary,
            body_bytes: None,
            is_negotiated: false,
        }
    }

    /// Adds `Content-Length` when the body is complete; 204 has none (RFC 9110 §8.6).
    ///
    /// # Panics
    /// When it was added before.
    pub fn complete(&mut self, body_bytes: u64) {
        assert!(self.body_bytes.is_none(), "a body arrives once");
        self.body_bytes = Some(body_bytes);
        if self.meta.status != 204 {
            let name_start = self.lines.len() as u32;
            self.lines.extend_from_slice(b"Content-Length: ");
            let value_start = self.lines.len() as u32;
            write_number(body_bytes, &mut self.lines);
            self.table.push(Field {
                name: Span {
                    start: name_start,
                    end: value_start - 2,
                },
                value: Span {
                    start: value_start,
                    end: self.lines.len() as u32,
                },
                id: FieldName::ContentLength,
            });
            self.lines.extend_from_slice(b"\r\n");
        }
    }

    /// The block that every hit sends.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Its fields.
    pub fn fields(&self) -> Fields<'_> {
        Fields::new(&self.lines, &self.table)
    }

    /// The secondary key (`vary.rs`).
    pub fn secondary(&self) -> &[u8] {
        &self.secondary
    }

    /// The length of the body, once it is complete.
    pub fn body_bytes(&self) -> Option<u64> {
        self.body_bytes
    }

    /// The entity tag as sent.
    pub fn etag(&self) -> Option<&[u8]> {
        self.fields().first(FieldName::Etag)
    }

    /// Whether clients get the response in several forms, by what they accept ([`StoredHead::with_content`]).
    pub fn is_negotiated(&self) -> bool {
        self.is_negotiated
    }

    /// How many bytes of memory it takes, approximately.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.lines.capacity()
            + self.table.capacity() * size_of::<Field>()
            + self.secondary.capacity()
    }

    /// Appends the lines of an answer with the stored status. The caller adds the status line, `Cache-Status` and what
    /// belongs to the connection. If the route changes no fields, this is one copy.
    pub fn write(&self, now: Timestamp, edits: Edits<'_>, out: &mut Vec<u8>) {
        if edits.is_empty() {
            out.extend_from_slice(&self.lines[self.fields_start()..]);
        } else {
            self.write_fields(edits, |_, _| true, out);
        }
        self.write_age(now, out);
    }

    /// Appends the `wanted` fields, with the route's changes.
    pub(crate) fn write_fields(
        &self,
        edits: Edits<'_>,
        wanted: impl Fn(FieldName, &[u8]) -> bool,
        out: &mut Vec<u8>,
    ) {
        for (id, name, value) in self.fields().iter() {
            if wanted(id, name) && !edits.drops(name) {
                write_field(out, name, value);
            }
        }
        edits.write(out);
    }

    /// Appends the lines of a 304, like [`StoredHead::write`], but without the fields that describe content that is not
    /// sent (RFC 9110 §15.4.5).
    pub fn write_not_modified(&self, now: Timestamp, edits: Edits<'_>, out: &mut Vec<u8>) {
        let has_etag = self.etag().is_some();
        let is_wanted = |id: FieldName, name: &[u8]| match id {
            FieldName::AcceptRanges
            | FieldName::ContentEncoding
            | FieldName::ContentLength
            | FieldName::ContentMd5
            | FieldName::ContentRange
            | FieldName::ContentType => false,
            FieldName::LastModified => !has_etag,
            _ => !name.eq_ignore_ascii_case(b"content-language"),
        };
        self.write_fields(edits, is_wanted, out);
        self.write_age(now, out);
    }

    /// Appends `Age`, which a response from a cache must have (RFC 9111 §5.1).
    pub fn write_age(&self, now: Timestamp, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Age: ");
        write_number(u64::from(age_seconds(self.meta.age(now))), out);
        out.extend_from_slice(b"\r\n");
    }

    /// The head after a 304, or a 200 to HEAD, has confirmed it (RFC 9111 §3.2, §4.3.4). The new fields replace those
    /// with the same names, except those that describe the stored bytes. `arrived` is the 304 and the request that
    /// caused it; its status is not used. [`store_rule::may_stay`] says whether to store the result.
    #[must_use]
    pub fn freshened(
        &self,
        arrived: &Arrived<'_>,
        exchanged: Exchanged,
        policy: &CachePolicy,
    ) -> Self {
        let new = arrived.response;
        let control_of_new = ResponseControl::of(new);
        let replaces = |id: FieldName, name: &[u8]| {
            is_kept(id)
                && is_updated(id)
                && !new.connection_names(name)
                && !control_of_new.withholds(new, name)
        };
        let mut lines = Vec::with_capacity(self.lines.len() + 128);
        lines.extend_from_slice(self.status_line());
        for (id, name, value) in self.fields().iter() {
            let is_replaced = new.named(name).next().is_some() && replaces(id, name);
            // A 304 without `Date` was made when it came (RFC 9110 §6.6.1); the stored date belongs to the earlier
            // response.
            if !is_replaced && id != FieldName::Date {
                write_field(&mut lines, name, value);
            }
        }
        for (id, name, value) in new.iter().filter(|(id, name, _)| replaces(*id, name)) {
            debug_assert!(id != FieldName::ContentLength);
            write_field(&mut lines, name, value);
        }
        if !new.has(FieldName::Date) {
            write_date(exchanged.response_time, &mut lines);
        }
        let table = scan(&lines).expect("lines made of parsed heads are lines");
        let fields = Fields::new(&lines, &table);
        let meta = store_rule::meta_of(
            self.meta.status,
            fields,
            AgeField::of(new),
            &ResponseControl::of(fields),
            exchanged,
            policy,
        );
        let mut secondary = Vec::new();
        vary::write_secondary(
            fields,
            arrived.selecting,
            policy.language_order_matters,
            &mut secondary,
        );
        Self {
            meta,
            lines,
            table,
            secondary,
            body_bytes: self.body_bytes,
            is_negotiated: false,
        }
    }

    /// This head for the one client that a confirmation was sent to, with the confirmation's cookies instead of the
    /// stored ones; `None` if it has none. The cookies are for that client only, so this head must not be stored.
    #[must_use]
    pub fn with_cookies_of(&self, confirmation: Fields<'_>) -> Option<Self> {
        if !confirmation.has(FieldName::SetCookie) {
            return None;
        }
        let mut lines = Vec::with_capacity(self.lines.len() + 128);
        lines.extend_from_slice(self.status_line());
        for (id, name, value) in self.fields().iter() {
            if id != FieldName::SetCookie {
                write_field(&mut lines, name, value);
            }
        }
        for cookie in confirmation.all(FieldName::SetCookie) {
            write_field(&mut lines, b"Set-Cookie", cookie);
        }
        let table = scan(&lines).expect("lines made of parsed heads are lines");
        Some(Self {
            lines,
            table,
            ..self.clone()
        })
    }

    /// The head of the same response with `content`, of length `body_bytes` if that is known. It has the same secondary
    /// key: the coding is negotiated for each request, and no part of the key.
    #[must_use]
    pub fn with_content(&self, content: Content<'_>, body_bytes: Option<u64>) -> Self {
        let mut lines = Vec::with_capacity(self.lines.len() + 64);
        lines.extend_from_slice(self.status_line());
        for (id, name, value) in self.fields().iter() {
            if id != FieldName::ContentLength && !content.replaces(id, name) {
                write_field(&mut lines, name, value);
            }
        }
        content.write(self.fields(), Edits::default(), &mut lines);
        let table = scan(&lines).expect("lines made of a head are lines");
        let mut head = Self {
            meta: self.meta,
            lines,
            table,
            secondary: self.secondary.clone(),
            body_bytes: None,
            is_negotiated: content != Content::AsIs,
        };
        if let Some(body_bytes) = body_bytes {
            head.complete(body_bytes);
        }
        head
    }

    /// The status as sent, with the rest of its line.
    pub fn status_text(&self) -> &[u8] {
        &self.lines[VERSION.len()..self.fields_start() - 2]
    }

    /// The first line, with its end.
    fn status_line(&self) -> &[u8] {
        &self.lines[..self.fields_start()]
    }

    fn fields_start(&self) -> usize {
        let first = self.table.first();
        first.map_or(self.lines.len(), |first| first.name.start as usize)
    }
}

/// Whether a field of a response is stored at all. `Age` and `Content-Length` are written each time.
fn is_kept(id: FieldName) -> bool {
    !id.is_hop_by_hop() && !matches!(id, FieldName::Age | FieldName::ContentLength)
}

/// Whether a 304 changes the field (RFC 9111 §3.2). It does not change fields that describe the stored bytes. A cookie
/// in it is for the client whose request it answers, not for others.
fn is_updated(id: FieldName) -> bool {
    !matches!(
        id,
        FieldName::ContentEncoding
            | FieldName::ContentLength
            | FieldName::ContentMd5
            | FieldName::ContentRange
            | FieldName::Etag
            | FieldName::SetCookie
            | FieldName::Via
    )
}

pub(crate) fn write_date(at: Timestamp, lines: &mut Vec<u8>) {
    lines.extend_from_slice(b"Date: ");
    weir_http::date::Civil::from_unix(at.secs()).write_imf_fixdate(lines);
    lines.extend_from_slice(b"\r\n");
}

/// The fields of a block of lines, if it is a status line and fields as this file writes them.
fn scan(lines: &[u8]) -> Option<Vec<Field>> {
    let is_text = |text: &[u8]| text.iter().all(|&b| b >= 0x20 && b != 0x7f || b == b'\t');
    let mut table = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = &lines[at..];
        let end = line.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &line[..end];
        if at == 0 {
            let digits = line.strip_prefix(VERSION)?.get(..3)?;
            if !digits.iter().all(u8::is_ascii_digit) || !is_text(line) {
                return None;
            }
        } else {
            let colon = line.iter().position(|&b| b == b':')?;
            let (name, value) = (&line[..colon], line[colon..].strip_prefix(b": ")?);
            if name.is_empty() || !name.iter().all(|&b| is_token_byte(b)) || !is_text(value) {
                return None;
            }
            let span = |start: usize, len: usize| Span {
                start: start as u32,
                end: (start + len) as u32,
            };
            table.push(Field {
                name: span(at, colon),
                value: span(at + colon + 2, value.len()),
                id: FieldName::of(name),
            });
        }
        at += end + 2;
    }
    (!lines.is_empty()).then_some(table)
}

#[cfg(test)]
pub(crate) mod tests;
