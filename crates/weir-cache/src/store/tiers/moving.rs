//! Objects that have left RAM, or never were in it, and are not in the index of the disk yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use xxhash_rust::xxh3::xxh3_64;

use crate::key::url_of;
use crate::store::job::lock;

/// See the module's description. Two URLs with one hash count as the same, which only costs a job for a disk
/// thread.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// Objects by the hash of their URL.
    urls: Mutex<HashMap<u64, usize>>,
    /// Changes of RAM in progress; each may evict objects of any URL.
    evicting: AtomicUsize,
}

impl Moving {
    /// Counts an object with this primary key until it is in the index or given up.
    pub(super) fn begin(self: &Arc<Self>, key: &[u8]) -> UnderWay {
        let url = xxh3_64(url_of(key));
        *lock(&self.urls).entry(url).or_default() += 1;
        UnderWay(Arc::clone(self), url)
    }

    /// Something may leave RAM; [`Moving::begin`] will say what.
    pub(super) fn evicting(&self) -> Evicting<'_> {
        self.evicting.fetch_add(1, Ordering::AcqRel);
        Evicting(self)
    }

    /// Whether an object with the URL of this key is on its way, or may be in a moment.
    pub(super) fn may_have(&self, key: &[u8]) -> bool {
        self.evicting.load(Ordering::Acquire) > 0 || self.has(key)
    }

    /// Whether an object with the URL of this key is on its way.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        lock(&self.urls).contains_key(&xxh3_64(url_of(key)))
    }

    /// Whether any object is on its way.
    pub(super) fn any(&self) -> bool {
        !lock(&self.urls).is_empty()
    }
}

pub(super) struct UnderWay(Arc<Moving>, u64);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut urls = lock(&self.0.urls);
        if let Some(count) = urls.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                urls.remove(&self.1);
            }
        }
    }
}

pub(super) struct Evicting<'a>(&'a Moving);

impl Drop for Evicting<'_> {
    fn drop(&mut self) {
        self.0.evicting.fetch_sub(1, Ordering::AcqRel);
    }
}
