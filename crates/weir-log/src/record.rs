//! The bytes of a record.
//!
//! ```text
//!  0       4       8       12         16        24        32         36
//!  ├───────┼───────┼───────┼──────────┼─────────┼─────────┼──────────┼─────────┬──────┐
//!  │ tag   │ bytes │ crc   │ unsynced │ offset  │ time ms │ head len │ head    │ body │
//!  └───────┴───────┴───────┴──────────┴─────────┴─────────┴──────────┴─────────┴──────┘
//! ```
//!
//! Numbers are little-endian. `tag` is made of the segment's seed. `bytes` is the length of what follows `crc`, which is the CRC-32
//! (IEEE 802.3) of the seed, of `bytes` and of that. Nobody outside knows the seed, so nobody can send a body that would be taken for
//! a record, or looked at as one.
//!
//! `unsynced` says how many bytes right before this record were not known to be durable when it was written: all before them
//! were. So a record that is whole vouches for those, and damage there is told from a torn end.

/// What a record takes beside its head and body.
pub const HEAD_BYTES: usize = 36;
/// The longest record, with everything: larger ones are refused, and a length beyond it is damage.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Where the bytes begin that `bytes` counts.
const COUNTED_FROM: usize = 12;

/// A record of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'b> {
    /// Its number, from 0 in the first segment ever.
    pub offset: u64,
    /// When it was appended, in milliseconds since 1970.
    pub time_ms: u64,
    /// What describes the body, in the form of whoever appends.
    pub head: &'b [u8],
    /// The rest of it.
    pub body: &'b [u8],
}

/// What there is at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'b> {
    /// A record.
    Whole(Whole<'b>),
    /// Not as many bytes as the record says it has.
    Short,
    /// No record.
    Broken,
}

/// A record that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole<'b> {
    pub(crate) record: Record<'b>,
    /// All of its bytes.
    pub(crate) bytes: usize,
    /// See the top of the file.
    pub(crate) unsynced: u32,
}

impl<'b> Record<'b> {
    /// How many bytes it takes in a log.
    pub fn bytes(&self) -> usize {
        HEAD_BYTES + self.head.len() + self.body.len()
    }

    /// Appends its bytes. It has [`RECORD_BYTES_MAX`] at most.
    pub(crate) fn write(&self, seed: u64, unsynced: u32, out: &mut Vec<u8>) {
        let begins = out.len();
        let counted = (self.bytes() - COUNTED_FROM) as u32;
        out.reserve(self.bytes());
        out.extend(tag_of(seed));
        out.extend(counted.to_le_bytes());
        out.extend([0; 4]);
        out.extend(unsynced.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend(self.time_ms.to_le_bytes());
        out.extend((self.head.len() as u32).to_le_bytes());
        out.extend(self.head);
        out.extend(self.body);
        let crc = checksum(seed, &out[begins..]);
        out[begins + 8..begins + COUNTED_FROM].copy_from_slice(&crc.to_le_bytes());
    }

    /// How many bytes the record at the beginning of `bytes` says it has, or its head when there are fewer; `None` when there is
    /// no record.
    pub(crate) fn announced(seed: u64, bytes: &[u8]) -> Option<usize> {
        let tag = tag_of(seed);
        if !tag.starts_with(&bytes[..bytes.len().min(tag.len())]) {
            return None;
        }
        if bytes.len() < HEAD_BYTES {
            return Some(HEAD_BYTES);
        }
        let all = COUNTED_FROM + number(bytes, 4) as usize;
        (HEAD_BYTES..=RECORD_BYTES_MAX)
            .contains(&all)
            .then_some(all)
    }

    /// Reads the record at the beginning of `bytes`.
    pub(crate) fn read(seed: u64, bytes: &'b [u8]) -> Found<'b> {
        let Some(all) = Self::announced(seed, bytes) else {
            return Found::Broken;
        };
        let Some(whole) = bytes.get(..all) else {
            return Found::Short;
        };
        let head_ends = HEAD_BYTES + number(whole, 32) as usize;
        if checksum(seed, whole) != number(whole, 8) || head_ends > all {
            return Found::Broken;
        }
        Found::Whole(Whole {
            record: Self {
                offset: long_number(whole, 16),
                time_ms: long_number(whole, 24),
                head: &whole[HEAD_BYTES..head_ends],
                body: &whole[head_ends..],
            },
            bytes: all,
            unsynced: number(whole, 12),
        })
    }
}

/// What each record of a segment begins with. It is never zero, as what was not written may be.
pub(crate) fn tag_of(seed: u64) -> [u8; 4] {
    (seed as u32 | 1).to_le_bytes()
}

fn checksum(seed: u64, record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(&record[4..8]);
    hasher.update(&record[COUNTED_FROM..]);
    hasher.finalize()
}

pub(crate) fn number(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

pub(crate) fn long_number(bytes: &[u8], at: usize) -> u64 {
    u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: u64 = 0x5eed;

    fn written(record: &Record<'_>, unsynced: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.write(SEED, unsynced, &mut bytes);
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_was_written_is_read(
            offset: u64, time_ms: u64, unsynced: u32, head: Vec<u8>, body: Vec<u8>, behind: Vec<u8>,
        ) {
            let record = Record { offset, time_ms, head: &head, body: &body };
            let bytes = written(&record, unsynced);
            prop_assert_eq!(bytes.len(), record.bytes());
            let all = [bytes.clone(), behind].concat();
            let whole = Whole { record, bytes: bytes.len(), unsynced };
            prop_assert_eq!(Record::read(SEED, &all), Found::Whole(whole));
        }

        /// Any byte that is another one is found.
        #[test]
        fn a_record_that_was_changed_is_none(
            head in prop::collection::vec(any::<u8>(), 0..40), body in prop::collection::vec(any::<u8>(), 0..40),
            at: prop::sample::Index, change in 1..=255u8,
        ) {
            let record = Record { offset: 7, time_ms: 9, head: &head, body: &body };
            let mut bytes = written(&record, 3);
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            prop_assert!(!matches!(Record::read(SEED, &bytes), Found::Whole(_)), "{at}");
        }

        #[test]
        fn a_record_without_its_end_is_short(body: Vec<u8>, left: prop::sample::Index) {
            let record = Record { offset: 7, time_ms: 9, head: b"h", body: &body };
            let bytes = written(&record, 0);
            let left = left.index(bytes.len());
            prop_assert_eq!(Record::read(SEED, &bytes[..left]), Found::Short);
        }

        #[test]
        fn a_record_of_another_segment_is_none(seed: u64, body: Vec<u8>) {
            let record = Record { offset: 7, time_ms: 9, head: b"h", body: &body };
            prop_assume!(seed != SEED);
            let bytes = written(&record, 0);
            prop_assert_eq!(Record::read(seed, &bytes), Found::Broken);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Record::read(SEED, &bytes);
            let _ = Record::read(SEED, &[&tag_of(SEED)[..], &bytes].concat());
        }
    }
}
