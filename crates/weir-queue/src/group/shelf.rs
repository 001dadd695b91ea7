//! Messages that were read: a few that come next, and any other by its offset.

use std::collections::HashMap;

use weir_log::{Cursor, Error};

/// Bytes of messages that are here because they are delivered next; others are read again.
const BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Shelf {
    /// Reads what comes next, and what was read before.
    ahead: Cursor,
    behind: Cursor,
    here: HashMap<u64, Kept>,
    bytes: usize,
}

/// A message in memory.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) time_ms: u64,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

impl Shelf {
    pub(super) fn new(ahead: Cursor, behind: Cursor) -> Self {
        Self {
            ahead,
            behind,
            here: HashMap::new(),
            bytes: 0,
        }
    }

    /// Reads on with the message of this offset.
    pub(super) fn go_to(&mut self, offset: u64) {
        self.ahead.go_to(offset);
    }

    /// Goes on behind damage; with which offset, if that is known.
    pub(super) fn skip_damaged(&mut self) -> Option<u64> {
        self.ahead.skip_damaged()
    }

    /// Reads the next message, and says its offset and its head. It stays here if it is wanted.
    pub(super) fn read_next(
        &mut self,
        is_wanted: impl FnOnce(u64) -> bool,
    ) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let Some(record) = self.ahead.read()? else {
            return Ok(None);
        };
        let head = record.head.to_vec();
        let bytes = head.len() + record.body.len();
        if self.bytes + bytes <= BYTES_MAX && is_wanted(record.offset) {
            self.bytes += bytes;
            let kept = Kept {
                time_ms: record.time_ms,
                head: head.clone(),
                body: record.body.to_vec(),
            };
            self.here.insert(record.offset, kept);
        }
        Ok(Some((record.offset, head)))
    }

    /// A message, which leaves; `None` when it is in the log no more.
    pub(super) fn take(&mut self, offset: u64) -> Result<Option<Kept>, Error> {
        match self.here.remove(&offset) {
            Some(kept) => {
                self.bytes -= kept.bytes();
                Ok(Some(kept))
            }
            None => self.read(offset),
        }
    }

    /// The same, and it stays.
    pub(super) fn fetch(&mut self, offset: u64) -> Result<Option<Kept>, Error> {
        match self.here.get(&offset) {
            Some(kept) => Ok(Some(kept.clone())),
            None => self.read(offset),
        }
    }

    /// A message that was taken comes back.
    pub(super) fn put(&mut self, offset: u64, kept: Kept) {
        self.bytes += kept.bytes();
        self.here.insert(offset, kept);
    }

    pub(super) fn drop_one(&mut self, offset: u64) {
        if let Some(kept) = self.here.remove(&offset) {
            self.bytes -= kept.bytes();
        }
    }

    pub(super) fn clear(&mut self) {
        self.here.clear();
        self.bytes = 0;
    }

    fn read(&mut self, offset: u64) -> Result<Option<Kept>, Error> {
        if self.behind.offset() != offset {
            self.behind.go_to(offset);
        }
        let record = self.behind.read()?.filter(|record| record.offset == offset);
        Ok(record.map(|record| Kept {
            time_ms: record.time_ms,
            head: record.head.to_vec(),
            body: record.body.to_vec(),
        }))
    }

    /// The offset of the first message of this time or later.
    pub(super) fn offset_at(&mut self, time_ms: u64) -> Result<u64, Error> {
        self.behind.go_to(0);
        self.behind.go_to_time(time_ms)?;
        Ok(self.behind.offset())
    }
}
