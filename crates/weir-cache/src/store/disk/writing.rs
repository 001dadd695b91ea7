//! An object on its way to disk: its temporary file, block by block. Only disk threads call this.
//!
//! It holds at most one block of the body. If it is dropped before its commit, the temporary file is removed.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::DiskSync;
use super::format::{BLOCK_BYTES, Header, Trailer, block_offset, block_sum, body_end};
use super::index::Stored;
use super::reading::Opened;
use super::volume::{Committed, Volume};
use crate::store::StoreError;
use crate::store::purge::Ticket;

pub(super) struct Unfinished {
    volume: Arc<Volume>,
    file: Arc<File>,
    path: PathBuf,
    identity: u64,
    body_bytes: u64,
    blocks: u64,
    block: Vec<u8>,
    reserved: u64,
    is_committed: bool,
}

impl Unfinished {
    pub(super) fn create(volume: &Arc<Volume>) -> Result<Self, StoreError> {
        if !volume.is_indexed.load(Ordering::Acquire) {
            return Err(StoreError::Busy);
        }
        let (identity, path) = volume.new_identity();
        let reserved = Volume::cost(0);
        volume.reserve(reserved)?;
        let opened = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = match opened {
            Ok(file) => Arc::new(file),
            Err(error) => {
                volume.release(reserved);
                return Err(error.into());
            }
        };
        let volume = Arc::clone(volume);
        let block = Vec::new();
        Ok(Self {
            volume,
            file,
            path,
            identity,
            body_bytes: 0,
            blocks: 0,
            block,
            reserved,
            is_committed: false,
        })
    }

    pub(super) fn append(&mut self, mut piece: &[u8]) -> Result<(), StoreError> {
        if self.body_bytes + piece.len() as u64 > self.volume.config.object_bytes_max {
            return Err(StoreError::NoRoom);
        }
        self.body_bytes += piece.len() as u64;
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(now);
            piece = later;
            if self.block.len() == BLOCK_BYTES {
                self.write_block()?;
            }
        }
        Ok(())
    }

    /// The file and the identity that seeds its sums.
    pub(super) fn file(&self) -> (Arc<File>, u64) {
        (Arc::clone(&self.file), self.identity)
    }

    /// Bytes of the body that can be read from the file: whole blocks.
    pub(super) fn bytes_written(&self) -> u64 {
        self.blocks * BLOCK_BYTES as u64
    }

    /// Ends the object, and returns it opened. `is_wanted` is called just before the object gets its name. Its
    /// caller keeps what it holds until this returns, which is after the index has the object.
    pub(super) fn commit(
        mut self,
        key: &[u8],
        ticket: Ticket,
        trailer: Trailer,
        variants_max: usize,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Opened, StoreError> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        let encoded = trailer.encode().map_err(|_| StoreError::NoRoom)?;
        let header = Header {
            body_bytes: self.body_bytes,
            identity: self.identity,
            trailer_offset: body_end(self.body_bytes),
            trailer_bytes: encoded.len(),
            trailer_sum: xxh3_64(&encoded),
            is_stale: false,
        };
        self.reserve_to(header.trailer_end())?;
        self.volume
            .write(&self.file, &encoded, header.trailer_offset)?;
        self.volume.write(&self.file, &header.encode(), 0)?;
        if self.volume.config.sync == DiskSync::BeforeCommit {
            self.file.sync_data()?;
        }
        let stored = Stored::new(
            &trailer.variant,
            self.body_bytes,
            &trailer.tags,
            self.identity,
            self.reserved,
        );
        let temporary = self.path.clone();
        let is_stale = self.volume.commit(
            Committed {
                temporary,
                file: &self.file,
                key,
                ticket,
                stored,
                variants_max,
            },
            is_wanted,
        )?;
        self.is_committed = true;
        Ok(Opened {
            file: Arc::clone(&self.file),
            header: Header { is_stale, ..header },
            trailer,
            renewals: 0,
        })
    }

    fn write_block(&mut self) -> Result<(), StoreError> {
        let sum = block_sum(self.identity, self.blocks, &self.block);
        self.block.extend_from_slice(&sum.to_le_bytes());
        let offset = block_offset(self.blocks);
        self.reserve_to(offset + self.block.len() as u64)?;
        self.volume.write(&self.file, &self.block, offset)?;
        self.blocks += 1;
        self.block.clear();
        Ok(())
    }

    fn reserve_to(&mut self, file_bytes: u64) -> Result<(), StoreError> {
        let more = Volume::cost(file_bytes).saturating_sub(self.reserved);
        self.volume.reserve(more)?;
        self.reserved += more;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_committed {
            // If the file cannot be removed, the next start drops it.
            _ = fs::remove_file(&self.path);
            self.volume.release(self.reserved);
        }
    }
}

/// What a commit needs besides the body.
pub(super) fn trailer(
    key: &[u8],
    variant: &[u8],
    metadata: Bytes,
    head: Bytes,
    tags: Vec<Box<str>>,
) -> Trailer {
    Trailer {
        key: Bytes::copy_from_slice(key),
        variant: Bytes::copy_from_slice(variant),
        metadata,
        head,
        tags,
    }
}
