//! What a purge does to files and the index. Only disk threads call this, after the purge was announced in the log.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::format::STALE_OFFSET;
use super::index::Stored;
use super::volume::Volume;
use crate::store::StoreError;
use crate::store::job::lock;
use crate::store::purge::{PurgeKind, PurgeScope};
use crate::store::walk::Key;

/// Keys that a purge checks before it lets others use the index.
const PURGE_KEYS: usize = 256;

impl Volume {
    /// Removes or marks everything in the index that a purge covers. The purge must be in the log of purges. Returns
    /// the number of objects. An object that cannot be removed stays, and the others are still removed; the purge then
    /// fails, and can be tried again.
    pub(super) fn sweep(&self, scope: &PurgeScope, kind: PurgeKind) -> Result<u64, StoreError> {
        let (mut after, mut objects, mut failed) = (None::<Key>, 0, None);
        loop {
            let names = lock(&self.names);
            let (covered, last) = lock(&self.index).covered(scope, after.as_deref(), PURGE_KEYS);
            for (key, stored) in &covered {
                let done = match kind {
                    PurgeKind::Hard => self.remove_named(key, stored),
                    PurgeKind::Soft => self.mark_named(key, stored),
                };
                match done {
                    Ok(()) => objects += 1,
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            drop(names);
            after = last;
            if after.is_none() {
                return failed.map_or(Ok(objects), Err);
            }
        }
    }

    /// Makes the next run end what `scope` covers, if this one is killed before every file is indexed. In this run the
    /// log of purges does that.
    pub(super) fn end_unindexed(&self, scope: &PurgeScope) -> Result<(), StoreError> {
        let _waiting = lock(&self.until_indexed);
        if self.is_indexed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut ended = lock(&self.ended);
        if let Some(note) = ended.note(scope) {
            (self.write_at)(ended.file(), &note.bytes, note.offset)?;
            ended.noted(&note);
        }
        Ok(())
    }

    /// Unlike an eviction, a purge must not answer while the file exists: the next start would bring it back. An object
    /// that cannot be removed stays in the index, so that another purge finds it.
    fn remove_named(&self, key: &[u8], stored: &Stored) -> Result<(), StoreError> {
        match fs::remove_file(self.path(key, &stored.variant)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let removed = lock(&self.index).remove(key, &stored.variant, Some(stored.identity));
        if let Some(removed) = removed {
            self.release(removed.cost);
        }
        Ok(())
    }

    fn mark_named(&self, key: &[u8], stored: &Stored) -> Result<(), StoreError> {
        if let Some(stored) = lock(&self.index).variant_mut(key, &stored.variant) {
            stored.is_stale = true;
        }
        match self.mark_file(key, &stored.variant) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn mark_file(&self, key: &[u8], variant: &[u8]) -> io::Result<()> {
        File::options()
            .write(true)
            .open(self.path(key, variant))?
            .write_all_at(&[1], STALE_OFFSET)
    }
}
