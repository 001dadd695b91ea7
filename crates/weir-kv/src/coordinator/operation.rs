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

    /// Whether it may go with a condition where keys have `replicas` of them: another one like it has a replica in common with it, and so
    /// has the default.
    pub fn may_decide(self, replicas: usize) -> bool {
        let usual = Self::majority(replicas);
        self.is_majority() && self.ack + usual.ack > self.from.max(usual.from)
    }

    /// Why [`Self::may_decide`] is false.
    pub(crate) fn indecision(self, replicas: usize) -> String {
        format!(
            "a condition needs more than half of the replicas that are asked, and enough to meet more than half of the {replicas} that \
             a key has; {}/{} are not",
            self.ack, self.from
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The replicas of a quorum are the first ones of a key, so it is counted which of them two may leave out.
    #[test]
    fn what_decides_meets_another_one_and_the_default() {
        for (ack, from, replicas, may_decide) in [
            (1, 1, 1, true),
            (2, 3, 3, true),
            (3, 3, 3, true),
            (2, 2, 3, true),
            (1, 1, 3, false),
            (1, 2, 3, false),
            (1, 3, 3, false),
            (3, 4, 3, true),
            (3, 5, 3, false),
            (4, 5, 3, true),
            (1, 1, 2, true),
            (2, 3, 2, true),
            (2, 4, 4, false),
            (2, 3, 4, true),
            (2, 3, 5, false),
            (3, 3, 5, true),
        ] {
            let quorum = Quorum { ack, from };
            let told = quorum.may_decide(replicas);
            assert_eq!(told, may_decide, "{ack}/{from} of {replicas}");
            // Any choice of each: as bits of the replicas.
            let of = |ack: usize, from: usize| {
                let count = ack as u32;
                (0_u32..1 << from).filter(move |those| those.count_ones() == count)
            };
            let usual = Quorum::majority(replicas);
            let meet = |other: Quorum| {
                let all = || of(other.ack, other.from);
                of(ack, from).all(|own| all().all(|other| own & other != 0))
            };
            assert_eq!(
                told,
                meet(quorum) && meet(usual),
                "{ack}/{from} of {replicas}"
            );
        }
    }
}
