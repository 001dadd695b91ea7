//! The part of RAM that one route may use, so that it cannot push out responses of other routes.
//!
//! Its own entries make room, in the order in which they came, except that an entry used since then gets another
//! round. It changes only under the lock of the RAM tier's writers; hits do not use it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::job::lock;
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
    /// Keys by the serial numbers of their entries: the oldest first.
    order: BTreeMap<u64, Key>,
}

impl Share {
    /// An empty share.
    pub fn new(bytes_max: u64, variants_max: usize) -> Self {
        let taken = Mutex::default();
        Self {
            bytes_max,
            variants_max,
            taken,
        }
    }

    /// Bytes in use.
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

    /// The key that must make room next; `None` when everything is within the limit.
    pub(super) fn next_to_leave(&self) -> Option<Key> {
        let taken = lock(&self.taken);
        let oldest = taken.order.first_key_value();
        oldest
            .filter(|_| taken.bytes > self.bytes_max)
            .map(|(_, key)| Arc::clone(key))
    }

    /// An entry stays for another round: it goes to the end.
    pub(super) fn spare(&self, entry: &Entry, serial: u64) {
        let mut taken = lock(&self.taken);
        if let Some(key) = taken.order.remove(&entry.serial()) {
            entry.renumber(serial);
            taken.order.insert(serial, key);
        }
    }
}
