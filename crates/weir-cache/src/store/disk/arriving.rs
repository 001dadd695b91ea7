//! An object that is still being written, for readers behind its writer: they read whole blocks of its file.
//!
//! The file can be read as long as this value exists, even if the file never gets a name.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Shared;
use super::reading::Blocks;
use crate::store::StoreError;
use crate::store::job::Answer;

/// An object that is being written.
#[derive(Debug, Clone)]
pub struct DiskArriving {
    shared: Arc<Shared>,
    written: Arc<Written>,
}

/// How much of the file the disk threads have written.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) file: OnceLock<(Arc<File>, u64)>,
    pub(super) bytes: AtomicU64,
}

impl DiskArriving {
    pub(super) fn new(shared: &Arc<Shared>, written: &Arc<Written>) -> Self {
        let (shared, written) = (Arc::clone(shared), Arc::clone(written));
        Self { shared, written }
    }

    /// Bytes of the body that can be read, always whole blocks. The number only grows.
    pub fn bytes_written(&self) -> u64 {
        self.written.bytes.load(Ordering::Acquire)
    }

    /// Like [`DiskObject::read`](super::DiskObject::read), up to what was written when this was called.
    pub fn read(&self, offset: u64, mut buffer: Vec<u8>) -> Answer<Vec<u8>> {
        let (written, body_bytes) = (Arc::clone(&self.written), self.bytes_written());
        self.shared.ask_always(move |_| {
            let (file, identity) = written.file.get().ok_or(StoreError::Gone)?;
            let blocks = Blocks {
                file,
                identity: *identity,
                body_bytes,
            };
            buffer.clear();
            blocks.read(offset, &mut buffer)?;
            Ok(buffer)
        })
    }
}
