//! What a coordinator is asked to do, what it has done for that, and what comes of it.

use crate::cell::Cell;
use crate::condition::Condition;
use crate::version::Version;

/// How many replicas are asked, and how many have to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorum {
    /// Answers that are waited for: 1 to `from`.
    pub ack: usize,
    /// Replicas that are asked.
    pub from: usize,
}

impl Quorum {
    /// Whether two of them have a replica in common.
    pub fn is_majority(self) -> bool {
        2 * self.ack > self.from
    }

    /// The default of a key with `from` replicas: more than half of them.
    pub fn majority(from: usize) -> Self {
        Self {
            ack: from / 2 + 1,
            from,
        }
    }
}

/// What is done to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Finds the newest cell.
    Get,
    /// Writes a cell, with the version that it has.
    Put(Cell),
    /// Writes a cell with a version that is newer than all that the replicas have; that of the cell is the least.
    PutBehind(Cell),
    /// The same, if a condition holds of what there is at this time, in milliseconds since 1970, and over that alone.
    PutIf(Cell, Condition, u64),
}

/// What has to be done for it. Replicas are numbers of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask a replica for its cell.
    Read(u16),
    /// Have a replica write a cell, unless it has a newer one.
    Write(u16, Cell),
    /// Have a replica write a cell, unless it has one that is newer than this version.
    WriteOver(u16, Cell, Version),
    /// Choose a version behind this one, and go on with [`super::Coordinator::behind`].
    Behind(Version),
    /// Keep a cell for a replica that did not take it.
    Hint(u16, Cell),
    /// Answer. It comes exactly once.
    Answer(Answer),
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The newest cell of `ack` replicas; `None` when none of them has one.
    Found(Option<Cell>),
    /// `ack` replicas have this version, or a newer one.
    Written(Version),
    /// The condition does not hold of the newest cell of `ack` replicas, which is this one.
    Unmet(Option<Cell>),
    /// Another write came in between. This one may be on some replicas.
    Conflict,
    /// Fewer than `ack` replicas answered. A write may be on some of them.
    TooFew,
}

impl Answer {
    /// The same without a value that has expired.
    #[must_use]
    pub fn live_at(self, unix_ms: u64) -> Self {
        let live_at = |cell: Option<Cell>| cell.map(|cell| cell.live_at(unix_ms));
        match self {
            Self::Found(cell) => Self::Found(live_at(cell)),
            Self::Unmet(cell) => Self::Unmet(live_at(cell)),
            other => other,
        }
    }
}
