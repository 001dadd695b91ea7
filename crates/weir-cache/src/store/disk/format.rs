//! The layout of an object in its file. Pure: bytes in, bytes out; no file is touched here.
//!
//! ```text
//! offset  bytes
//!      0      8  "weirobj" and the version of this format, 2
//!      8      8  length of the body
//!     16      8  identity: unique to this object; seeds the sums of its blocks
//!     24      8  offset of the trailer
//!     32      4  length of the trailer
//!     36      4  zero
//!     40      8  sum of the trailer
//!     48      8  sum of bytes 0 .. 48
//!     56      1  1 when a soft purge asks for validation, else 0; not summed, so that one write of one byte sets it
//!     57      7  zero
//!     64         block 0: 65,536 bytes of the body, or its end | sum of the block, 8
//!                block 1 ...
//!  trailer     4  length of the key          4  length of the variant      4  length of the metadata
//!              4  length of the head         4  number of tags
//!                 key | variant | metadata | head | for each tag: length, 2, and the tag
//! ```
//!
//! Numbers are little-endian. A sum is XXH3-64. That of block n is seeded with identity + n, so a block of another
//! object or position is as wrong as an incomplete one. The trailer follows the last block. A new head and new metadata
//! are written beside it, and then the first 64 bytes are set to point to them. Gaps in between mean nothing.
//!
//! The version also covers the meaning of keys and variants. In version 1, requests shared objects that they do not
//! share now, and objects were stored that no longer are. A start removes objects of other versions.
//!
//! The file name is the XXH3-128 of the length of the key (8 bytes), the key and the variant.

use bytes::Bytes;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// Bytes of the body that share a sum.
pub const BLOCK_BYTES: usize = 64 << 10;
pub(super) const SUM_BYTES: usize = 8;
/// Bytes of buffer needed to read one more block.
pub const READ_BYTES_OF_BLOCK: usize = BLOCK_BYTES + SUM_BYTES;
pub(super) const HEADER_BYTES: usize = 64;
pub(super) const STALE_OFFSET: u64 = 56;
/// A longer trailer is not read; its parts have smaller limits of their own.
const TRAILER_BYTES_MAX: usize = 4 << 20;

const MAGIC: &[u8; 8] = b"weirobj\x02";
const SUMMED_BYTES: usize = 48;
const LENGTHS_BYTES: usize = 20;

/// The first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) body_bytes: u64,
    pub(super) identity: u64,
    pub(super) trailer_offset: u64,
    pub(super) trailer_bytes: usize,
    pub(super) trailer_sum: u64,
    pub(super) is_stale: bool,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.trailer_offset.to_le_bytes());
        bytes[32..36].copy_from_slice(&(self.trailer_bytes as u32).to_le_bytes());
        bytes[40..48].copy_from_slice(&self.trailer_sum.to_le_bytes());
        let sum = xxh3_64(&bytes[..SUMMED_BYTES]);
        bytes[48..56].copy_from_slice(&sum.to_le_bytes());
        bytes[56] = u8::from(self.is_stale);
        bytes
    }

    /// The header in these bytes, or what is wrong with them.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, &'static str> {
        if bytes[..8] != *MAGIC {
            return Err("not an object of this version");
        }
        if xxh3_64(&bytes[..SUMMED_BYTES]) != u64_at(bytes, 48) {
            return Err("wrong sum of the header");
        }
        let header = Self {
            body_bytes: u64_at(bytes, 8),
            identity: u64_at(bytes, 16),
            trailer_offset: u64_at(bytes, 24),
            trailer_bytes: u32_at(bytes, 32),
            trailer_sum: u64_at(bytes, 40),
            is_stale: bytes[56] != 0,
        };
        let is_plausible = header.body_bytes < 1 << 56
            && (LENGTHS_BYTES..=TRAILER_BYTES_MAX).contains(&header.trailer_bytes)
            && (body_end(header.body_bytes)..1 << 57).contains(&header.trailer_offset);
        if is_plausible {
            Ok(header)
        } else {
            Err("impossible lengths in the header")
        }
    }

    /// Where the trailer ends.
    pub(super) fn trailer_end(&self) -> u64 {
        self.trailer_offset + self.trailer_bytes as u64
    }
}

/// What a file says about its object besides the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) key: Bytes,
    pub(super) variant: Bytes,
    pub(super) metadata: Bytes,
    pub(super) head: Bytes,
    pub(super) tags: Vec<Box<str>>,
}

impl Trailer {
    /// The bytes of the trailer, or which part is too long.
    pub(super) fn encode(&self) -> Result<Vec<u8>, &'static str> {
        let parts = [&self.key, &self.variant, &self.metadata, &self.head];
        let tags: usize = self.tags.iter().map(|tag| 2 + tag.len()).sum();
        let length = LENGTHS_BYTES + parts.iter().map(|part| part.len()).sum::<usize>() + tags;
        if length > TRAILER_BYTES_MAX
            || self
                .tags
                .iter()
                .any(|tag| tag.len() > usize::from(u16::MAX))
        {
            return Err("head, metadata and tags are too long");
        }
        let mut bytes = Vec::with_capacity(length);
        for length in parts.iter().map(|part| part.len()).chain([self.tags.len()]) {
            bytes.extend_from_slice(&(length as u32).to_le_bytes());
        }
        for part in parts {
            bytes.extend_from_slice(part);
        }
        for tag in &self.tags {
            bytes.extend_from_slice(&(tag.len() as u16).to_le_bytes());
            bytes.extend_from_slice(tag.as_bytes());
        }
        Ok(bytes)
    }

    /// The trailer in these bytes, or what is wrong with them.
    pub(super) fn decode(bytes: Bytes) -> Result<Self, &'static str> {
        let mut rest = bytes;
        let mut lengths = take(&mut rest, LENGTHS_BYTES)?;
        let mut next = || Ok::<_, &'static str>(u32_at(&take(&mut lengths, 4)?, 0));
        let (key, variant, metadata, head, tags) = (next()?, next()?, next()?, next()?, next()?);
        let mut trailer = Self {
            key: take(&mut rest, key)?,
            variant: take(&mut rest, variant)?,
            metadata: take(&mut rest, metadata)?,
            head: take(&mut rest, head)?,
            tags: Vec::new(),
        };
        for _ in 0..tags {
            let length = take(&mut rest, 2)?;
            let tag = take(
                &mut rest,
                usize::from(u16::from_le_bytes([length[0], length[1]])),
            )?;
            trailer.tags.push(
                std::str::from_utf8(&tag)
                    .map_err(|_| "a tag that is not UTF-8")?
                    .into(),
            );
        }
        if rest.is_empty() {
            Ok(trailer)
        } else {
            Err("more in the trailer than its parts")
        }
    }
}

/// Where block `index` begins.
pub(super) fn block_offset(index: u64) -> u64 {
    HEADER_BYTES as u64 + index * (BLOCK_BYTES + SUM_BYTES) as u64
}

/// Where the last block of a body of this length ends.
pub(super) fn body_end(body_bytes: u64) -> u64 {
    HEADER_BYTES as u64 + body_bytes + body_bytes.div_ceil(BLOCK_BYTES as u64) * SUM_BYTES as u64
}

pub(super) fn block_sum(identity: u64, index: u64, block: &[u8]) -> u64 {
    xxh3_64_with_seed(block, identity.wrapping_add(index))
}

/// The name of the file of a variant.
pub(super) fn file_name(key: &[u8], variant: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(variant);
    hasher.digest128()
}

fn take(bytes: &mut Bytes, length: usize) -> Result<Bytes, &'static str> {
    if length > bytes.len() {
        Err("a part of the trailer is longer than the trailer")
    } else {
        Ok(bytes.split_to(length))
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8]
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 4]
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_round_trip_and_no_changed_bit_of_it_does() {
        let header = Header {
            body_bytes: 200_000,
            identity: 0x0123_4567_89ab_cdef,
            trailer_offset: body_end(200_000) + 5,
            trailer_bytes: 300,
            trailer_sum: 17,
            is_stale: true,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for bit in 0..STALE_OFFSET * 8 {
            let mut changed = bytes;
            changed[bit as usize / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&changed).is_err(), "bit {bit}");
        }
    }

    /// Under the rules of this version, an object of another version may be an answer to another request.
    #[test]
    fn an_object_of_another_version_is_none() {
        let header = Header {
            body_bytes: 0,
            identity: 1,
            trailer_offset: body_end(0),
            trailer_bytes: 300,
            trailer_sum: 17,
            is_stale: false,
        };
        for version in [0, 1, 3] {
            let mut bytes = header.encode();
            bytes[7] = version;
            let sum = xxh3_64(&bytes[..SUMMED_BYTES]);
            bytes[48..56].copy_from_slice(&sum.to_le_bytes());
            let decoded = Header::decode(&bytes);
            assert_eq!(decoded, Err("not an object of this version"));
        }
    }

    #[test]
    fn a_trailer_survives_the_round_trip_and_no_length_of_it_panics() {
        let trailer = Trailer {
            key: Bytes::from_static(b"example.com/"),
            variant: Bytes::from_static(b"gzip"),
            metadata: Bytes::new(),
            head: Bytes::from_static(b"HTTP/1.1 200 OK\r\n"),
            tags: vec!["a".into(), "bc".into()],
        };
        let bytes = trailer.encode().unwrap();
        assert_eq!(Trailer::decode(bytes.clone().into()), Ok(trailer));
        for length in 0..bytes.len() {
            assert!(Trailer::decode(bytes[..length].to_vec().into()).is_err());
        }
        for at in 0..LENGTHS_BYTES {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            assert!(Trailer::decode(changed.into()).is_err(), "byte {at}");
        }
    }

    #[test]
    fn blocks_follow_each_other() {
        for body in [0, 1, 65_535, 65_536, 65_537, 200_000_u64] {
            let blocks = body.div_ceil(65_536);
            let mut end = 64;
            for block in 0..blocks {
                assert_eq!(block_offset(block), end);
                end += (body - block * 65_536).min(65_536) + 8;
            }
            assert_eq!(body_end(body), end);
        }
    }
}
