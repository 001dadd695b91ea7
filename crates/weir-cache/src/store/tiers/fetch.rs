//! Fetches an object from disk: into RAM, whole, or open with its body on disk.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::Tiers;
use crate::store::StoreError;
use crate::store::disk::{BLOCK_BYTES, Stored};
use crate::store::job::lock;
use crate::store::memory::Inserted;
use crate::store::object::Object;
use crate::store::share::Share;

/// An object goes to RAM when it is found on disk this many times.
const USES_FOR_PROMOTION: u8 = 2;

impl Tiers {
    /// Whether this use of an object on disk should move it to RAM.
    pub fn is_worth_promoting(&self, stored: &Stored) -> bool {
        stored.uses + 1 >= USES_FOR_PROMOTION
            && stored.body_bytes < self.memory.object_bytes_max() / 2
    }

    /// Fetches an object from disk. If this use makes it worth that, it goes to RAM, into `share` if one is given.
    /// Otherwise it is read whole if it is at most a block, or else opened with its body on disk.
    pub async fn fetch(
        &self,
        key: &[u8],
        stored: &Stored,
        share: Option<&Arc<Share>>,
    ) -> Result<Arc<Object>, StoreError> {
        let disk = self.disk.as_ref().ok_or(StoreError::Gone)?;
        if self.is_worth_promoting(stored) && lock(&self.promoting).insert(key.into()) {
            let _ends = Promoting(&self.promoting, key);
            return self.promote(key, &stored.variant, share).await;
        }
        if stored.body_bytes <= BLOCK_BYTES as u64 {
            return disk.load(key, &stored.variant).await.map(Arc::new);
        }
        let ticket = self.purges.settled_on_disk();
        let opened = disk.open_object(key, &stored.variant).await?;
        Ok(Arc::new(Object::on_disk(opened, &stored.variant, ticket)))
    }

    /// Whether lookups still find this object, which an earlier lookup found.
    pub fn is_current(&self, key: &[u8], object: &Arc<Object>) -> bool {
        if let Some(now) = self.memory.variant(key, &object.variant) {
            return Arc::ptr_eq(&now, object);
        }
        let on_disk = self.find_on_disk(key);
        let mut same = on_disk
            .iter()
            .filter(|now| Some(now.identity) == object.disk_identity());
        same.any(|now| {
            let opened = object.disk();
            opened.is_none_or(|opened| opened.renewals() == now.renewals)
        })
    }

    /// Reads an object from disk and puts it into RAM, into `share` if there is one. It is returned even if RAM does
    /// not admit it.
    pub async fn promote(
        &self,
        key: &[u8],
        variant: &[u8],
        share: Option<&Arc<Share>>,
    ) -> Result<Arc<Object>, StoreError> {
        let disk = self.disk.as_ref().ok_or(StoreError::Gone)?;
        let object = Arc::new(disk.load(key, variant).await?);
        if let Some(share) = share {
            object.belongs_to(share);
        }
        let left = self.purges.settled();
        let _evicting = self.moving.evicting();
        if let Inserted::Stored(evicted) = self.memory.insert_absent(key, Arc::clone(&object)) {
            self.demote(&evicted, left);
        }
        Ok(object)
    }
}

/// Ends a promotion, also if its request has left.
struct Promoting<'a>(&'a Mutex<HashSet<Box<[u8]>>>, &'a [u8]);

impl Drop for Promoting<'_> {
    fn drop(&mut self) {
        lock(self.0).remove(self.1);
    }
}
