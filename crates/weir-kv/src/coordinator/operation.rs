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

/// The replicas that an operation concerns, and how many of them it needs. While nodes come or go, those are two groups of replicas, and
/// it needs enough of either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicas {
    /// Their numbers, each once. The first of them is the first by the map that holds.
    pub nodes: Vec<u16>,
    groups: Groups,
}

/// Who has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Groups([Group; 2]);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Group {
    ack: u32,
    /// A bit for each place in the list of replicas.
    members: u32,
}

impl Replicas {
    /// `ack` of these nodes.
    pub fn new(nodes: Vec<u16>, ack: usize) -> Self {
        let all = Group {
            ack: ack as u32,
            members: (1 << nodes.len()) - 1,
        };
        Self {
            nodes,
            groups: Groups([all, Group::default()]),
        }
    }

    /// And `ack` of these, which may be the same.
    #[must_use]
    pub fn and(mut self, others: &[u16], ack: usize) -> Self {
        let mut members = 0;
        for node in others {
            let place = self.nodes.iter().position(|known| known == node);
            let place = place.unwrap_or_else(|| {
                self.nodes.push(*node);
                self.nodes.len() - 1
            });
            members |= 1 << place;
        }
        self.groups.0[1] = Group {
            ack: ack as u32,
            members,
        };
        self
    }

    /// Whether those are enough of which this is true, by their places.
    pub fn are_enough(&self, is: impl Fn(usize) -> bool) -> bool {
        self.groups.are_enough(self.nodes.len(), is)
    }

    pub(super) fn into_parts(self) -> (Vec<u16>, Groups) {
        (self.nodes, self.groups)
    }
}

impl Groups {
    pub(super) fn are_enough(self, count: usize, is: impl Fn(usize) -> bool) -> bool {
        let places = (0..count).filter(|place| is(*place));
        let those = places.fold(0, |those, place| those | 1_u32 << place);
        let is_enough = |group: &Group| (group.members & those).count_ones() >= group.ack;
        self.0.iter().all(is_enough)
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
