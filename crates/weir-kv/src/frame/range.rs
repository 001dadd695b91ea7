//! Ranges of keys: their cells page by page, and what tells whether two nodes have the same.
//!
//! ```text
//! scan      with values (1)  from  to                       an end: length (2), key; length FFFF: there is none
//! page      next             entries: key length (2), key, cell length (4), cell
//! digest    before (8)  from  to                            of cells whose versions have an earlier time
//! digested  hash (8)  count (8)  next
//! ```
//!
//! `next` is where a page ended before the end of the range. Without values, cells have empty ones.

use bytes::{Buf as _, Bytes};

use super::FrameError;
use crate::cell::Cell;

const NONE: u16 = u16::MAX;

/// Keys from one on, up to another one without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The first one; empty for the first of all.
    pub from: Bytes,
    /// `None`: up to the last one.
    pub to: Option<Bytes>,
}

/// Cells of a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys and cells, in the order of the keys.
    pub entries: Vec<(Bytes, Cell)>,
    /// Where the rest of the range begins.
    pub next: Option<Bytes>,
}

/// What a node has of a range, in short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    /// Of all keys and versions, whatever their order.
    pub hash: u64,
    /// How many there are.
    pub count: u64,
}

impl Span {
    /// All keys that begin like this.
    pub fn with_prefix(prefix: &[u8]) -> Self {
        let behind = |last: usize| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end.into()
        };
        let last = prefix.iter().rposition(|byte| *byte < u8::MAX);
        Self {
            from: Bytes::copy_from_slice(prefix),
            to: last.map(behind),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_end(Some(&self.from), out);
        encode_end(self.to.as_ref(), out);
    }

    pub(super) fn decode(payload: &mut Bytes) -> Result<Self, FrameError> {
        Ok(Self {
            from: decode_end(payload)?.ok_or(FrameError::Payload)?,
            to: decode_end(payload)?,
        })
    }
}

impl Page {
    /// The same without values that have expired.
    #[must_use]
    pub(crate) fn live_at(self, unix_ms: u64) -> Self {
        let live_at = |(key, cell): (Bytes, Cell)| (key, cell.live_at(unix_ms));
        Self {
            entries: self.entries.into_iter().map(live_at).collect(),
            next: self.next,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let entry = |(key, cell): &(Bytes, Cell)| key.len() + super::value_bytes(cell) + 32;
        self.entries.iter().map(entry).sum()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_end(self.next.as_ref(), out);
        for (key, cell) in &self.entries {
            encode_end(Some(key), out);
            let at = out.len();
            out.extend([0; 4]);
            cell.encode(out);
            let length = (out.len() - at - 4) as u32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }

    pub(super) fn decode(mut payload: Bytes) -> Result<Self, FrameError> {
        let next = decode_end(&mut payload)?;
        let mut entries = Vec::new();
        while !payload.is_empty() {
            let key = decode_end(&mut payload)?.ok_or(FrameError::Payload)?;
            let length = payload.try_get_u32().map_err(|_| FrameError::Payload)? as usize;
            if payload.len() < length {
                return Err(FrameError::Payload);
            }
            let cell = Cell::decode(&payload.split_to(length)).map_err(FrameError::Cell)?;
            entries.push((key, cell));
        }
        Ok(Self { entries, next })
    }
}

pub(super) fn encode_end(end: Option<&Bytes>, out: &mut Vec<u8>) {
    let length = end.map_or(NONE, |key| key.len() as u16);
    out.extend(length.to_be_bytes());
    out.extend_from_slice(end.map_or(&[], |key| key));
}

pub(super) fn decode_end(payload: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
    match payload.try_get_u16() {
        Err(_) => Err(FrameError::Payload),
        Ok(NONE) => Ok(None),
        Ok(length) if payload.len() < usize::from(length) => Err(FrameError::Payload),
        Ok(length) => Ok(Some(payload.split_to(usize::from(length)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_key_that_begins_otherwise() {
        for (prefix, to) in [
            (&b"u/"[..], Some(&b"u0"[..])),
            (b"a\xff", Some(b"b")),
            (b"\xff", None),
            (b"", None),
        ] {
            let span = Span::with_prefix(prefix);
            assert_eq!((&*span.from, span.to.as_deref()), (prefix, to));
        }
    }
}
