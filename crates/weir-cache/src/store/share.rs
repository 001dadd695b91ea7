//! What one route may take of RAM, so that it cannot push out what the others have stored.
//!
//! Its own entries make room, in the order they came, except that one which was used since gets another round. Changed
//! under the lock of the RAM tier's writers only; hits do not know it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::answer::lock;
use super::object::Entry;
use super::walk::Key;

/// Limits that objects of one origin share.
#[derive(Debug)]
pub struct Share {
    /// Bytes of RAM.
    pub bytes_max: u64,
    /// Variants kept for one primary key; the oldest go first.
    pub variants_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    /// Keys by the serials of their entries: the oldest first.
    order: BTreeMap<u64, Key>,
}

impl Share {
    /// A share of which nothing is taken.
    pub fn new(bytes_max: u64, variants_max: usize) -> Self {
        let taken = Mutex::default();
        Self {
            bytes_max,
            variants_max,
            taken,
        }
    }

    /// Bytes that are taken.
    pub fn bytes(&self) -> u64 {
        lock(&self.taken).bytes
    }

    pub(super) fn enter(&self, entry: &Entry) {
        let mut taken = lock(&self.taken);
        taken.bytes += entry.weight();
        taken.order.insert(entry.serial(), Arc::clone(&entry.key));
    }

    pub(super) fn leave(&self, entry: &Entry) {
        let mut taken = lock(&self.taken);
        if taken.order.remove(&entry.serial()).is_some() {
            taken.bytes -= entry.weight();
        }
    }

    /// The key whose turn it is to make room; `None` when everything is within the limit.
    pub(super) fn next_to_leave(&self) -> Option<Key> {
        let taken = lock(&self.taken);
        let oldest = taken.order.first_key_value();
        oldest
            .filter(|_| taken.bytes > self.bytes_max)
            .map(|(_, key)| Arc::clone(key))
    }

    /// An entry stays for another round: it goes behind all others.
    pub(super) fn spare(&self, entry: &Entry, serial: u64) {
        let mut taken = lock(&self.taken);
        if let Some(key) = taken.order.remove(&entry.serial()) {
            entry.renumber(serial);
            taken.order.insert(serial, key);
        }
    }
}
