//! Writes that wait together, in rounds: what goes to the table of each key, and what every write finds. Pure.
//!
//! ```text
//! writes ──► round: of each key a write over a version, or the newest of those before one ──► table ──► what each finds
//!    ▲                                                                                                   │
//!    └──────────── those whose turn has not come: only the table knows what the one before finds ────────┘
//! ```
//!
//! A write is told of a newer one only if the table has had that, or one that is newer still. What is there never becomes older.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;

use crate::cell::Cell;
use crate::engine::{EngineError, Then};
use crate::version::Version;

/// Bytes of a write besides its key and value, about.
const WRITE_BYTES: usize = 128;

/// A write that waits.
pub(super) struct Write {
    pub(super) key: Bytes,
    pub(super) cell: Cell,
    /// It is written over what is not newer than this; or than itself.
    pub(super) over: Option<Version>,
    pub(super) then: Then<Option<Version>>,
}

impl Write {
    /// The newest version that it is written over.
    pub(super) fn most(&self) -> Version {
        self.over.unwrap_or(self.cell.version)
    }

    pub(super) fn bytes(&self) -> usize {
        let value = self.cell.value.as_ref().map_or(0, Bytes::len);
        WRITE_BYTES + self.key.len() + value
    }
}

/// What a write finds: the version of a newer one, or nothing.
pub(super) type Found = Result<Option<Version>, EngineError>;
/// The newest versions that the table is known to have had.
pub(super) type Known = HashMap<Bytes, Version>;

/// What became of a write that went to the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// The table has this newer one.
    Kept(Version),
    /// The table has not taken it, and what it had was gone when it was looked at; or nobody has asked it.
    Open,
    Failed(EngineError),
}

/// What becomes of each write in a round.
pub(super) struct Round<'w> {
    /// In the order of the keys: every batch locks rows in this order, so none waits for another in a circle.
    turns: BTreeMap<&'w [u8], Turn>,
    stands: Vec<Stand>,
}

/// What goes to the table for a key.
struct Turn {
    write: usize,
    /// No other goes with it.
    is_closed: bool,
}

/// How it stands with a write.
#[derive(Debug, Clone, Copy)]
enum Stand {
    /// The table has had a newer one.
    Behind(Version),
    /// The table decides on what goes to it for this key, or on this newer one of the round.
    Goes(Option<Version>),
    /// One before it has to be decided on.
    Waits,
}

impl<'w> Round<'w> {
    pub(super) fn of(writes: &'w [Write], known: &Known) -> Self {
        let mut turns: BTreeMap<&[u8], Turn> = BTreeMap::new();
        let mut stand = |index: usize, write: &'w Write| {
            let newer = known.get(&write.key).filter(|known| **known > write.most());
            if let Some(newer) = newer {
                return Stand::Behind(*newer);
            }
            let is_over = write.over.is_some();
            let turn = turns.get_mut(&write.key[..]);
            let Some(turn) = turn else {
                let turn = Turn {
                    write: index,
                    is_closed: is_over,
                };
                turns.insert(&write.key, turn);
                return Stand::Goes(None);
            };
            // One over a version is alone with its key, and those behind it keep their order.
            turn.is_closed |= is_over;
            if turn.is_closed {
                return Stand::Waits;
            }
            let before = writes[turn.write].cell.version;
            if before > write.cell.version {
                return Stand::Goes(Some(before));
            }
            turn.write = index;
            Stand::Goes(None)
        };
        let stands = writes.iter().enumerate();
        let stands = stands.map(|(index, write)| stand(index, write)).collect();
        Self { turns, stands }
    }

    /// What goes to the table.
    pub(super) fn rows(&self, writes: &'w [Write]) -> Vec<&'w Write> {
        let turns = self.turns.values();
        turns.map(|turn| &writes[turn.write]).collect()
    }

    /// What each write finds, when these are the outcomes of the rows. `None`: it is for the next round.
    pub(super) fn found(
        &self,
        writes: &[Write],
        outcomes: &[Outcome],
        known: &mut Known,
    ) -> Vec<Option<Found>> {
        let keys = self.turns.iter().zip(outcomes);
        let outcomes: HashMap<&[u8], (usize, &Outcome)> = keys
            .map(|((key, turn), outcome)| (*key, (turn.write, outcome)))
            .collect();
        for (write, outcome) in outcomes.values() {
            let Write { key, cell, .. } = &writes[*write];
            match outcome {
                Outcome::Written => _ = known.insert(key.clone(), cell.version),
                Outcome::Kept(version) => _ = known.insert(key.clone(), *version),
                Outcome::Open | Outcome::Failed(_) => {}
            }
        }
        let stands = self.stands.iter().enumerate();
        let found = stands.map(|(index, stand)| {
            let newer_here = match *stand {
                Stand::Behind(newer) => return Some(Ok(Some(newer))),
                Stand::Waits => return None,
                Stand::Goes(newer) => newer,
            };
            let (write, outcome) = outcomes.get(&writes[index].key[..])?;
            match outcome {
                Outcome::Written => Some(Ok(newer_here)),
                Outcome::Kept(newer) => Some(Ok(Some(*newer))),
                Outcome::Open => None,
                // Only one of them is to blame.
                Outcome::Failed(EngineError::Refused(_)) if *write != index => None,
                Outcome::Failed(error) => Some(Err(error.clone())),
            }
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests;
