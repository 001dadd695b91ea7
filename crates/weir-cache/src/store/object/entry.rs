//! The objects of one primary key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Object;
use crate::store::share::Share;
use crate::store::transient::Pins;
use crate::store::walk::Key;

/// The objects of one primary key.
#[derive(Debug)]
pub struct Entry {
    /// The primary key.
    pub key: Key,
    variants: Box<[Arc<Object>]>,
    weight: u64,
    /// Its number in the order of a share.
    serial: AtomicU64,
}

impl Entry {
    /// An entry of one or more variants.
    pub(crate) fn new(key: Key, variants: Vec<Arc<Object>>, serial: u64) -> Self {
        let weight = key.len() as u64 + variants.iter().map(|object| object.weight()).sum::<u64>();
        Self {
            key,
            variants: variants.into(),
            weight,
            serial: AtomicU64::new(serial),
        }
    }

    /// The share of the newest variant. All have the same one, since a key belongs to one
    /// route.
    pub(in crate::store) fn share(&self) -> Option<&Share> {
        let newest = self.variants.first()?;
        newest.share().map(Arc::as_ref)
    }

    pub(in crate::store) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    pub(in crate::store) fn renumber(&self, serial: u64) {
        self.serial.store(serial, Ordering::Relaxed);
    }

    /// The entry is stored.
    pub(in crate::store) fn enter(&self) {
        self.pins().for_each(Pins::enter);
    }

    /// The entry is no longer stored.
    pub(in crate::store) fn leave(&self) {
        self.pins().for_each(Pins::leave);
    }

    fn pins(&self) -> impl Iterator<Item = &Pins> {
        let variants = self.variants.iter();
        variants.filter_map(|object| object.pins().map(Arc::as_ref))
    }

    /// Whether any variant was used since the last call.
    pub(in crate::store) fn take_recent_use(&self) -> bool {
        let variants = self.variants.iter();
        variants.fold(false, |used, object| object.take_recent_use() | used)
    }

    /// The variants, the newest first. The rules choose among them.
    pub fn variants(&self) -> &[Arc<Object>] {
        &self.variants
    }

    /// The object with exactly this variant. It counts as a use of it.
    pub fn variant(&self, variant: &[u8]) -> Option<&Arc<Object>> {
        let object = self
            .variants
            .iter()
            .find(|object| *object.variant == *variant)?;
        object.touch();
        Some(object)
    }

    /// The tags of all variants.
    pub fn tags(&self) -> impl Iterator<Item = &Box<str>> {
        self.variants.iter().flat_map(|object| &object.tags)
    }

    /// Bytes that it counts in RAM.
    pub fn weight(&self) -> u64 {
        self.weight
    }
}
