//! An object that is too large for RAM, on its way from the origin to disk. It is never whole in RAM.
//!
//! The filling request appends what arrives, and waits when the disk cannot keep up; others read what has been
//! written through its [`DiskArriving`]. When it can be found, it replaces what RAM has for the same key and
//! variant. It gives way to what came into RAM while it arrived.

use std::sync::Arc;

use bytes::Bytes;

use super::Tiers;
use crate::StoredHead;
use crate::store::StoreError;
use crate::store::disk::{DiskArriving, DiskWriter};
use crate::store::job::Answer;
use crate::store::memory::MemoryStore;
use crate::store::object::Object;
use crate::store::purge::Ticket;
use crate::store::share::Share;

/// An object on its way to disk. If it is dropped before its commit, nothing of it stays.
pub struct LargeWrite {
    writer: DiskWriter,
    memory: Arc<MemoryStore>,
    key: Box<[u8]>,
    ticket: Ticket,
    /// What RAM had for it at the beginning.
    before: Option<Arc<Object>>,
    is_wanted: Box<dyn Fn() -> bool + Send>,
}

impl std::fmt::Debug for LargeWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LargeWrite")
            .field("writer", &self.writer)
            .finish_non_exhaustive()
    }
}

impl Tiers {
    /// The largest body accepted now, in RAM or on disk.
    pub fn object_bytes_max(&self) -> u64 {
        let on_disk = self
            .disk
            .as_ref()
            .map_or(0, super::DiskStore::object_bytes_max);
        self.memory.object_bytes_max().max(on_disk)
    }

    /// Begins to write an object to disk; `ticket` is from before it was requested.
    pub fn write_large(
        &self,
        key: &[u8],
        variant: &[u8],
        ticket: Ticket,
        share: Option<&Share>,
    ) -> Result<LargeWrite, StoreError> {
        let disk = self.disk.as_ref().ok_or(StoreError::NoRoom)?;
        let before = self.memory.variant(key, variant);
        Ok(LargeWrite {
            writer: disk.write(key, variant, ticket, share)?,
            memory: Arc::clone(&self.memory),
            key: key.into(),
            ticket,
            is_wanted: Box::new(self.is_wanted(key, before.clone(), variant.into())),
            before,
        })
    }
}

impl LargeWrite {
    /// See [`DiskWriter::append`].
    pub fn append(&mut self, piece: Bytes) -> Result<(), StoreError> {
        self.writer.append(piece)
    }

    /// See [`DiskWriter::room`].
    pub fn room(&mut self) -> Answer<()> {
        self.writer.room()
    }

    /// The object, for reading while it is written.
    pub fn arriving(&self) -> DiskArriving {
        self.writer.arriving()
    }

    /// Ends the body. When this returns, lookups find the object, unless it was purged or replaced meanwhile.
    pub async fn commit(self, head: Arc<StoredHead>) -> Result<Arc<Object>, StoreError> {
        let described = Object::of_head(head, self.ticket, Vec::new());
        let (metadata, prepared) = described.bytes_for_disk();
        let tags = described.tags.to_vec();
        let committed = self.writer.commit(metadata, prepared, tags, self.is_wanted);
        let object = Object::on_disk(committed.await?, &described.variant, self.ticket);
        if let Some(before) = self.before {
            self.memory.remove_object(&self.key, &before);
        }
        Ok(Arc::new(object))
    }
}
