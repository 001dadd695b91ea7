//! An object on disk as a worker reads it: each read is a job for a disk thread.

use std::sync::Arc;

use bytes::Bytes;

use super::Shared;
use super::reading::{self, Opened};
use crate::store::job::Answer;

/// An open object on disk: it can be read to its end, whatever happens to it in the store.
#[derive(Debug, Clone)]
pub struct DiskObject {
    shared: Arc<Shared>,
    opened: Arc<Opened>,
}

impl DiskObject {
    pub(super) fn new(shared: Arc<Shared>, opened: Arc<Opened>) -> Self {
        Self { shared, opened }
    }

    /// What the rules need to know of it.
    pub fn metadata(&self) -> &Bytes {
        &self.opened.trailer.metadata
    }

    /// Its prepared head.
    pub fn head(&self) -> &Bytes {
        &self.opened.trailer.head
    }

    /// Distinguishes it from earlier and later objects with the same key and variant.
    pub fn identity(&self) -> u64 {
        self.opened.header.identity
    }

    /// How often its head had been renewed when it was read, at least.
    pub fn renewals(&self) -> u32 {
        self.opened.renewals
    }

    /// Its tags.
    pub fn tags(&self) -> &[Box<str>] {
        &self.opened.trailer.tags
    }

    /// Bytes of its body.
    pub fn body_bytes(&self) -> u64 {
        self.opened.header.body_bytes
    }

    /// Whether a soft purge asked for its validation before it was opened.
    pub fn is_marked_stale(&self) -> bool {
        self.opened.header.is_stale
    }

    /// Reads from `offset` of the body into the buffer, which is emptied first and returned. It reads to the end of the
    /// block, and on as long as whole blocks fit into the buffer's capacity. At the end of the body the buffer comes
    /// back empty. If there is an error after the first bytes were sent, the response must be cut off.
    ///
    /// It is never refused because of a full queue, since a response may be half sent; each sender has one read in
    /// progress.
    pub fn read(&self, offset: u64, mut buffer: Vec<u8>) -> Answer<Vec<u8>> {
        let opened = Arc::clone(&self.opened);
        self.shared.ask_always(move |volume| {
            buffer.clear();
            reading::read_or_drop(volume, &opened, |blocks| blocks.read(offset, &mut buffer))?;
            Ok(buffer)
        })
    }
}
