//! What this node has of a range: pages of cells, and digests.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::cell::Cell;
use crate::cluster::Shared;
use crate::engine::{Engine, EngineError};
use crate::frame::{Digest, Page, Span, value_bytes};

/// A page has so many entries and bytes at most, except for one that alone has more.
const PAGE_ENTRIES: usize = 4096;
const PAGE_BYTES: usize = 256 << 10;
/// Bytes that are read for a page without values, or for a digest, before it is answered: there is a deadline.
const READ_BYTES: usize = 16 << 20;
/// Bytes of an entry besides its key and value, about.
const ENTRY_BYTES: usize = 32;
/// Keys that a digest looks at before it answers.
const DIGEST_KEYS: u64 = 8192;

/// Finds the first cells of a range, with their values or without.
pub(super) fn page(
    engine: &dyn Engine,
    span: Span,
    has_values: bool,
    then: impl FnOnce(Result<Page, EngineError>) + Send + 'static,
) {
    let page = Arc::new(Mutex::new(Page {
        entries: Vec::new(),
        next: None,
    }));
    let (filled, mut bytes, mut read) = (Arc::clone(&page), 0, 0);
    let each = move |key: &[u8], mut cell: Cell| {
        let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
        read += value_bytes(&cell);
        if !has_values {
            cell.value = cell.value.map(|_| Bytes::new());
        }
        bytes += ENTRY_BYTES + key.len() + value_bytes(&cell);
        let is_full = page.entries.len() == PAGE_ENTRIES || bytes > PAGE_BYTES || read > READ_BYTES;
        if is_full && !page.entries.is_empty() {
            page.next = Some(Bytes::copy_from_slice(key));
            return false;
        }
        page.entries.push((Bytes::copy_from_slice(key), cell));
        true
    };
    let then = move |result: Result<(), EngineError>| {
        let page = std::mem::take(&mut *filled.lock().unwrap_or_else(PoisonError::into_inner));
        then(result.map(|()| page));
        None
    };
    engine.scan(span.from, span.to, Box::new(each), Box::new(then));
}

/// Hashes the cells of a range of which `peer` has replicas, too, and whose versions are older than `before`; as far as it gets.
pub(super) fn digest(
    shared: &Arc<Shared>,
    peer: u16,
    before: u64,
    span: Span,
    then: impl FnOnce(Result<(Digest, Option<Bytes>), EngineError>) + Send + 'static,
) {
    let found = Arc::new(Mutex::new((Digest::default(), None)));
    let (told, mut looked_at, mut read) = (Arc::clone(&found), 0, 0);
    let each = {
        let shared = Arc::clone(shared);
        move |key: &[u8], cell: Cell| {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            if looked_at == DIGEST_KEYS || read > READ_BYTES {
                found.1 = Some(Bytes::copy_from_slice(key));
                return false;
            }
            looked_at += 1;
            read += value_bytes(&cell);
            if cell.version.time < before && shared.is_common(key, peer) {
                found.0.add(key, &cell);
            }
            true
        }
    };
    let then = move |result: Result<(), EngineError>| {
        let found = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
        then(result.map(|()| found));
        None
    };
    let engine = &shared.engine;
    engine.scan(span.from, span.to, Box::new(each), Box::new(then));
}

impl Digest {
    /// Adds a key and its version.
    pub(super) fn add(&mut self, key: &[u8], cell: &Cell) {
        let mut bytes = Vec::with_capacity(key.len() + 12);
        bytes.extend(cell.version.time.to_be_bytes());
        bytes.extend(cell.version.node.to_be_bytes());
        bytes.extend(cell.version.run.to_be_bytes());
        bytes.extend_from_slice(key);
        self.hash ^= xxh3_64(&bytes);
        self.count += 1;
    }
}
