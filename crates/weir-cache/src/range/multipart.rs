//! `multipart/byteranges` (RFC 9110 §14.6): the heads between the ranges, and the length of it all, computed up front.

use weir_http::FieldName;
use weir_http::forward::Edits;

use super::{ByteRange, Ranges, write_content_range, write_length};
use crate::stored_head::StoredHead;
use crate::time::Timestamp;

/// The bytes of a boundary.
pub const BOUNDARY_BYTES: usize = 32;

/// An answer with several ranges (RFC 9110 §14.6): for each range its part head and its bytes, then the end.
#[derive(Debug, Clone, Copy)]
pub struct Multipart<'s> {
    stored: &'s StoredHead,
    ranges: &'s Ranges,
    body_bytes: u64,
    boundary: [u8; BOUNDARY_BYTES],
}

impl<'s> Multipart<'s> {
    /// An answer with `ranges` of a body of `body_bytes`. `random` makes the boundary, which the body must not have in
    /// it; 128 bits of it make that as good as impossible.
    pub fn new(stored: &'s StoredHead, ranges: &'s Ranges, body_bytes: u64, random: u128) -> Self {
        let mut boundary = [0; BOUNDARY_BYTES];
        for (at, byte) in boundary.iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(random >> (at * 4)) as usize & 0xf];
        }
        Self {
            stored,
            ranges,
            body_bytes,
            boundary,
        }
    }

    /// Appends the lines of the 206, as [`StoredHead::write`] does.
    pub fn write_head(&self, now: Timestamp, edits: Edits<'_>, out: &mut Vec<u8>) {
        let is_kept = |id, _: &[u8]| {
            !matches!(
                id,
                FieldName::ContentLength | FieldName::ContentRange | FieldName::ContentType
            )
        };
        self.stored.write_fields(edits, is_kept, out);
        out.extend_from_slice(b"Content-Type: multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"\r\n");
        write_length(self.content_bytes(), out);
        self.stored.write_age(now, out);
    }

    /// Appends what comes before the bytes of `range`.
    pub fn write_part_head(&self, range: ByteRange, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"\r\n");
        if let Some(content_type) = self.content_type() {
            out.extend_from_slice(b"Content-Type: ");
            out.extend_from_slice(content_type);
            out.extend_from_slice(b"\r\n");
        }
        write_content_range(range, self.body_bytes, out);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends what comes after the last range.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"--\r\n");
    }

    /// The length of all of it, computed before a byte of it is made.
    pub fn content_bytes(&self) -> u64 {
        let digits = |number: u64| u64::from(number.checked_ilog10().unwrap_or(0)) + 1;
        let content_type = self
            .content_type()
            .map_or(0, |value| "Content-Type: \r\n".len() + value.len());
        let fixed =
            "\r\n--\r\nContent-Range: bytes -/\r\n\r\n".len() + BOUNDARY_BYTES + content_type;
        let parts = self.ranges.each().iter().map(|range| {
            fixed as u64
                + digits(range.first)
                + digits(range.last)
                + digits(self.body_bytes)
                + range.bytes()
        });
        parts.sum::<u64>() + ("\r\n----\r\n".len() + BOUNDARY_BYTES) as u64
    }

    fn content_type(&self) -> Option<&'s [u8]> {
        self.stored.fields().first(FieldName::ContentType)
    }
}
