//! The form of a [`StoredHead`] on disk. Numbers are little-endian; `-` is a number that is absent, written as all ones.
//!
//! ```text
//!  0  "WSH" and the version of this form, 1          4 bytes
//!  4  status                                         u16
//!  6  demands                                        u8
//!  7  who said the lifetime                          u8
//!  8  request_time                                   u64   ms since the epoch
//! 16  response_time                                  u64
//! 24  date                                           u64
//! 32  last_modified                                  u64, -
//! 40  initial_age                                    u64   ms
//! 48  lifetime                                       u64
//! 56  stale_while_revalidate                         u64
//! 64  stale_if_error                                 u64, -
//! 72  length of the body                             u64, -
//! 80  length of the secondary key                    u32
//! 84  length of the lines                            u32
//! 88  the secondary key, then the lines
//! ```
//!
//! There is no checksum: the store has one over all it keeps. Reading still trusts nothing, because a wrong head would
//! be sent to clients.

use std::time::Duration;

use weir_http::FieldName;

use super::{StoredHead, VERSION, scan};
use crate::meta::{Demands, LifetimeSource, Meta};
use crate::time::{Timestamp, ms_of};
use crate::vary;

const MAGIC: [u8; 4] = *b"WSH\x01";
const FIXED_BYTES: usize = 88;
const ABSENT: u64 = u64::MAX;

/// Why bytes are no stored head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corrupt {
    /// Too short, or of another kind or version.
    Form,
    /// The lengths inside do not add up to the length of all.
    Length,
    /// A number without a meaning.
    Number,
    /// The lines are no lines of a head.
    Lines,
    /// The secondary key is not valid.
    Secondary,
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Form => "no stored head of this version",
            Self::Length => "lengths that do not add up",
            Self::Number => "a number that means nothing",
            Self::Lines => "lines that are no head",
            Self::Secondary => "a secondary key that is none",
        })
    }
}

impl std::error::Error for Corrupt {}

impl StoredHead {
    /// Appends the form on disk.
    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        let meta = &self.meta;
        out.reserve(FIXED_BYTES + self.secondary.len() + self.lines.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&meta.status.to_le_bytes());
        out.push(meta.demands.bits());
        out.push(meta.lifetime_source as u8);
        for number in [
            meta.request_time.ms(),
            meta.response_time.ms(),
            meta.date.ms(),
            meta.last_modified.map_or(ABSENT, Timestamp::ms),
            ms_of(meta.initial_age),
            ms_of(meta.lifetime),
            ms_of(meta.stale_while_revalidate),
            meta.stale_if_error.map_or(ABSENT, ms_of),
            self.body_bytes.unwrap_or(ABSENT),
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.secondary.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.lines.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.secondary);
        out.extend_from_slice(&self.lines);
    }

    /// Reads what [`StoredHead::write_bytes`] wrote: all of `bytes`.
    ///
    /// # Errors
    /// Why the bytes are no head.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Corrupt> {
        let (fixed, rest) = bytes.split_at_checked(FIXED_BYTES).ok_or(Corrupt::Form)?;
        if !fixed.starts_with(&MAGIC) {
            return Err(Corrupt::Form);
        }
        let number = |at: usize| {
            let bytes = fixed[at..at + 8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        let length = |at: usize| {
            let bytes = fixed[at..at + 4].try_into();
            u32::from_le_bytes(bytes.expect("four bytes")) as usize
        };
        if length(80).checked_add(length(84)) != Some(rest.len()) {
            return Err(Corrupt::Length);
        }
        let (secondary, lines) = rest.split_at(length(80));
        let present = |at: usize| Some(number(at)).filter(|&number| number != ABSENT);
        let meta = Meta {
            status: u16::from_le_bytes([fixed[4], fixed[5]]),
            demands: Demands::from_bits(fixed[6]).ok_or(Corrupt::Number)?,
            lifetime_source: *LifetimeSource::ALL
                .get(usize::from(fixed[7]))
                .ok_or(Corrupt::Number)?,
            request_time: Timestamp::from_ms(number(8)),
            response_time: Timestamp::from_ms(number(16)),
            date: Timestamp::from_ms(number(24)),
            last_modified: present(32).map(Timestamp::from_ms),
            initial_age: Duration::from_millis(number(40)),
            lifetime: Duration::from_millis(number(48)),
            stale_while_revalidate: Duration::from_millis(number(56)),
            stale_if_error: present(64).map(Duration::from_millis),
        };
        let table = scan(lines).ok_or(Corrupt::Lines)?;
        let head = Self {
            meta,
            lines: lines.to_vec(),
            table,
            secondary: secondary.to_vec(),
            body_bytes: present(72),
            is_negotiated: false,
        };
        head.check()?;
        Ok(head)
    }

    /// Checks that the parts of a head agree with each other.
    fn check(&self) -> Result<(), Corrupt> {
        let status = &self.lines[VERSION.len()..][..3];
        let written = status
            .iter()
            .fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
        if written != self.meta.status || !(200..1000).contains(&written) {
            return Err(Corrupt::Number);
        }
        let mut lengths = self.fields().all(FieldName::ContentLength);
        let mut announced = Vec::new();
        if let Some(bytes) = self.body_bytes.filter(|_| written != 204) {
            crate::cache_status::write_number(bytes, &mut announced);
            if lengths.next() != Some(&announced[..]) {
                return Err(Corrupt::Lines);
            }
        }
        let is_foreign = |id: FieldName| id.is_hop_by_hop() || id == FieldName::Age;
        if lengths.next().is_some() || self.fields().iter().any(|(id, ..)| is_foreign(id)) {
            return Err(Corrupt::Lines);
        }
        if !vary::is_secondary(&self.secondary) {
            return Err(Corrupt::Secondary);
        }
        Ok(())
    }
}
