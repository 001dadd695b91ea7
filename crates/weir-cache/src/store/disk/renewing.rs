//! A new head and new metadata for an object on disk, as after a validation: its body stays where it is.
//!
//! The new trailer is written beside the old one. Then the first 64 bytes of the file are set to point to it. A process
//! that is killed in between leaves the old head, or bytes that do not verify.

use std::fs::File;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::format::{Header, Trailer, body_end};
use super::reading;
use super::volume::Volume;
use crate::store::StoreError;
use crate::store::job::lock;
use crate::store::purge::{Ticket, Verdict};

pub(super) struct Renewal {
    pub(super) key: Box<[u8]>,
    pub(super) variant: Box<[u8]>,
    pub(super) identity: u64,
    pub(super) ticket: Ticket,
    pub(super) metadata: Bytes,
    pub(super) head: Bytes,
}

pub(super) fn renew(volume: &Volume, renewal: &Renewal) -> Result<(), StoreError> {
    // The old and the new trailer are never further apart than this. The room for it is reserved before names are
    // locked.
    let more =
        Volume::cost(renewal.metadata.len() as u64 + renewal.head.len() as u64) + (128 << 10);
    volume.reserve(more)?;
    let used = volume.with_names_held(|| renew_named(volume, renewal, more));
    volume.release(more - used.as_ref().copied().unwrap_or(0));
    used.map(|_| ())
}

/// Returns how much of the reserved room the file has used.
fn renew_named(volume: &Volume, renewal: &Renewal, more: u64) -> Result<u64, StoreError> {
    let Renewal {
        key,
        variant,
        identity,
        ticket,
        metadata,
        head,
    } = renewal;
    let (metadata, head) = (metadata.clone(), head.clone());
    let stored = lock(&volume.index)
        .variant(key, variant)
        .cloned()
        .ok_or(StoreError::Gone)?;
    let verdict = volume.purges.verdict(*ticket, key, &stored.tags);
    if verdict == Verdict::Drop {
        return Err(StoreError::Purged);
    }
    let file = File::options()
        .read(true)
        .write(true)
        .open(volume.path(key, variant))?;
    let reading::Opened {
        file,
        header,
        trailer,
        ..
    } = reading::open(file)?;
    if [header.identity, stored.identity] != [*identity; 2] {
        return Err(StoreError::Gone);
    }
    let encoded = Trailer {
        metadata,
        head,
        ..trailer
    }
    .encode()
    .map_err(|_| StoreError::NoRoom)?;
    let first = body_end(header.body_bytes);
    let fits_before = first + encoded.len() as u64 <= header.trailer_offset;
    let renewed = Header {
        trailer_offset: if fits_before {
            first
        } else {
            header.trailer_end()
        },
        trailer_bytes: encoded.len(),
        trailer_sum: xxh3_64(&encoded),
        is_stale: verdict == Verdict::MarkStale,
        ..header
    };
    let cost = Volume::cost(renewed.trailer_end()).max(stored.cost);
    if cost - stored.cost > more {
        return Err(StoreError::NoRoom);
    }
    file.write_all_at(&encoded, renewed.trailer_offset)?;
    file.write_all_at(&renewed.encode(), 0)?;
    if let Some(stored) = lock(&volume.index).variant_mut(key, variant) {
        stored.is_stale = renewed.is_stale;
        stored.renewals = stored.renewals.wrapping_add(1);
        stored.cost = cost;
    }
    Ok(cost - stored.cost)
}
