//! A file of records, and what is found in one when a log is opened.
//!
//! ```text
//!  0       8      16      24     32    36
//!  ├───────┼──────┼───────┼──────┼─────┼────────┬────────┬─────┐
//!  │ magic │ base │ after │ seed │ crc │ record │ record │  …  │
//!  └───────┴──────┴───────┴──────┴─────┴────────┴────────┴─────┘
//! ```
//!
//! `base` is the offset of the first record, and in the name of the file. `after` is where the segment before has ended: less than
//! `base` where offsets were left out on purpose. `seed` is in the checksum of each record, and `crc` is of what precedes it.

use std::sync::Arc;

use memchr::memmem;

use crate::disk::DiskFile;
use crate::index::{End, Index};
use crate::record::{
    Found, HEAD_BYTES, RECORD_BYTES_MAX, Record, Whole, long_number, number, tag_of,
};
use crate::{Damage, Error};

/// What is read at a time.
const CHUNK_BYTES: usize = 128 << 10;
const HEADER_MAGIC: [u8; 8] = *b"weirlog1";

/// What a segment begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) base: u64,
    pub(crate) after: u64,
    pub(crate) seed: u64,
}

impl Header {
    pub(crate) const BYTES: usize = 36;

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend(HEADER_MAGIC);
        bytes.extend(self.base.to_le_bytes());
        bytes.extend(self.after.to_le_bytes());
        bytes.extend(self.seed.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..Self::BYTES)?;
        let is_right =
            bytes.starts_with(&HEADER_MAGIC) && crc32fast::hash(&bytes[..32]) == number(bytes, 32);
        is_right.then(|| Self {
            base: long_number(bytes, 8),
            after: long_number(bytes, 16),
            seed: long_number(bytes, 24),
        })
    }
}

/// The file of the segment that begins with this offset. Names sort as offsets do.
pub(crate) fn name_of(base: u64) -> String {
    format!("{base:020}.log")
}

/// Its index.
pub(crate) fn index_name_of(base: u64) -> String {
    format!("{base:020}.index")
}

/// The offset that a segment of this name begins with, if it is one.
pub(crate) fn base_of(name: &str) -> Option<u64> {
    let base = name.strip_suffix(".log")?.parse().ok()?;
    (name_of(base) == name).then_some(base)
}

/// Reads a segment piece by piece.
#[derive(Debug)]
pub(crate) struct Reading {
    name: String,
    file: Arc<dyn DiskFile>,
    seed: u64,
    /// What was read, from `begins` on.
    buffer: Vec<u8>,
    begins: u64,
}

/// What is at a position.
#[derive(Debug)]
pub(crate) enum Read<'b> {
    Whole(Whole<'b>),
    /// A record that would go on behind the end.
    Short,
    Broken,
}

impl Reading {
    pub(crate) fn new(name: String, file: Arc<dyn DiskFile>, seed: u64) -> Self {
        Self {
            name,
            file,
            seed,
            buffer: Vec::new(),
            begins: 0,
        }
    }

    /// The record at `position`; the segment ends at `ends`.
    pub(crate) fn record(&mut self, position: u64, ends: u64) -> Result<Read<'_>, Error> {
        let seed = self.seed;
        let head = self.bytes(position, ends, HEAD_BYTES)?;
        let Some(all) = Record::announced(seed, head) else {
            return Ok(Read::Broken);
        };
        if all as u64 > ends - position {
            return Ok(Read::Short);
        }
        let bytes = self.bytes(position, ends, all)?;
        Ok(match Record::read(seed, bytes) {
            Found::Whole(whole) => Read::Whole(whole),
            Found::Short => Read::Short,
            Found::Broken => Read::Broken,
        })
    }

    /// What there is from `position` on: at least `wanted` bytes, if there are so many before `ends`.
    fn bytes(&mut self, position: u64, ends: u64, wanted: usize) -> Result<&[u8], Error> {
        let has = self.begins + self.buffer.len() as u64;
        let needed = ends.min(position + wanted as u64);
        if position < self.begins || position > has || needed > has {
            self.fill(position, ends, wanted)?;
        }
        let held = &self.buffer[(position - self.begins) as usize..];
        let most = (ends - position).min(held.len() as u64) as usize;
        Ok(&held[..most])
    }

    fn fill(&mut self, position: u64, ends: u64, wanted: usize) -> Result<(), Error> {
        let bytes = (ends - position).min(wanted.max(CHUNK_BYTES) as u64) as usize;
        self.buffer.clear();
        self.buffer.resize(bytes, 0);
        self.begins = position;
        let mut filled = 0;
        while filled < bytes {
            let read = self
                .file
                .read_at(&mut self.buffer[filled..], position + filled as u64);
            match read {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.buffer.clear();
                    return Err(Error::io("read", &self.name, error));
                }
            }
        }
        self.buffer.truncate(filled);
        // One long record is no reason to keep so much.
        self.buffer.shrink_to(2 * CHUNK_BYTES);
        Ok(())
    }

    /// Whether a record behind `position` is whole and says that what is at `position` was durable when it was written.
    fn vouching_for(&mut self, position: u64, ends: u64) -> Result<bool, Error> {
        let tag = tag_of(self.seed);
        let mut at = position + 1;
        while at < ends {
            let bytes = self.bytes(at, ends, tag.len())?;
            let Some(found) = memmem::find(bytes, &tag) else {
                at += (bytes.len().saturating_sub(tag.len() - 1)).max(1) as u64;
                continue;
            };
            at += found as u64;
            if let Read::Whole(whole) = self.record(at, ends)?
                && at.saturating_sub(u64::from(whole.unsynced)) > position
            {
                return Ok(true);
            }
            at += 1;
        }
        Ok(false)
    }
}

/// What a segment has.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) index: Index,
    /// Bytes behind the last record that are none.
    pub(crate) torn: u64,
}

/// Reads all of a segment. Only the last one may have an end that is torn. `since_ms` is when the segment before has ended.
pub(crate) fn scan(
    reading: &mut Reading,
    header: Header,
    since_ms: u64,
    (ends, is_last): (u64, bool),
) -> Result<Scanned, Error> {
    let mut index = Index::new(header.base, Header::BYTES as u64, since_ms);
    let torn = loop {
        let End {
            offset, position, ..
        } = index.end;
        if position >= ends {
            break 0;
        }
        let what = match reading.record(position, ends)? {
            Read::Whole(whole) if whole.record.offset == offset => {
                index.push(whole.bytes, whole.record.time_ms);
                continue;
            }
            Read::Whole(_) => "a record of another offset",
            Read::Short => "a record without its end",
            Read::Broken => "not a record",
        };
        if !is_last || reading.vouching_for(position, ends)? {
            let name = reading.name.clone();
            return Err(Error::Damaged(Damage {
                name,
                position,
                offset,
                what,
            }));
        }
        break ends - position;
    };
    Ok(Scanned { index, torn })
}

/// The longest segment: positions have four bytes, also behind a last record.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
const _: () = assert!(SEGMENT_BYTES_MAX + 2 * (RECORD_BYTES_MAX as u64) < u32::MAX as u64);
