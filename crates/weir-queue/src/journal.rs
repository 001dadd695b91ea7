//! What a consumer group has done, as it is kept: a log of its own beside that of the messages.
//!
//! ```text
//!  head: kind            body
//!  0  a checkpoint       low │ is paused │ ranges │ first, end … │ tried │ offset, attempts, due ms … │ gone │ … │ dropped │ … │ file │ length
//!  1  settled            offset …
//!  2  tried              offset, attempts, due ms
//!  3  gone               offset in the log of dead letters …
//!  4  paused             1, or 0 when it goes on
//!  5  dropped            the offset that a dead letter had …
//!  6  written            low, and where a file ends: which, and how long it is
//! ```
//!
//! Numbers are little-endian, offsets and times of eight bytes, attempts and counts of four. A checkpoint says everything that came
//! before it, so what is before one is removed when the journal has grown. What the journal has lost is delivered again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use weir_log::{Disk, Error, Log, Readable, Settings};

use crate::progress::Checkpoint;
use crate::ranges::Ranges;
use crate::sink::Mark;

const SEGMENT_BYTES: u64 = 1 << 20;
/// Bytes after which there is another checkpoint, if that is no larger than a quarter of them.
const CHECKPOINT_EVERY: u64 = 1 << 20;

/// All that is known of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) checkpoint: Checkpoint,
    /// Dead letters that are no longer there, as ranges.
    pub(crate) gone: Vec<(u64, u64)>,
    /// Messages that were dropped as dead letters, as ranges of the offsets that they had.
    pub(crate) dropped: Vec<(u64, u64)>,
    pub(crate) is_paused: bool,
    /// Where a file ends that a sink has written.
    pub(crate) mark: Mark,
}

impl Known {
    /// These are settled too.
    pub(crate) fn settle(&mut self, offsets: Range<u64>) {
        self.checkpoint.settled.push((offsets.start, offsets.end));
    }

    /// The offset behind every message that it knows.
    pub(crate) fn end(&self) -> u64 {
        let settled = self.checkpoint.settled.last().map_or(0, |&(_, end)| end);
        let tried = self
            .checkpoint
            .tried
            .last()
            .map_or(0, |&(offset, ..)| offset + 1);
        self.checkpoint.low.max(settled).max(tried)
    }
}

/// What happens to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    Checkpoint(Known),
    Settled(Vec<u64>),
    Tried {
        offset: u64,
        attempts: u32,
        due_ms: u64,
    },
    Gone(Vec<u64>),
    Dropped(Vec<u64>),
    Paused(bool),
    /// All before an offset is written to a sink.
    Written(u64, Mark),
}

/// The journal of a group.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Log,
    /// Settled messages that are not appended yet.
    settled: Vec<u64>,
    is_dirty: bool,
    /// Bytes since the last checkpoint, and how many that has.
    since_checkpoint: u64,
    checkpoint_bytes: u64,
    /// Something was lost: only a checkpoint makes it good.
    is_behind: bool,
}

impl Journal {
    /// Opens it and says what it knows.
    pub(crate) fn open(disk: Arc<dyn Disk>, seed: u64) -> Result<(Self, Known), Error> {
        let settings = Settings {
            segment_bytes: SEGMENT_BYTES,
            readable: Readable::Written,
            seed,
        };
        let (log, _) = Log::open(disk, settings)?;
        let mut read = Replay::default();
        let mut cursor = log.read_from(log.first_offset());
        while let Some(record) = cursor.read()? {
            // One that makes no sense was written by a later version: what it settled is delivered again.
            if let Some(entry) = Entry::read(record.head, record.body) {
                read.apply(entry);
            }
        }
        let journal = Self {
            log,
            settled: Vec::new(),
            is_dirty: false,
            since_checkpoint: 0,
            checkpoint_bytes: 0,
            // What was read may be much: the first write says it anew.
            is_behind: true,
        };
        Ok((journal, read.into_known()))
    }

    /// Notes that a message is settled. It is written with the next others.
    pub(crate) fn settled(&mut self, offset: u64) {
        self.settled.push(offset);
    }

    /// Notes anything else.
    pub(crate) fn note(&mut self, now_ms: u64, entry: &Entry) {
        self.append_settled(now_ms);
        self.append(now_ms, entry);
    }

    /// Hands what was noted to the kernel. `known` is asked for everything when the journal has grown, or has lost something.
    pub(crate) fn write(
        &mut self,
        now_ms: u64,
        known: impl FnOnce() -> Known,
    ) -> Result<(), Error> {
        self.append_settled(now_ms);
        let is_due = self.since_checkpoint > CHECKPOINT_EVERY.max(4 * self.checkpoint_bytes);
        if !is_due && !self.is_behind {
            let written = self.log.write();
            self.is_behind = written.is_err();
            return written;
        }
        self.is_behind = true;
        // Everything before is in it.
        let checkpoint = self.log.next_offset();
        let before = self.since_checkpoint;
        self.append(now_ms, &Entry::Checkpoint(known()));
        self.checkpoint_bytes = self.since_checkpoint.saturating_sub(before);
        self.log.write()?;
        self.log.sync()?;
        self.since_checkpoint = 0;
        self.is_behind = false;
        self.is_dirty = false;
        while self.log.drop_oldest(checkpoint, 0, 0)?.is_some() {}
        Ok(())
    }

    /// What was written does not hold any more: the next write says everything anew.
    pub(crate) fn forget(&mut self) {
        self.settled.clear();
        self.is_behind = true;
    }

    /// Whether something was noted and not written.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.is_behind || !self.settled.is_empty() || self.log.pending_bytes() > 0
    }

    /// Makes it durable.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_dirty) {
            self.log.sync()?;
        }
        Ok(())
    }

    fn append_settled(&mut self, now_ms: u64) {
        if !self.settled.is_empty() {
            let settled = Entry::Settled(std::mem::take(&mut self.settled));
            self.append(now_ms, &settled);
        }
    }

    fn append(&mut self, now_ms: u64, entry: &Entry) {
        let mut body = Vec::new();
        let kind = entry.write(&mut body);
        self.since_checkpoint = self.since_checkpoint.saturating_add(body.len() as u64 + 64);
        self.is_dirty = true;
        self.is_behind |= self.log.append(now_ms, &[kind], &body).is_err();
    }
}

/// What entries come to, one after the other.
#[derive(Debug, Default)]
struct Replay {
    low: u64,
    settled: Ranges,
    tried: BTreeMap<u64, (u32, u64)>,
    gone: Ranges,
    dropped: Ranges,
    is_paused: bool,
    mark: Mark,
}

impl Replay {
    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Checkpoint(known) => {
                let tried = known.checkpoint.tried.into_iter();
                *self = Self {
                    low: known.checkpoint.low,
                    settled: Ranges::of(known.checkpoint.settled),
                    tried: tried
                        .map(|(offset, attempts, due_ms)| (offset, (attempts, due_ms)))
                        .collect(),
                    gone: Ranges::of(known.gone),
                    dropped: Ranges::of(known.dropped),
                    is_paused: known.is_paused,
                    mark: known.mark,
                };
            }
            Entry::Settled(offsets) => {
                for offset in offsets {
                    self.settled.insert(offset, offset + 1);
                    self.tried.remove(&offset);
                }
                while let Some(end) = self.settled.take_first_from(self.low) {
                    self.low = end;
                }
            }
            Entry::Tried {
                offset,
                attempts,
                due_ms,
            } => {
                self.tried.insert(offset, (attempts, due_ms));
            }
            Entry::Gone(offsets) => {
                for offset in offsets {
                    self.gone.insert(offset, offset + 1);
                }
            }
            Entry::Dropped(offsets) => {
                for offset in offsets {
                    self.dropped.insert(offset, offset + 1);
                }
            }
            Entry::Paused(is_paused) => self.is_paused = is_paused,
            Entry::Written(low, mark) => {
                self.low = low;
                self.mark = mark;
            }
        }
    }

    fn into_known(self) -> Known {
        let tried = self.tried.into_iter();
        let tried = tried.map(|(offset, (attempts, due_ms))| (offset, attempts, due_ms));
        Known {
            checkpoint: Checkpoint {
                low: self.low,
                settled: self.settled.iter().collect(),
                tried: tried.collect(),
            },
            gone: self.gone.iter().collect(),
            dropped: self.dropped.iter().collect(),
            is_paused: self.is_paused,
            mark: self.mark,
        }
    }
}

impl Entry {
    /// Appends its body, and says its kind.
    fn write(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            Self::Checkpoint(known) => {
                out.extend(known.checkpoint.low.to_le_bytes());
                out.push(u8::from(known.is_paused));
                write_ranges(&known.checkpoint.settled, out);
                out.extend((known.checkpoint.tried.len() as u32).to_le_bytes());
                for &(offset, attempts, due_ms) in &known.checkpoint.tried {
                    write_tried(offset, attempts, due_ms, out);
                }
                write_ranges(&known.gone, out);
                write_ranges(&known.dropped, out);
                write_mark(known.mark, out);
                0
            }
            Self::Settled(offsets) => {
                out.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
                1
            }
            &Self::Tried {
                offset,
                attempts,
                due_ms,
            } => {
                write_tried(offset, attempts, due_ms, out);
                2
            }
            Self::Gone(offsets) => {
                out.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
                3
            }
            Self::Paused(is_paused) => {
                out.push(u8::from(*is_paused));
                4
            }
            Self::Dropped(offsets) => {
                out.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes()));
                5
            }
            &Self::Written(low, mark) => {
                out.extend(low.to_le_bytes());
                write_mark(mark, out);
                6
            }
        }
    }

    fn read(head: &[u8], body: &[u8]) -> Option<Self> {
        let rest = &mut &*body;
        let entry = match *head {
            [0] => {
                let low = u64::from_le_bytes(take(rest)?);
                let [is_paused] = take(rest)?;
                let settled = ranges(rest)?;
                let count = u32::from_le_bytes(take(rest)?);
                let tried = (0..count).map(|_| tried(rest));
                let checkpoint = Checkpoint {
                    low,
                    settled,
                    tried: tried.collect::<Option<_>>()?,
                };
                Self::Checkpoint(Known {
                    checkpoint,
                    gone: ranges(rest)?,
                    dropped: ranges(rest)?,
                    is_paused: is_paused == 1,
                    mark: mark(rest)?,
                })
            }
            [1] => Self::Settled(offsets(rest)?),
            [2] => {
                let (offset, attempts, due_ms) = tried(rest)?;
                Self::Tried {
                    offset,
                    attempts,
                    due_ms,
                }
            }
            [3] => Self::Gone(offsets(rest)?),
            [4] => Self::Paused(take(rest)? == [1]),
            [5] => Self::Dropped(offsets(rest)?),
            [6] => Self::Written(u64::from_le_bytes(take(rest)?), mark(rest)?),
            _ => return None,
        };
        rest.is_empty().then_some(entry)
    }
}

fn write_ranges(ranges: &[(u64, u64)], out: &mut Vec<u8>) {
    out.extend((ranges.len() as u32).to_le_bytes());
    for (first, end) in ranges {
        out.extend(first.to_le_bytes());
        out.extend(end.to_le_bytes());
    }
}

fn write_tried(offset: u64, attempts: u32, due_ms: u64, out: &mut Vec<u8>) {
    out.extend(offset.to_le_bytes());
    out.extend(attempts.to_le_bytes());
    out.extend(due_ms.to_le_bytes());
}

fn write_mark(mark: Mark, out: &mut Vec<u8>) {
    out.extend(mark.file.to_le_bytes());
    out.extend(mark.bytes.to_le_bytes());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

fn ranges(rest: &mut &[u8]) -> Option<Vec<(u64, u64)>> {
    let count = u32::from_le_bytes(take(rest)?);
    let range = |_| {
        let first = u64::from_le_bytes(take(rest)?);
        Some((first, u64::from_le_bytes(take(rest)?)))
    };
    (0..count).map(range).collect()
}

fn tried(rest: &mut &[u8]) -> Option<(u64, u32, u64)> {
    let offset = u64::from_le_bytes(take(rest)?);
    let attempts = u32::from_le_bytes(take(rest)?);
    Some((offset, attempts, u64::from_le_bytes(take(rest)?)))
}

fn mark(rest: &mut &[u8]) -> Option<Mark> {
    let file = u64::from_le_bytes(take(rest)?);
    let bytes = u64::from_le_bytes(take(rest)?);
    Some(Mark { file, bytes })
}

fn offsets(rest: &mut &[u8]) -> Option<Vec<u64>> {
    let mut offsets = Vec::with_capacity(rest.len() / 8);
    while !rest.is_empty() {
        offsets.push(u64::from_le_bytes(take(rest)?));
    }
    Some(offsets)
}

#[cfg(test)]
mod tests;
