//! Where records are in a segment: one entry for every 64 KiB, by offset and by time.
//!
//! Of the last segment it is kept in memory; a segment that is complete has it in a file beside, from which opening a log learns
//! the end of the segment without reading it.
//!
//! ```text
//!  0       8        16       24          32    36        40
//!  ├───────┼────────┼────────┼───────────┼─────┼─────────┼──────────────────────────────┬─────┐
//!  │ magic │ end    │ bytes  │ last time │ crc │ entries │ offset 8, time 8, position 4 │  …  │
//!  └───────┴────────┴────────┴───────────┴─────┴─────────┴──────────────────────────────┴─────┘
//! ```
//!
//! Numbers are little-endian; `crc` is of everything but itself. A file that is not right is made again from the segment.

use crate::record::{long_number, number};

const MAGIC: [u8; 8] = *b"weiridx1";
const HEAD_BYTES: usize = 40;
const ENTRY_BYTES: usize = 20;
/// Bytes of a segment between two entries.
const APART_BYTES: u64 = 64 << 10;

/// What is known of the records of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    entries: Vec<Entry>,
    pub(crate) end: End,
}

/// Where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    offset: u64,
    time_ms: u64,
    position: u32,
}

/// Where a segment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// The offset behind its last record.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) position: u64,
    /// When the last record was appended, of this segment or one before.
    pub(crate) time_ms: u64,
}

impl Index {
    /// Of a segment that has no records yet, which will begin at `position`, and not before `time_ms`.
    pub(crate) fn new(base: u64, position: u64, time_ms: u64) -> Self {
        let end = End {
            offset: base,
            position,
            time_ms,
        };
        Self {
            entries: Vec::new(),
            end,
        }
    }

    /// A record of so many bytes was added at the end.
    pub(crate) fn push(&mut self, bytes: usize, time_ms: u64) {
        let End {
            offset, position, ..
        } = self.end;
        let last = self.entries.last();
        if last.is_none_or(|last| position - u64::from(last.position) >= APART_BYTES) {
            self.entries.push(Entry {
                offset,
                time_ms,
                position: position as u32,
            });
        }
        self.end = End {
            offset: offset + 1,
            position: position + bytes as u64,
            time_ms,
        };
    }

    /// Where to begin to read, to find this offset. `None`: at the beginning.
    pub(crate) fn before_offset(&self, offset: u64) -> Option<(u64, u64)> {
        self.last_of(|entry| entry.offset <= offset)
    }

    /// Where to begin to read, to find what was appended at this time or later.
    pub(crate) fn before_time(&self, time_ms: u64) -> Option<(u64, u64)> {
        self.last_of(|entry| entry.time_ms < time_ms)
    }

    /// The first offset behind this one of which the place is known; `None`: the end.
    pub(crate) fn behind_offset(&self, offset: u64) -> Option<u64> {
        let at = self.entries.partition_point(|entry| entry.offset <= offset);
        Some(self.entries.get(at)?.offset)
    }

    fn last_of(&self, is_before: impl Fn(&Entry) -> bool) -> Option<(u64, u64)> {
        let behind = self.entries.partition_point(is_before);
        let entry = self.entries[..behind].last()?;
        Some((entry.offset, u64::from(entry.position)))
    }

    /// Its file.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.entries.len() * ENTRY_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.end.offset.to_le_bytes());
        bytes.extend(self.end.position.to_le_bytes());
        bytes.extend(self.end.time_ms.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend((self.entries.len() as u32).to_le_bytes());
        for entry in &self.entries {
            bytes.extend(entry.offset.to_le_bytes());
            bytes.extend(entry.time_ms.to_le_bytes());
            bytes.extend(entry.position.to_le_bytes());
        }
        let crc = checksum(&bytes);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads its file; `None` when that is not right.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let is_right = bytes.len() >= HEAD_BYTES
            && bytes.starts_with(&MAGIC)
            && checksum(bytes) == number(bytes, 32)
            && bytes.len() == HEAD_BYTES + number(bytes, 36) as usize * ENTRY_BYTES;
        if !is_right {
            return None;
        }
        let entries = bytes[HEAD_BYTES..].chunks_exact(ENTRY_BYTES);
        let entries = entries.map(|entry| Entry {
            offset: long_number(entry, 0),
            time_ms: long_number(entry, 8),
            position: number(entry, 16),
        });
        Some(Self {
            entries: entries.collect(),
            end: End {
                offset: long_number(bytes, 8),
                position: long_number(bytes, 16),
                time_ms: long_number(bytes, 24),
            },
        })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..32]);
    hasher.update(&bytes[36..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(lengths: &[usize]) -> (Index, Vec<(u64, u64, u64)>) {
        let mut index = Index::new(100, 48, 0);
        let mut records = Vec::new();
        for (at, &length) in lengths.iter().enumerate() {
            let time_ms = at as u64 / 3 * 10;
            records.push((100 + at as u64, time_ms, index.end.position));
            index.push(36 + length, time_ms);
        }
        (index, records)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// It leads to a record at or before the one that is looked for, and at most 64 KiB and a record before it.
        #[test]
        fn it_leads_right_before_what_is_looked_for(
            lengths in prop::collection::vec(0..100_000usize, 1..60), at: prop::sample::Index,
        ) {
            let (index, records) = of(&lengths);
            let (offset, time_ms, position) = records[at.index(records.len())];
            let near = |found: u64, position: u64| found <= position && position - found < APART_BYTES + 100_036;
            let (found, begins) = index.before_offset(offset).expect("the first is an entry");
            prop_assert!(found <= offset && records.contains(&(found, records[(found - 100) as usize].1, begins)));
            prop_assert!(near(begins, position));
            let first = records.iter().find(|record| record.1 >= time_ms).expect("there is this one");
            let (found, begins) = index.before_time(time_ms).unwrap_or((100, 48));
            prop_assert!(found <= first.0 && near(begins, first.2));
            prop_assert_eq!(Index::read(&index.write()), Some(index));
        }

        #[test]
        fn a_file_that_was_changed_is_none(lengths in prop::collection::vec(0..90_000usize, 0..9), at: prop::sample::Index, change in 1..=255u8) {
            let mut bytes = of(&lengths).0.write();
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            prop_assert_eq!(Index::read(&bytes), None);
            prop_assert_eq!(Index::read(&bytes[..at]), None);
        }
    }
}
