//! An object on disk as a worker reads it: each read is a job for a disk thread.

use std::sync::Arc;

use bytes::Bytes;

use super::Shared;
use super::reading::{self, Opened};
use crate::store::answer::Answer;

/// An object on disk that is open: it can be read to its end whatever happens to it in the store.
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

    /// Tells it from what had or will have its place.
    pub fn identity(&self) -> u64 {
        self.opened.header.identity
    }

    /// How often its head had been renewed, at the least, when it was read.
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

    /// Reads from `offset` of the body into the buffer, which is emptied first and handed back: to the end of the block
    /// that this is in, and on as long as whole blocks fit into its capacity. An empty buffer comes back at the end of
    /// the body. An error after the first bytes were sent means that the response must be cut off.
    ///
    /// Never refused for a full queue, because a response may be half sent; whoever sends has one read under way.
    pub fn read(&self, offset: u64, mut buffer: Vec<u8>) -> Answer<Vec<u8>> {
        let opened = Arc::clone(&self.opened);
        self.shared.ask_always(move |volume| {
            buffer.clear();
            reading::read_or_drop(volume, &opened, |blocks| blocks.read(offset, &mut buffer))?;
            Ok(buffer)
        })
    }
}
