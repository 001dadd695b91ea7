//! Opens, verifies and reads an object on disk, block by block. Only disk threads call this.
//!
//! No byte is returned unless its sum was right in the same read. An object that does not verify is dropped from the
//! store.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::format::{
    BLOCK_BYTES, HEADER_BYTES, Header, SUM_BYTES, Trailer, block_offset, block_sum,
};
use super::volume::Volume;
use crate::store::StoreError;
use crate::store::purge::Verdict;

/// A file whose header and trailer have been read and verified.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: Arc<File>,
    pub(super) header: Header,
    pub(super) trailer: Trailer,
    /// How often its head had been renewed when this was read, at least.
    pub(super) renewals: u32,
}

/// The blocks of a body that are in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks<'a> {
    pub(super) file: &'a File,
    pub(super) identity: u64,
    /// Bytes of the body that can be read: all of it, or whole blocks.
    pub(super) body_bytes: u64,
}

/// Reads everything but the body.
pub(super) fn open(file: File) -> Result<Opened, StoreError> {
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0).map_err(torn)?;
    let header = Header::decode(&bytes).map_err(StoreError::Damaged)?;
    let mut trailer = vec![0; header.trailer_bytes];
    file.read_exact_at(&mut trailer, header.trailer_offset)
        .map_err(torn)?;
    if xxh3_64(&trailer) != header.trailer_sum {
        return Err(StoreError::Damaged("wrong sum of the trailer"));
    }
    let trailer = Trailer::decode(trailer.into()).map_err(StoreError::Damaged)?;
    Ok(Opened {
        file: Arc::new(file),
        header,
        trailer,
        renewals: 0,
    })
}

/// Opens the object that the index has for this key and variant.
pub(super) fn open_stored(
    volume: &Volume,
    key: &[u8],
    variant: &[u8],
) -> Result<Opened, StoreError> {
    let ticket = volume.purges.settled_on_disk();
    let Some(stored) = super::lock(&volume.index).touch(key, variant) else {
        return Err(StoreError::Gone);
    };
    // The sweep of a purge may not have reached it yet.
    let verdict = volume.purges.verdict(ticket, key, &stored.tags);
    if verdict == Verdict::Drop {
        return Err(StoreError::Purged);
    }
    let attempt = || {
        let opened = open(File::open(volume.path(key, variant))?)?;
        if opened.trailer.key != key || opened.trailer.variant != variant {
            return Err(StoreError::Damaged("the file of another object"));
        }
        let renewals = stored.renewals;
        Ok(Opened { renewals, ..opened })
    };
    // During the second attempt, no head changes and no file is replaced.
    let opened = attempt().or_else(|_| volume.with_names_held(attempt));
    match opened {
        Ok(mut opened) => {
            opened.header.is_stale |= verdict == Verdict::MarkStale;
            volume.counts.opened.fetch_add(1, Ordering::Relaxed);
            Ok(opened)
        }
        Err(StoreError::Io(error)) if error.kind() == ErrorKind::NotFound => {
            volume.drop_damaged(key, variant, stored.identity);
            Err(StoreError::Gone)
        }
        Err(StoreError::Io(error)) if is_passing(&error) => Err(error.into()),
        Err(error) => {
            volume.drop_damaged(key, variant, stored.identity);
            Err(error)
        }
    }
}

impl Opened {
    pub(super) fn blocks(&self) -> Blocks<'_> {
        Blocks {
            file: &self.file,
            identity: self.header.identity,
            body_bytes: self.header.body_bytes,
        }
    }
}

impl Blocks<'_> {
    /// Appends the body from `offset` to `buffer`: at least to the end of the block, and further as long as whole
    /// blocks fit into the capacity. At the end of the body it appends nothing.
    pub(super) fn read(self, offset: u64, buffer: &mut Vec<u8>) -> Result<(), StoreError> {
        let mut offset = offset;
        let mut is_first = true;
        while offset < self.body_bytes
            && (is_first || buffer.capacity() - buffer.len() >= BLOCK_BYTES + SUM_BYTES)
        {
            offset += self.read_block(offset, buffer)?;
            is_first = false;
        }
        Ok(())
    }

    /// Appends the rest of one block; returns its length.
    fn read_block(&self, offset: u64, buffer: &mut Vec<u8>) -> Result<u64, StoreError> {
        let index = offset / BLOCK_BYTES as u64;
        let length =
            (self.body_bytes - index * BLOCK_BYTES as u64).min(BLOCK_BYTES as u64) as usize;
        let start = buffer.len();
        buffer.resize(start + length + SUM_BYTES, 0);
        let read = self
            .file
            .read_exact_at(&mut buffer[start..], block_offset(index))
            .map_err(torn);
        let (block, sum) = buffer[start..].split_at(length);
        let is_right = read.is_ok() && sum == block_sum(self.identity, index, block).to_le_bytes();
        if !is_right {
            buffer.truncate(start);
            return Err(read
                .err()
                .unwrap_or(StoreError::Damaged("wrong sum of a block")));
        }
        buffer.truncate(start + length);
        let skipped = (offset % BLOCK_BYTES as u64) as usize;
        buffer.drain(start..start + skipped);
        Ok((length - skipped) as u64)
    }

    /// Reads the whole body, in pieces of one block.
    pub(super) fn read_all(self) -> Result<Vec<Bytes>, StoreError> {
        let mut pieces = Vec::new();
        let mut offset = 0;
        while offset < self.body_bytes {
            let length = (self.body_bytes - offset).min(BLOCK_BYTES as u64) as usize;
            let mut piece = Vec::with_capacity(length + SUM_BYTES);
            offset += self.read_block(offset, &mut piece)?;
            pieces.push(Bytes::from(piece));
        }
        Ok(pieces)
    }
}

/// Reads a block or the whole of an object, and drops the object when it is damaged.
pub(super) fn read_or_drop<R>(
    volume: &Volume,
    opened: &Opened,
    read: impl FnOnce(Blocks<'_>) -> Result<R, StoreError>,
) -> Result<R, StoreError> {
    let result = read(opened.blocks());
    let is_damaged = match &result {
        Err(StoreError::Io(error)) => !is_passing(error),
        Err(_) => true,
        Ok(_) => false,
    };
    if is_damaged {
        volume.drop_damaged(
            &opened.trailer.key,
            &opened.trailer.variant,
            opened.header.identity,
        );
    }
    result
}

/// Whether the object may be intact, because the process is only short of descriptors or memory.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::OutOfMemory
    ) || matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

fn torn(error: io::Error) -> StoreError {
    if error.kind() == ErrorKind::UnexpectedEof {
        StoreError::Damaged("the file is too short")
    } else {
        error.into()
    }
}
