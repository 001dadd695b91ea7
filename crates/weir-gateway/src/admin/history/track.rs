//! The last minute of one subject: for each second the cells that grew, and by how much. What stands still takes no room.

use std::collections::VecDeque;

use crate::admin::history::{MINUTE_MS, SECONDS_MAX};

/// The cells that grew, and by how much.
type Grown = Box<[(u16, u32)]>;

/// What was counted of one subject.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// What the counters had when they were last read.
    last: Vec<u64>,
    seconds: VecDeque<(u64, Grown)>,
}

impl Track {
    /// Counts from `cells` on.
    pub(super) fn begin(&mut self, cells: &[u64]) {
        self.last = cells.to_vec();
    }

    /// The counters have `cells` now; returns what was added since they were last read. One that is lower than it was has begun
    /// anew.
    pub(super) fn note(&mut self, now_ms: u64, cells: &[u64]) -> Vec<u64> {
        let last = self.last.iter().copied().chain(std::iter::repeat(0));
        let grown = cells.iter().zip(last);
        let added: Vec<u64> = grown
            .map(|(&cell, last)| cell.checked_sub(last).unwrap_or(cell))
            .collect();
        let cells_grown = (0..).zip(&added).filter(|(_, grown)| **grown > 0);
        let kept =
            cells_grown.map(|(cell, &grown)| (cell, u32::try_from(grown).unwrap_or(u32::MAX)));
        self.seconds.push_back((now_ms, kept.collect()));
        self.begin(cells);
        let oldest_ms = now_ms.saturating_sub(MINUTE_MS);
        self.seconds.retain(|(at_ms, _)| *at_ms > oldest_ms);
        while self.seconds.len() > SECONDS_MAX {
            self.seconds.pop_front();
        }
        added
    }

    /// What was added after `since_ms`, cell by cell.
    pub(super) fn since(&self, since_ms: u64) -> Vec<u64> {
        let mut sums = vec![0; self.last.len()];
        let seconds = self.seconds.iter();
        let late = seconds.filter(|(at_ms, _)| *at_ms > since_ms);
        for &(cell, grown) in late.flat_map(|(_, grown)| grown) {
            // A table may have been longer under another configuration.
            if let Some(sum) = sums.get_mut(usize::from(cell)) {
                *sum += u64::from(grown);
            }
        }
        sums
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.seconds.len()
    }
}
