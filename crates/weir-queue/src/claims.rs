//! What of a topic is ours, and how far that is delivered.
//!
//! Messages of several partitions go through one log, each under an offset of its own. Here is which message of Kafka is behind which
//! of them, for those that are not settled, and what of each partition is.
//!
//! ```text
//!   partition 0   settled │ settled here and there │ not fetched
//!                        low                      next
//! ```
//!
//! What is committed of a partition is `low`, with what is settled behind it as the commit's metadata, so that whoever gets the partition
//! next, after a restart or elsewhere, does not deliver that again:
//!
//! ```text
//! w1 3-2 10-1      3 to 4 and 10 behind low are settled: first offset behind low, and how many, in base 36
//! ```
//!
//! Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Mutex;

use crate::ranges::Ranges;
use crate::shared::lock;

/// What the metadata of a commit begins with.
const VERSION: &str = "w1";
/// Bytes of the metadata of a commit: Kafka takes 4096 by default.
const METADATA_BYTES_MAX: usize = 4000;

/// Claims of which two threads know: who fetches, and who delivers.
#[derive(Debug, Default)]
pub(crate) struct Claimed(Mutex<Claims>);

impl Claimed {
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Claims) -> T) -> T {
        look(&mut lock(&self.0))
    }
}

/// The partitions of a topic that are ours.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    partitions: BTreeMap<i32, Partition>,
    /// What is fetched and not settled: partition and offset there, by the offset here.
    places: HashMap<u64, (i32, u64)>,
}

/// A partition.
#[derive(Debug, Default)]
struct Partition {
    /// All before this offset is settled; unknown until something is fetched when nothing was committed.
    low: Option<u64>,
    settled: Ranges,
    /// The first offset that is not fetched.
    next: u64,
    /// What was committed last.
    committed: Option<Commit>,
}

/// What is to be committed of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) partition: i32,
    pub(crate) offset: u64,
    pub(crate) metadata: String,
}

impl Claims {
    /// A partition is ours from now on. `committed` is the offset and the metadata of whoever had it before.
    pub(crate) fn take(&mut self, partition: i32, committed: Option<(u64, &str)>) {
        let mut taken = Partition::default();
        if let Some((low, metadata)) = committed {
            taken.low = Some(low);
            taken.next = low;
            for (first, end) in ranges(low, metadata) {
                taken.settled.insert(first, end);
            }
            taken.advance();
        }
        self.partitions.insert(partition, taken);
    }

    /// A partition is ours no longer: what is not settled of it is delivered by somebody else.
    pub(crate) fn leave(&mut self, partition: i32) {
        self.partitions.remove(&partition);
        self.places.retain(|_, (own, _)| *own != partition);
    }

    /// Whether a message that came is to be delivered; then it has this offset here. Offsets between it and the one before do not exist.
    pub(crate) fn fetched(&mut self, (partition, offset): (i32, u64), here: u64) -> bool {
        let Some(own) = self.partitions.get_mut(&partition) else {
            return false;
        };
        if own.low.is_some_and(|low| offset < low) {
            // The partition has lost its end, or is a new one: what was settled says nothing about it.
            *own = Partition::default();
        }
        match own.low {
            None => (own.low, own.next) = (Some(offset), offset),
            Some(_) if offset > own.next => own.settled.insert(own.next, offset),
            Some(_) => {}
        }
        let is_new = offset >= own.next && !own.settled.contains(offset);
        own.next = own.next.max(offset + 1);
        own.advance();
        if is_new {
            self.places.insert(here, (partition, offset));
        }
        is_new
    }

    /// None is ours any more.
    pub(crate) fn leave_all(&mut self) {
        *self = Self::default();
    }

    /// Whether a message is still to be delivered by us.
    pub(crate) fn has(&self, here: u64) -> bool {
        self.places.contains_key(&here)
    }

    /// A message is delivered, or given up.
    pub(crate) fn settle(&mut self, here: u64) {
        if let Some((partition, offset)) = self.places.remove(&here)
            && let Some(own) = self.partitions.get_mut(&partition)
        {
            own.settled.insert(offset, offset + 1);
            own.advance();
        }
    }

    /// Messages that are fetched and not settled.
    pub(crate) fn open(&self) -> usize {
        self.places.len()
    }

    /// What has changed since it was committed last. It counts as committed then.
    pub(crate) fn commits(&mut self) -> Vec<Commit> {
        let mut commits = Vec::new();
        for (&partition, own) in &mut self.partitions {
            let Some(commit) = own.commit(partition) else {
                continue;
            };
            if own.committed.as_ref() != Some(&commit) {
                own.committed = Some(commit.clone());
                commits.push(commit);
            }
        }
        commits
    }

    /// What was committed did not arrive.
    pub(crate) fn forget_commits(&mut self) {
        for own in self.partitions.values_mut() {
            own.committed = None;
        }
    }
}

impl Partition {
    fn advance(&mut self) {
        let Some(low) = &mut self.low else {
            return;
        };
        while let Some(end) = self.settled.take_first_from(*low) {
            *low = end;
        }
        self.next = self.next.max(*low);
    }

    fn commit(&self, partition: i32) -> Option<Commit> {
        let offset = self.low?;
        let mut metadata = VERSION.to_owned();
        for (first, end) in self.settled.iter() {
            let before = metadata.len();
            let _ = write!(
                metadata,
                " {}-{}",
                base36(first - offset),
                base36(end - first)
            );
            if metadata.len() > METADATA_BYTES_MAX {
                // What is left out is delivered again after a restart.
                metadata.truncate(before);
                break;
            }
        }
        Some(Commit {
            partition,
            offset,
            metadata,
        })
    }
}

/// The ranges in the metadata of a commit; none when somebody else has written it.
fn ranges(low: u64, metadata: &str) -> Vec<(u64, u64)> {
    let mut words = metadata.split(' ');
    if words.next() != Some(VERSION) {
        return Vec::new();
    }
    let range = |word: &str| {
        let (first, count) = word.split_once('-')?;
        let first = u64::from_str_radix(first, 36).ok()?;
        let count = u64::from_str_radix(count, 36).ok()?;
        let first = low.checked_add(first)?;
        Some((first, first.checked_add(count)?))
    };
    words.map_while(range).collect()
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = (number % 36) as u32;
        digits.extend(char::from_digit(digit, 36));
        number /= 36;
        if number == 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests;
