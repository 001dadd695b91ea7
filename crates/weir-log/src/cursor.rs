//! Reading a log, on any thread, while it is written.

use std::sync::Arc;

use crate::disk::Disk;
use crate::open::index_of;
use crate::segment::{Header, Read, Reading, name_of};
use crate::shape::{Segment, Shape};
use crate::{Damage, Error, Record};

/// Records that are rather read than looked up.
const NEAR: u64 = 1024;

/// A reader of a log.
#[derive(Debug)]
pub struct Cursor {
    disk: Arc<dyn Disk>,
    shape: Arc<Shape>,
    /// The offset of the next record, or one before it that is not there.
    next: u64,
    at: Option<At>,
}

/// Where a cursor is.
#[derive(Debug)]
struct At {
    segment: Segment,
    reading: Reading,
    position: u64,
    /// The offset of the record at the position.
    offset: u64,
    /// There is none: what is behind it may be found by another way.
    is_broken: bool,
}

impl Cursor {
    pub(crate) fn new(disk: Arc<dyn Disk>, shape: Arc<Shape>, next: u64) -> Self {
        Self {
            disk,
            shape,
            next,
            at: None,
        }
    }

    /// Another cursor of the same log, at this offset.
    #[must_use]
    pub fn another(&self, offset: u64) -> Self {
        Self::new(Arc::clone(&self.disk), Arc::clone(&self.shape), offset)
    }

    /// The next record; `None` when there is none yet. Where segments were removed meanwhile, it goes on with the first that is
    /// left.
    ///
    /// # Errors
    /// The disk refuses, or the record is damaged. The cursor stays where it is.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, Error> {
        if !self.seek()? {
            return Ok(None);
        }
        let Some(at) = &mut self.at else {
            return Ok(None);
        };
        let record = at.record()?;
        self.next = record.offset + 1;
        Ok(Some(record))
    }

    /// The offset of what is read next.
    pub fn offset(&self) -> u64 {
        self.next
    }

    /// Goes on with the record of this offset, or the first one behind it, also where the log does not go so far yet.
    pub fn go_to(&mut self, offset: u64) {
        self.next = offset;
        // What is a little further on is found by reading on.
        let is_near = |at: &At| at.offset <= offset && offset - at.offset <= NEAR && !at.is_broken;
        if !self.at.as_ref().is_some_and(is_near) {
            self.at = None;
        }
    }

    /// Goes on behind damage, where the next record is known to be: up to 64 KiB of records are passed by, or the rest of the
    /// segment. Says with which offset; `None` where that cannot be known, in the segment that is written.
    pub fn skip_damaged(&mut self) -> Option<u64> {
        let segment = self.shape.segment_of(self.next)?;
        let index = index_of(&*self.disk, segment.header.base)?;
        let next = index.behind_offset(self.next).unwrap_or(index.end.offset);
        self.at = None;
        self.next = next;
        Some(next)
    }

    /// Goes on with the first record that was appended at this time or later. If there is none, with the next that is appended.
    ///
    /// # Errors
    /// As of [`Cursor::read`].
    pub fn go_to_time(&mut self, time_ms: u64) -> Result<(), Error> {
        let Some(segment) = self.shape.segment_at(time_ms) else {
            return Ok(());
        };
        self.next = segment.header.base;
        self.at = None;
        let index = index_of(&*self.disk, segment.header.base);
        if let Some((offset, position)) = index.and_then(|index| index.before_time(time_ms)) {
            self.next = offset;
            match self.open(segment, (offset, position)) {
                Ok(at) => self.at = Some(at),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        loop {
            let before = self.next;
            match self.read()? {
                Some(record) if record.time_ms < time_ms => {}
                Some(_) => {
                    self.go_to(before);
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
    }

    /// Whether there is a record at the cursor, after it has moved to where one may be.
    fn seek(&mut self) -> Result<bool, Error> {
        if let Some(at) = &self.at
            && at.position < at.segment.end.position
            && at.offset >= self.next
        {
            return Ok(true);
        }
        while let Some(segment) = self.shape.segment_of(self.next) {
            match &mut self.at {
                // It has grown, or not.
                Some(at) if at.segment.header == segment.header => at.segment.end = segment.end,
                _ => match self.enter(segment) {
                    Ok(at) => self.at = Some(at),
                    // It was removed before it was opened. Each turn finds a later one.
                    Err(error) if error.is_gone() && !self.shape.has(&segment) => continue,
                    Err(error) => return Err(error),
                },
            }
            return match &mut self.at {
                Some(at) => at.pass_to(self.next),
                None => Ok(false),
            };
        }
        Ok(false)
    }

    /// Opens a segment, near before the next record if it has that.
    fn enter(&self, segment: Segment) -> Result<At, Error> {
        let base = segment.header.base;
        let first = (base, Header::BYTES as u64);
        if self.next <= base {
            return self.open(segment, first);
        }
        let index = index_of(&*self.disk, base);
        let begins = index.and_then(|index| index.before_offset(self.next));
        self.open(segment, begins.unwrap_or(first))
    }

    fn open(&self, segment: Segment, (offset, position): (u64, u64)) -> Result<At, Error> {
        let name = name_of(segment.header.base);
        let opened = self.disk.open(&name);
        let file = opened.map_err(|error| Error::io("open", &name, error))?;
        Ok(At {
            segment,
            reading: Reading::new(name, file, segment.header.seed),
            position,
            offset,
            is_broken: false,
        })
    }
}

impl At {
    /// Passes by what is before this offset; whether there is a record then.
    fn pass_to(&mut self, offset: u64) -> Result<bool, Error> {
        let ends = self.segment.end.position;
        while self.offset < offset && self.position < ends {
            self.record()?;
        }
        Ok(self.position < ends)
    }

    /// The record at the position, behind which it is then. There is one.
    fn record(&mut self) -> Result<Record<'_>, Error> {
        let ends = self.segment.end.position;
        match self.reading.record(self.position, ends)? {
            Read::Whole(whole) if whole.record.offset == self.offset => {
                self.position += whole.bytes as u64;
                self.offset += 1;
                Ok(whole.record)
            }
            Read::Whole(_) | Read::Short | Read::Broken => {
                self.is_broken = true;
                Err(Error::Damaged(Damage {
                    name: name_of(self.segment.header.base),
                    position: self.position,
                    offset: self.offset,
                    what: "not the record that was there",
                }))
            }
        }
    }
}
