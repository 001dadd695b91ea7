//! What a start finds on the disk. Each file is read once, its header and its trailer, never its body.
//!
//! It runs in a thread of its own, while the store already answers from what has been indexed. Until it is done nothing
//! is written, so that the budget holds. A file that is not exactly an object under its own name is removed. One that
//! cannot be opened because the process is short of descriptors or memory is tried again until it can. The work is two
//! reads for each of at most `objects_max` files; files beyond that number are removed unread.

use std::fs::{self, DirEntry, File};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::format::{HEADER_BYTES, file_name};
use super::index::Stored;
use super::reading;
use super::volume::Volume;
use crate::store::StoreError;
use crate::store::job::lock;
use crate::store::purge::Ticket;

/// Time until a file is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// Indexes the files; `ticket` is from before the store answered anything.
pub(super) fn rebuild(volume: &Volume, ticket: Ticket) {
    for first_byte in 0..=u8::MAX {
        let directory = volume
            .config
            .directory
            .join(format!("objects/{first_byte:02x}"));
        let list = || Ok(fs::read_dir(&directory)?);
        let Ok(files) = patiently(volume, list) else {
            continue;
        };
        for file in files.flatten() {
            if volume.is_closing.load(Ordering::Acquire) {
                return;
            }
            let is_full = lock(&volume.index).len() >= volume.config.objects_max;
            let index = || index_file(volume, &file, first_byte, ticket);
            if is_full || patiently(volume, index).is_err() {
                if volume.is_closing.load(Ordering::Acquire) {
                    return;
                }
                drop_file(volume, &file.path());
            }
        }
    }
    volume.shrink();
    volume.finish_indexing();
}

/// Tries again as long as the object may be intact. If a file were skipped, it could come back after a purge, with the
/// next start.
pub(super) fn patiently<R>(
    volume: &Volume,
    mut attempt: impl FnMut() -> Result<R, StoreError>,
) -> Result<R, StoreError> {
    loop {
        match attempt() {
            Err(StoreError::Io(error))
                if reading::is_passing(&error) && !volume.is_closing.load(Ordering::Acquire) =>
            {
                thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}

fn index_file(
    volume: &Volume,
    entry: &DirEntry,
    first_byte: u8,
    ticket: Ticket,
) -> Result<(), StoreError> {
    let file_bytes = entry.metadata()?.len();
    if file_bytes < HEADER_BYTES as u64 {
        return Err(StoreError::Damaged("the file is too short"));
    }
    let opened = reading::open(File::open(entry.path())?)?;
    let (header, trailer) = (&opened.header, &opened.trailer);
    let name = format!("{:032x}", file_name(&trailer.key, &trailer.variant));
    let is_its_name =
        entry.file_name().to_str() == Some(&name[2..]) && name[..2] == format!("{first_byte:02x}");
    if !is_its_name || header.trailer_end() > file_bytes {
        return Err(StoreError::Damaged("the file of another object"));
    }
    let cost = Volume::cost(file_bytes);
    let mut stored = Stored::new(
        &trailer.variant,
        header.body_bytes,
        &trailer.tags,
        header.identity,
        cost,
    );
    stored.is_stale = header.is_stale;
    Ok(volume.adopt(&trailer.key, stored, ticket)?)
}

fn drop_file(volume: &Volume, path: &Path) {
    volume.counts.damaged.fetch_add(1, Ordering::Relaxed);
    if fs::remove_file(path).is_err() {
        // The file stays, whatever it is, so its space is not free.
        volume
            .count_existing(fs::metadata(path).map_or(0, |metadata| Volume::cost(metadata.len())));
    }
}
