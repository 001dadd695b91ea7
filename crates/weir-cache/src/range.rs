//! Ranges of a stored body (RFC 9110 §14): which bytes a request asks for, and the heads of the answers.
//!
//! The body is whole in the store, so every range of it can be served; none is fetched here. What cannot be read, or asks
//! for more work than the whole body is, gets the whole body, as RFC 9110 §14.2 allows.

mod along;
mod multipart;

use weir_http::forward::Edits;
use weir_http::{FieldName, Fields, Method};

use crate::cache_status::write_number;
use crate::freshness::date_of;
use crate::stored_head::{StoredHead, write_date};
use crate::time::Timestamp;
use crate::validate::is_strongly_equal;

pub use along::{Along, Portion, along};
pub use multipart::{BOUNDARY_BYTES, Multipart};

/// A request for more ranges than this gets the whole body.
pub const RANGES_MAX: usize = 16;

/// Bytes of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// The position of the first.
    pub first: u64,
    /// The position of the last.
    pub last: u64,
}

impl ByteRange {
    /// How many they are.
    pub fn bytes(self) -> u64 {
        self.last - self.first + 1
    }
}

/// Some ranges, at least two, that overlap nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    table: [ByteRange; RANGES_MAX],
    count: usize,
}

impl Ranges {
    /// The ranges, in the order they were asked for.
    pub fn each(&self) -> &[ByteRange] {
        &self.table[..self.count]
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lies on the stack for a moment, and a hit must not allocate"
)]
pub enum Wanted {
    /// The whole body, with the stored status.
    Whole,
    /// One range: 206.
    One(ByteRange),
    /// Several: 206 with `multipart/byteranges`.
    Many(Ranges),
    /// Only bytes that are not there: 416.
    Unsatisfiable,
}

/// What the `Range` of a request means for a stored response with a body of `body_bytes`.
pub fn resolve(
    method: Method,
    request: Fields<'_>,
    stored: &StoredHead,
    body_bytes: u64,
    now: Timestamp,
) -> Wanted {
    let mut lines = request.all(FieldName::Range);
    let (Some(range), None) = (lines.next(), lines.next()) else {
        return Wanted::Whole;
    };
    // Only GET has ranges (§14.2), and only a success has parts.
    if method != Method::Get || stored.meta.status != 200 || !if_range_holds(request, stored, now) {
        return Wanted::Whole;
    }
    parse(range, body_bytes)
}

/// Reads `bytes=0-4, 6-, -5` against a body of `body_bytes`.
pub fn parse(range: &[u8], body_bytes: u64) -> Wanted {
    let Some((unit, set)) = split_unit(range) else {
        return Wanted::Whole;
    };
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return Wanted::Whole;
    }
    let mut ranges = Ranges {
        table: [ByteRange::default(); RANGES_MAX],
        count: 0,
    };
    let mut specs = 0;
    for spec in weir_http::fields::elements(set) {
        specs += 1;
        let Some(spec) = Spec::of(spec).filter(|_| specs <= RANGES_MAX) else {
            return Wanted::Whole;
        };
        if let Some(range) = spec.within(body_bytes) {
            let is_overlapping = ranges
                .each()
                .iter()
                .any(|other| range.first <= other.last && other.first <= range.last);
            if is_overlapping {
                return Wanted::Whole;
            }
            ranges.table[ranges.count] = range;
            ranges.count += 1;
        }
    }
    match (specs, ranges.count) {
        (0, _) => Wanted::Whole,
        (_, 0) => Wanted::Unsatisfiable,
        (_, 1) => Wanted::One(ranges.table[0]),
        _ => Wanted::Many(ranges),
    }
}

fn split_unit(range: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = range.iter().position(|&b| b == b'=')?;
    Some((&range[..at], &range[at + 1..]))
}

/// One range as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spec {
    /// From the first position to the last, or to the end.
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Suffix(u64),
}

impl Spec {
    fn of(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&b| b == b'-')?;
        let (first, last) = (&text[..dash], &text[dash + 1..]);
        if first.is_empty() {
            return Some(Self::Suffix(position(last)?));
        }
        let first = position(first)?;
        if last.is_empty() {
            return Some(Self::From(first, None));
        }
        let last = position(last)?;
        (first <= last).then_some(Self::From(first, Some(last)))
    }

    /// The bytes of it that there are.
    fn within(self, body_bytes: u64) -> Option<ByteRange> {
        let end = body_bytes.checked_sub(1)?;
        match self {
            Self::From(first, last) => (first <= end).then(|| ByteRange {
                first,
                last: last.unwrap_or(end).min(end),
            }),
            Self::Suffix(0) => None,
            Self::Suffix(bytes) => Some(ByteRange {
                first: body_bytes.saturating_sub(bytes),
                last: end,
            }),
        }
    }
}

/// Digits; what is larger than any body becomes the largest number.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_u64, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    Some(number)
}

/// `If-Range` (RFC 9110 §13.1.5): a strong tag, or a date that is a strong validator (§8.8.2.2).
fn if_range_holds(request: Fields<'_>, stored: &StoredHead, now: Timestamp) -> bool {
    let Some(condition) = request.first(FieldName::IfRange) else {
        return true;
    };
    if condition.contains(&b'"') {
        return stored
            .etag()
            .is_some_and(|own| is_strongly_equal(own, condition));
    }
    let Some(modified) = stored.meta.last_modified else {
        return false;
    };
    // All forms of one response have the date; a client may hold the bytes of another form.
    let is_strong = stored.meta.date.secs() > modified.secs() && !stored.is_negotiated();
    is_strong && date_of(condition, now) == Some(modified)
}

/// Appends the lines of a 206 with one range, as [`StoredHead::write`] does.
pub fn write_single(
    stored: &StoredHead,
    range: ByteRange,
    body_bytes: u64,
    now: Timestamp,
    edits: Edits<'_>,
    out: &mut Vec<u8>,
) {
    let is_kept = |id, _: &[u8]| !matches!(id, FieldName::ContentLength | FieldName::ContentRange);
    stored.write_fields(edits, is_kept, out);
    write_content_range(range, body_bytes, out);
    write_length(range.bytes(), out);
    stored.write_age(now, out);
}

/// Appends the lines of a 416 (RFC 9110 §15.5.17), as [`StoredHead::write`] does. It has no body.
///
/// It is the gateway's own answer, made `now`, and has none of the fields that are stored.
pub fn write_unsatisfiable(body_bytes: u64, now: Timestamp, edits: Edits<'_>, out: &mut Vec<u8>) {
    if !edits.drops(b"date") {
        write_date(now, out);
    }
    if !edits.drops(b"content-range") {
        out.extend_from_slice(b"Content-Range: bytes */");
        write_number(body_bytes, out);
        out.extend_from_slice(b"\r\n");
    }
    edits.write(out);
    write_length(0, out);
}

fn write_content_range(range: ByteRange, body_bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Range: bytes ");
    write_number(range.first, out);
    out.push(b'-');
    write_number(range.last, out);
    out.push(b'/');
    write_number(body_bytes, out);
    out.extend_from_slice(b"\r\n");
}

fn write_length(bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    write_number(bytes, out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
