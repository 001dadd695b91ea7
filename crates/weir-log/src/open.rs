//! Opening a log: what is there is looked through, a torn end is cut off, and damage is refused.
//!
//! Of segments that are complete, only the index is read; what is wrong inside one is found by who reads it. So a large log is
//! open as soon as its last segment is read.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::index::Index;
use crate::log::{Active, Log, Settings, write_index};
use crate::segment::{
    Header, Reading, SEGMENT_BYTES_MAX, Scanned, base_of, index_name_of, name_of, scan,
};
use crate::shape::Segment;
use crate::{Damage, Error};

/// What was found when a log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Bytes at the end that were cut off: what was being written when the process or machine ended, and never acknowledged as
    /// durable.
    pub torn_bytes: u64,
}

impl Log {
    /// Opens the log on this disk, or begins one.
    ///
    /// # Errors
    /// The disk refuses, or what was durable once is not there. Nothing has changed on the disk then.
    pub fn open(disk: Arc<dyn Disk>, settings: Settings) -> Result<(Self, Recovered), Error> {
        let names = disk.names();
        let names = names.map_err(|error| Error::io("list", "the log", error))?;
        let mut bases: Vec<u64> = names.iter().filter_map(|name| base_of(name)).collect();
        bases.sort_unstable();
        let (&last, sealed) = bases.split_last().unwrap_or((&0, &[]));
        let mut segments: Vec<Segment> = Vec::with_capacity(bases.len());
        for &base in sealed {
            let segment = sealed_segment(&*disk, base, since_ms(&segments))?;
            follows(segments.last(), &segment)?;
            segments.push(segment);
        }
        let found = if bases.is_empty() {
            None
        } else {
            last_segment(&*disk, last, since_ms(&segments))?
        };
        let (active, torn_bytes) = if let Some((active, torn_bytes)) = found {
            follows(segments.last(), &active.as_segment())?;
            (cut(&*disk, active, torn_bytes)?, torn_bytes)
        } else {
            // If there is a file, it was being created, and has never had a record.
            let header = Header {
                base: last,
                after: segments.last().map_or(last, |before| before.end.offset),
                seed: settings.seed,
            };
            (Active::begin(&*disk, header, since_ms(&segments))?, 0)
        };
        segments.push(active.as_segment());
        let log = Self::new(disk, settings, segments, active);
        Ok((log, Recovered { torn_bytes }))
    }
}

/// When the last of these was written.
fn since_ms(segments: &[Segment]) -> u64 {
    segments.last().map_or(0, |before| before.end.time_ms)
}

/// What a segment says of itself, and its length; `None` when it has less than a header.
fn header_of(name: &str, file: &dyn DiskFile) -> Result<Option<(Header, u64)>, Error> {
    let failed = |error| Error::io("read", name, error);
    let bytes = file.bytes().map_err(failed)?;
    if bytes > 2 * SEGMENT_BYTES_MAX {
        return Err(damage(name, 0, 0, "a file that is too long for a segment"));
    }
    let mut head = [0; Header::BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) => return Err(failed(error)),
        }
    }
    let header = Header::read(&head[..filled]);
    match header.filter(|header| base_of(name) == Some(header.base)) {
        Some(header) => Ok(Some((header, bytes))),
        None if bytes <= Header::BYTES as u64 => Ok(None),
        None => {
            let base = base_of(name).unwrap_or_default();
            Err(damage(name, 0, base, "not the beginning of this segment"))
        }
    }
}

/// A segment that is complete.
fn sealed_segment(disk: &dyn Disk, base: u64, since_ms: u64) -> Result<Segment, Error> {
    let name = name_of(base);
    let file = open(disk, &name)?;
    let Some((header, bytes)) = header_of(&name, &*file)? else {
        return Err(damage(&name, 0, base, "not the beginning of this segment"));
    };
    if let Some(index) = index_of(disk, base)
        && index.end.position == bytes
    {
        let end = index.end;
        return Ok(Segment { header, end });
    }
    let mut reading = Reading::new(name, file, header.seed);
    let Scanned { index, .. } = scan(&mut reading, header, since_ms, (bytes, false))?;
    write_index(disk, base, &index);
    let end = index.end;
    Ok(Segment { header, end })
}

/// The index of a segment that is complete, if its file is right.
pub(crate) fn index_of(disk: &dyn Disk, base: u64) -> Option<Index> {
    let file = disk.open(&index_name_of(base)).ok()?;
    let length = file.bytes().ok().filter(|&bytes| bytes < 8 << 20)?;
    let mut bytes = vec![0; length as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) | Err(_) => return None,
            Ok(read) => filled += read,
        }
    }
    Index::read(&bytes)
}

/// The segment that was written last, and how much of its end is torn; `None` when it was only being created.
fn last_segment(disk: &dyn Disk, base: u64, since_ms: u64) -> Result<Option<(Active, u64)>, Error> {
    let name = name_of(base);
    let opened = disk.open_afresh(&name);
    let file = opened.map_err(|error| Error::io("open", &name, error))?;
    let Some((header, bytes)) = header_of(&name, &*file)? else {
        return Ok(None);
    };
    let mut reading = Reading::new(name, Arc::clone(&file), header.seed);
    let Scanned { index, torn } = scan(&mut reading, header, since_ms, (bytes, true))?;
    let durable = index.end;
    Ok(Some((
        Active {
            header,
            file,
            index,
            durable,
        },
        torn,
    )))
}

/// Takes the torn end away, and makes durable what is left, so that nothing of it comes back behind what is written next. The
/// process may have ended before the name of the segment was durable.
fn cut(disk: &dyn Disk, active: Active, torn: u64) -> Result<Active, Error> {
    let cut = || {
        if torn > 0 {
            active.file.set_bytes(active.index.end.position)?;
        }
        active.file.sync()?;
        disk.sync_names()
    };
    let name = name_of(active.header.base);
    cut().map_err(|error| Error::io("recover", name, error))?;
    Ok(active)
}

/// Each segment begins where the one before has ended.
fn follows(before: Option<&Segment>, segment: &Segment) -> Result<(), Error> {
    match before {
        Some(before) if before.end.offset != segment.header.after => Err(damage(
            &name_of(segment.header.base),
            0,
            before.end.offset,
            "a segment before it, or a part of one, is missing",
        )),
        _ => Ok(()),
    }
}

fn open(disk: &dyn Disk, name: &str) -> Result<Arc<dyn DiskFile>, Error> {
    let opened = disk.open(name);
    opened.map_err(|error| Error::io("open", name, error))
}

fn damage(name: &str, position: u64, offset: u64, what: &'static str) -> Error {
    Error::Damaged(Damage {
        name: name.to_owned(),
        position,
        offset,
        what,
    })
}
