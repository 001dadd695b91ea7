//! The parts of all keys that a map ranks nodes for.

use xxhash_rust::xxh3::xxh3_64;

use super::{SLOT_BITS, SLOTS};

/// A part of all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of a key: the upper bits of its XXH3-64.
    pub fn of(key: &[u8]) -> Self {
        Self::of_hash(xxh3_64(key))
    }

    /// The slot of a hash.
    pub(super) fn of_hash(hash: u64) -> Self {
        Self((hash >> (64 - SLOT_BITS)) as u16)
    }

    /// The first hash that is in this slot.
    pub(super) fn first_hash(self) -> u64 {
        u64::from(self.0) << (64 - SLOT_BITS)
    }

    /// The slot with this number, if there is one.
    pub fn numbered(number: usize) -> Option<Self> {
        (number < SLOTS).then_some(Self(number as u16))
    }

    /// All slots.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS).map(|number| Self(number as u16))
    }

    /// From 0 to [`SLOTS`] − 1.
    pub fn number(self) -> usize {
        usize::from(self.0)
    }
}
