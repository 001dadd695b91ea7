//! What readers of a log see of it: its segments, and how far each may be read.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::index::End;
use crate::segment::Header;

/// The segments of a log, shared by its writer and its readers.
#[derive(Debug)]
pub(crate) struct Shape(Mutex<VecDeque<Segment>>);

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) header: Header,
    /// Where it ends for readers.
    pub(crate) end: End,
}

impl Shape {
    /// The last of the segments is the one that is written; there is always one.
    pub(crate) fn new(segments: VecDeque<Segment>) -> Self {
        Self(Mutex::new(segments))
    }

    /// The segments of now. Held for a few instructions.
    pub(crate) fn segments(&self) -> MutexGuard<'_, VecDeque<Segment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last segment may be read up to here.
    pub(crate) fn publish(&self, end: End) {
        if let Some(last) = self.segments().back_mut() {
            last.end = end;
        }
    }

    /// Whether this segment was not removed.
    pub(crate) fn has(&self, segment: &Segment) -> bool {
        let segments = self.segments();
        segments.iter().any(|other| other.header == segment.header)
    }

    /// The segment that has this offset, or the first one behind it. Beyond the end, the last.
    pub(crate) fn segment_of(&self, offset: u64) -> Option<Segment> {
        self.find(|segment| segment.end.offset > offset)
    }

    /// The segment with the first record of this time or later. Beyond the end, the last.
    pub(crate) fn segment_at(&self, time_ms: u64) -> Option<Segment> {
        self.find(|segment| segment.end.time_ms >= time_ms)
    }

    fn find(&self, has_it: impl Fn(&Segment) -> bool) -> Option<Segment> {
        let segments = self.segments();
        let at = segments.partition_point(|segment| !has_it(segment));
        let mut behind = segments.iter().skip(at);
        let with_records = behind.find(|segment| segment.end.offset > segment.header.base);
        with_records.or(segments.back()).copied()
    }
}
