//! Writing a log. One thread owns it, and waits for the disk when it chooses to.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::index::{End, Index};
use crate::record::{HEAD_BYTES, RECORD_BYTES_MAX, Record};
use crate::segment::{Header, SEGMENT_BYTES_MAX, index_name_of, name_of};
use crate::shape::{Segment, Shape};
use crate::{Cursor, Error};

/// How a log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a segment, after which the next one begins: at most a gibibyte. What is no longer needed is removed by segments.
    pub segment_bytes: u64,
    /// What its readers see.
    pub readable: Readable,
    /// A random number that nobody outside knows; each run has another one.
    pub seed: u64,
}

/// What the readers of a log see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readable {
    /// What was written. A crash of the machine may take it back; see [`Log::skip_to`].
    Written,
    /// What is durable.
    Durable,
}

/// A log that is written.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    settings: Settings,
    shape: Arc<Shape>,
    active: Active,
    pending: Pending,
    has_failed: bool,
}

/// The segment that is written.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) header: Header,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Of what was written.
    pub(crate) index: Index,
    /// Up to where it is durable.
    pub(crate) durable: End,
}

/// What was appended, and is not written. All of it goes to one segment.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    /// How long each record is, and its time.
    records: Vec<(usize, u64)>,
    /// Whether a segment begins with it.
    begins_segment: bool,
}

impl Log {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        settings: Settings,
        segments: Vec<Segment>,
        active: Active,
    ) -> Self {
        Self {
            disk,
            settings: Settings {
                segment_bytes: settings.segment_bytes.min(SEGMENT_BYTES_MAX),
                ..settings
            },
            shape: Arc::new(Shape::new(segments.into())),
            active,
            pending: Pending::default(),
            has_failed: false,
        }
    }

    /// Appends a record in memory, and says its offset. Times never go back: a record has at least the time of the one before.
    ///
    /// # Errors
    /// It is too long, or the log has failed.
    pub fn append(&mut self, time_ms: u64, head: &[u8], body: &[u8]) -> Result<u64, Error> {
        if self.has_failed {
            return Err(Error::HasFailed);
        }
        if HEAD_BYTES + head.len() + body.len() > RECORD_BYTES_MAX {
            return Err(Error::TooLong);
        }
        let written = self.active.index.end;
        let pending = &mut self.pending;
        if pending.records.is_empty() {
            let has_records = written.offset > self.active.header.base;
            pending.begins_segment = has_records && written.position >= self.settings.segment_bytes;
        }
        let last_ms = pending
            .records
            .last()
            .map_or(written.time_ms, |record| record.1);
        let record = Record {
            offset: written.offset + pending.records.len() as u64,
            time_ms: time_ms.max(last_ms),
            head,
            body,
        };
        let (seed, begins) = if pending.begins_segment {
            (self.settings.seed, 0)
        } else {
            let unsynced = written.position - self.active.durable.position;
            (self.active.header.seed, unsynced)
        };
        // What is pending ends long before four bytes do: whoever appends without writing runs out of memory.
        let unsynced = begins + pending.bytes.len() as u64;
        record.write(seed, unsynced as u32, &mut pending.bytes);
        pending.records.push((record.bytes(), record.time_ms));
        Ok(record.offset)
    }

    /// Bytes of a segment from the next one on.
    pub fn set_segment_bytes(&mut self, bytes: u64) {
        self.settings.segment_bytes = bytes.min(SEGMENT_BYTES_MAX);
    }

    /// What readers see from now on. What they have seen already they go on seeing.
    pub fn set_readable(&mut self, readable: Readable) {
        self.settings.readable = readable;
    }

    /// Whether nothing is taken any more until it is opened again.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Bytes that were appended and not written.
    pub fn pending_bytes(&self) -> usize {
        self.pending.bytes.len()
    }

    /// Hands what is pending to the kernel: it survives the process from then on.
    ///
    /// # Errors
    /// The disk has refused. Nothing that was pending is in the log then, and its offsets are given again. Later records are taken,
    /// unless what was written in part could not be taken back.
    pub fn write(&mut self) -> Result<(), Error> {
        if self.has_failed {
            return Err(Error::HasFailed);
        }
        let pending = std::mem::take(&mut self.pending);
        if pending.records.is_empty() {
            return Ok(());
        }
        if pending.begins_segment {
            self.begin_segment(self.active.index.end.offset, self.settings.seed)?;
        }
        let active = &mut self.active;
        let begins = active.index.end.position;
        if let Err(error) = active.file.write_at(&pending.bytes, begins) {
            // Otherwise later records would follow what makes no sense.
            self.has_failed = active.file.set_bytes(begins).is_err();
            return Err(Error::io("write", name_of(active.header.base), error));
        }
        for (bytes, time_ms) in pending.records {
            active.index.push(bytes, time_ms);
        }
        if self.settings.readable == Readable::Written {
            self.shape.publish(active.index.end);
        }
        // Its memory is used again, unless that was an unusual amount.
        self.pending.bytes = pending.bytes;
        self.pending.bytes.clear();
        self.pending.bytes.shrink_to(1 << 20);
        Ok(())
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// The disk has refused, and the log takes nothing any more.
    pub fn sync(&mut self) -> Result<(), Error> {
        if self.has_failed {
            return Err(Error::HasFailed);
        }
        let active = &mut self.active;
        if active.durable == active.index.end {
            return Ok(());
        }
        if let Err(error) = active.file.sync() {
            self.has_failed = true;
            return Err(Error::io("sync", name_of(active.header.base), error));
        }
        active.durable = active.index.end;
        self.shape.publish(active.durable);
        Ok(())
    }

    /// Leaves out the offsets before `offset`. For whoever has read further than the log goes, after a crash of the machine has
    /// taken back what was not durable: otherwise other records would have the offsets that he knows.
    ///
    /// # Errors
    /// The disk has refused. Nothing has changed then, unless the log has failed.
    pub fn skip_to(&mut self, offset: u64) -> Result<(), Error> {
        self.write()?;
        if offset <= self.active.index.end.offset {
            return Ok(());
        }
        self.begin_segment(offset, self.settings.seed)
    }

    /// The offset that the next record gets.
    pub fn next_offset(&self) -> u64 {
        self.active.index.end.offset + self.pending.records.len() as u64
    }

    /// The offset behind the last record that was written.
    pub fn written(&self) -> u64 {
        self.active.index.end.offset
    }

    /// The offset behind the last record that is durable.
    pub fn durable(&self) -> u64 {
        self.active.durable.offset
    }

    /// The first offset that there is, or the next one without a record.
    pub fn first_offset(&self) -> u64 {
        let segments = self.shape.segments();
        segments.front().map_or(0, |first| first.header.base)
    }

    /// The first offset of the segments that have the last `bytes`, or more.
    pub fn tail_offset(&self, bytes: u64) -> u64 {
        let segments = self.shape.segments();
        let mut behind = self.active.index.end.position;
        let mut first = self.active.header.base;
        for segment in segments.iter().rev().skip(1) {
            if behind >= bytes {
                break;
            }
            behind += segment.end.position;
            first = segment.header.base;
        }
        first
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        let segments = self.shape.segments();
        let sealed = segments.len().saturating_sub(1);
        let sealed = segments.iter().take(sealed);
        sealed.map(|segment| segment.end.position).sum::<u64>() + self.active.index.end.position
    }

    /// A reader that begins with the record of this offset, or the first one behind it.
    pub fn read_from(&self, offset: u64) -> Cursor {
        Cursor::new(Arc::clone(&self.disk), Arc::clone(&self.shape), offset)
    }

    /// Removes the oldest segment if nobody needs it: its records are all before `consumed`, and the log is longer than
    /// `bytes_max`, or they were appended before `before_ms`. Says how many bytes that were; `None` when it stays.
    ///
    /// # Errors
    /// The disk has refused.
    pub fn drop_oldest(
        &mut self,
        consumed: u64,
        bytes_max: u64,
        before_ms: u64,
    ) -> Result<Option<u64>, Error> {
        if self.has_failed {
            return Err(Error::HasFailed);
        }
        let bytes = self.bytes();
        let may_go = |oldest: &Segment| {
            let is_too_much = bytes > bytes_max || oldest.end.time_ms < before_ms;
            oldest.end.offset <= consumed && is_too_much
        };
        let oldest = {
            let mut segments = self.shape.segments();
            let is_one_of_several = segments.len() > 1;
            match segments.front().copied() {
                // Before its file, so that a reader who misses that finds where to go on.
                Some(oldest) if is_one_of_several && may_go(&oldest) => segments.pop_front(),
                _ => None,
            }
        };
        let Some(oldest) = oldest else {
            return Ok(None);
        };
        let base = oldest.header.base;
        // The index first: one without its segment would stay for ever.
        for name in [index_name_of(base), name_of(base)] {
            match self.disk.remove(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    self.shape.segments().push_front(oldest);
                    return Err(Error::io("remove", name, error));
                }
                _ => {}
            }
        }
        // One after the other, so that a crash leaves no hole.
        if let Err(error) = self.disk.sync_names() {
            self.has_failed = true;
            return Err(Error::io("sync the names of", "the log", error));
        }
        Ok(Some(oldest.end.position))
    }

    /// Ends the segment that is written, and begins the next one with `base`.
    fn begin_segment(&mut self, base: u64, seed: u64) -> Result<(), Error> {
        self.sync()?;
        let after = self.active.index.end.offset;
        write_index(&*self.disk, self.active.header.base, &self.active.index);
        let since_ms = self.active.index.end.time_ms;
        let active = match Active::begin(&*self.disk, Header { base, after, seed }, since_ms) {
            Ok(active) => active,
            Err(error) => {
                // Records that go on in this segment would be followed by one that begins too early.
                let name = name_of(base);
                let removed = match self.disk.remove(&name) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                    _ => self.disk.sync_names(),
                };
                self.has_failed = removed.is_err();
                return Err(error);
            }
        };
        self.shape.segments().push_back(active.as_segment());
        self.active = active;
        Ok(())
    }
}

impl Active {
    /// As readers see it when all of it is durable.
    pub(crate) fn as_segment(&self) -> Segment {
        Segment {
            header: self.header,
            end: self.durable,
        }
    }

    /// A new segment, which is durable.
    pub(crate) fn begin(disk: &dyn Disk, header: Header, since_ms: u64) -> Result<Self, Error> {
        let name = name_of(header.base);
        let begin = || {
            let file = disk.create(&name)?;
            file.write_at(&header.write(), 0)?;
            file.sync()?;
            disk.sync_names()?;
            Ok(file)
        };
        let file = begin().map_err(|error| Error::io("create", &name, error))?;
        let index = Index::new(header.base, Header::BYTES as u64, since_ms);
        Ok(Self {
            header,
            file,
            durable: index.end,
            index,
        })
    }
}

/// Writes the index of a segment that is complete. Without it, or with half of it, it is made again when the log is opened.
pub(crate) fn write_index(disk: &dyn Disk, base: u64, index: &Index) {
    let created = disk.create(&index_name_of(base));
    let _ = created.and_then(|file| file.write_at(&index.write(), 0));
}
