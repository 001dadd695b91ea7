//! What operators see of the store, and ask of it. The gateway shows and passes on; the crate that has the store knows the rest.

use serde::Serialize;

/// Parts of all slots in [`StoreNode::first_by_part`], each with as many slots as any other.
pub const SLOT_PARTS: usize = 256;

/// The store as an operator sees it from this node. Counts are since the start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoreStatus {
    /// The address of this node, as the others know it.
    pub node: String,
    /// What it is among them.
    pub standing: StoreStanding,
    /// How many maps of the slots there were, this one included.
    pub epoch: u64,
    /// Nodes that have a key, unless a request says otherwise.
    pub replicas: usize,
    /// Parts of all keys, each of which has its own replicas.
    pub slots: usize,
    /// All nodes, this one among them.
    pub nodes: Vec<StoreNode>,
    /// Nodes come or go: the map that is to follow. `None` if there is none.
    pub change: Option<StoreChange>,
    /// Why this node writes nothing, as long as the last write to its disk has failed; `None` if it has not.
    pub failing: Option<String>,
    /// What clients asked of this node.
    pub operations: StoreOperations,
    /// The last repair, or the one that is under way; `None` where something else sees to the data.
    pub repair: Option<RepairStatus>,
}

/// What a node is among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreStanding {
    /// It has no data, and is to join.
    Waits,
    /// It is one of them.
    Member,
    /// It was one of them.
    Left,
    /// The others have a newer map, and none in common with it: it was started with an old copy of its data, or without it.
    Behind,
}

/// A map that is to follow the one of now, and how far this node is with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreChange {
    /// Its number.
    pub epoch: u64,
    /// Nodes that have a key by it.
    pub replicas: usize,
    /// The addresses of its nodes.
    pub nodes: Vec<String>,
    /// Whether this node takes what it gets.
    pub has_begun: bool,
    /// Whether it has all of it.
    pub is_done: bool,
    /// Keys that were looked at.
    pub looked_at: u64,
    /// Those that were copied.
    pub copied: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What holds it up; empty if nothing does.
    pub trouble: String,
}

/// A node of a store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoreNode {
    /// Where the others reach it.
    pub address: String,
    /// Its number.
    pub id: u16,
    /// Whether it answers this one, and both have a map in common.
    pub is_up: bool,
    /// Why it takes no part, though it is there; `None` if it takes part, or is not there.
    pub apart: Option<String>,
    /// Whether it is this one.
    pub is_this: bool,
    /// Slots whose first replica it has.
    pub first_of: usize,
    /// Slots of which it has a replica.
    pub replica_of: usize,
    /// Of each of [`SLOT_PARTS`] parts of the slots, how many have it for their first replica.
    pub first_by_part: Vec<u16>,
    /// What this node keeps for it; `None` for itself.
    pub hints: Option<HintStatus>,
}

/// Writes that a node did not take, and that are kept for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HintStatus {
    /// Those that wait for it.
    pub waiting: u64,
    /// Those that it has taken.
    pub taken: u64,
    /// Those that are left to repair: too many, too old, or the disk refused.
    pub left_out: u64,
}

/// What clients asked of a node. What another node has asked is counted there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoreOperations {
    /// Reads of a key.
    pub get: StoreOutcomes,
    /// Values that were to be written.
    pub put: StoreOutcomes,
    /// Deletions.
    pub delete: StoreOutcomes,
    /// Those that have no answer yet.
    pub under_way: u64,
    /// Writes that another node was asked to make, since it is its turn.
    pub forwarded: u64,
    /// Writes that took a newer version than the clock gave, because a replica had a newer one already.
    pub advanced: u64,
    /// Cells that reads have given to replicas that were behind.
    pub read_repairs: u64,
}

/// What came of operations of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StoreOutcomes {
    /// Done.
    pub ok: u64,
    /// There was no such key.
    pub not_found: u64,
    /// The condition did not hold.
    pub unmet: u64,
    /// Another write came in between.
    pub conflict: u64,
    /// Too few replicas answered in time.
    pub too_few: u64,
    /// Too much was under way.
    pub busy: u64,
    /// The database of the store does not do it.
    pub refused: u64,
    /// The disk failed, or a clock.
    pub failed: u64,
}

impl StoreOutcomes {
    /// Each with its name.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("ok", self.ok),
            ("not_found", self.not_found),
            ("unmet", self.unmet),
            ("conflict", self.conflict),
            ("too_few", self.too_few),
            ("busy", self.busy),
            ("refused", self.refused),
            ("failed", self.failed),
        ]
    }
}

/// What a repair has come to so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairStatus {
    /// One was asked for that has not begun yet.
    pub is_waiting: bool,
    /// When it began, in milliseconds since 1970; 0: there was none yet.
    pub began_ms: u64,
    /// When it ended; 0 while it is under way.
    pub ended_ms: u64,
    /// Ranges that were compared with another node's.
    pub compared: u64,
    /// Those that differed.
    pub differed: u64,
    /// Cells that other nodes got.
    pub sent: u64,
    /// Cells that this node got.
    pub received: u64,
    /// Deleted and expired keys that all replicas have forgotten.
    pub forgotten: u64,
    /// What keeps it from being whole: a node that did not answer.
    pub missing: Option<String>,
}

/// What an operator asks of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreOrder {
    /// Compare the replicas now, and make them alike.
    Repair,
}
