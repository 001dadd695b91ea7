//! Which nodes have which keys: the placement that holds, and while nodes come or go, the one that is to follow.
//!
//! ```text
//! stable, 1 ──── prepare ───► joint, 1 and 2 ──── commit ───► stable, 2
//!     ▲                              │
//!     └─────────── abort ────────────┘
//! ```
//!
//! While both hold, a read or a write needs enough replicas by the one and by the other (joint consensus, as in Raft: Ongaro and
//! Ousterhout, 2014, §6). So two nodes whose layouts have a placement in common work with quorums that meet, and a change can go from
//! node to node while clients are served. Two nodes without a common one never work together: frames tell.
//!
//! In between, data moves. A node that becomes a replica of a key takes the newest cell that the replicas of before have, once all that
//! was begun before is over. Then what was acknowledged has a quorum by the second placement as well. Pure.

pub mod change;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::coordinator::{Quorum, Replicas};
use crate::placement::{Map, Node, Slot};

/// Which nodes have a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// All nodes, in the order of their rank for each slot.
    pub map: Map,
    /// How many of them, unless a request says otherwise.
    pub replicas: usize,
}

/// The placement that is to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// What follows.
    pub placement: Placement,
    /// Nodes that are lost for good. They take no part any more, whatever they say.
    pub gone: Vec<u16>,
}

/// The placement that holds, and the one that is to follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What tells this cluster from others, whatever nodes come and go.
    pub cluster: u64,
    /// The highest epoch that a map has had, also one that never held alone. None has it again.
    pub highest: u64,
    /// It holds.
    pub now: Placement,
    /// It holds as well, and is to be the only one.
    pub next: Option<Next>,
}

impl Placement {
    /// The numbers of the nodes that have a slot.
    pub fn replicas_of(&self, slot: Slot) -> Vec<u16> {
        let ranked = self.map.ranked(slot).iter().take(self.replicas);
        ranked
            .map(|&place| self.map.nodes()[usize::from(place)].id)
            .collect()
    }

    /// The numbers of the first `count` replicas of a key.
    pub fn replicas_of_key(&self, key: &[u8], count: usize) -> Vec<u16> {
        let ranked = self.map.replicas(key, count);
        ranked
            .iter()
            .map(|&place| self.map.nodes()[usize::from(place)].id)
            .collect()
    }

    /// What is the same quorum for the keys of this placement, if it is meant for those of another one.
    fn quorum(&self, asked: Quorum, other: &Self) -> Quorum {
        let from = match asked.from {
            usual if usual == other.replicas => self.replicas,
            from => from.min(self.map.nodes().len()),
        };
        let majority = Quorum::majority(from).ack;
        let ack = match asked.ack {
            usual if usual == Quorum::majority(asked.from).ack => majority,
            all if all == asked.from => from,
            more if asked.is_majority() => more.min(from).max(majority),
            few => few.min(from),
        };
        Quorum { ack, from }
    }

    fn encode(&self, out: &mut BytesMut) {
        let map = self.map.encode();
        out.put_u8(self.replicas as u8);
        out.put_u32(map.len() as u32);
        out.extend_from_slice(&map);
    }

    fn decode(bytes: &mut Bytes) -> Option<Self> {
        let replicas = usize::from(bytes.try_get_u8().ok()?);
        let length = bytes.try_get_u32().ok()? as usize;
        let map = Map::decode((bytes.len() >= length).then(|| bytes.split_to(length))?)?;
        (1..=map.nodes().len())
            .contains(&replicas)
            .then_some(Self { map, replicas })
    }
}

impl Layout {
    /// That of a cluster that has just these nodes from the beginning.
    pub fn first(map: Map, replicas: usize) -> Self {
        Self {
            cluster: map.fingerprint() ^ replicas as u64,
            highest: map.epoch(),
            now: Placement { map, replicas },
            next: None,
        }
    }

    /// The layout in which another placement is to follow; `None` if one is already, or if its epoch was there before.
    pub fn prepared(&self, next: Next) -> Option<Self> {
        let epoch = next.placement.map.epoch();
        (self.next.is_none() && epoch > self.highest).then(|| Self {
            highest: epoch,
            next: Some(next),
            ..self.clone()
        })
    }

    /// Only the next placement holds; `None` if there is none.
    pub fn committed(&self) -> Option<Self> {
        let next = self.next.as_ref()?;
        Some(Self {
            now: next.placement.clone(),
            next: None,
            ..*self
        })
    }

    /// Only the placement of before holds.
    #[must_use]
    pub fn aborted(&self) -> Self {
        Self {
            next: None,
            ..self.clone()
        }
    }

    /// What frames say of it: the epochs of both maps, that of the next one in the upper half.
    pub fn epoch(&self) -> u64 {
        let next = self.next.as_ref();
        let next = next.map_or(0, |next| next.placement.map.epoch());
        next << 32 | self.now.map.epoch()
    }

    /// Whether this is the epoch of the layout that is to follow.
    pub fn is_followed_by(&self, epoch: u64) -> bool {
        let next = self.next.as_ref();
        next.is_some_and(|next| next.placement.map.epoch() == epoch)
    }

    /// The nodes of both maps, each once; without those that are lost.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes = self.now.map.nodes().to_vec();
        if let Some(next) = &self.next {
            for node in next.placement.map.nodes() {
                if !nodes.contains(node) {
                    nodes.push(node.clone());
                }
            }
            nodes.retain(|node| !next.gone.contains(&node.id));
        }
        nodes
    }

    /// Whether the node with this number is one of [`Layout::nodes`].
    pub fn has(&self, id: u16) -> bool {
        let is_in = |placement: &Placement| placement.map.nodes().iter().any(|node| node.id == id);
        match &self.next {
            None => is_in(&self.now),
            Some(next) => (is_in(&self.now) || is_in(&next.placement)) && !next.gone.contains(&id),
        }
    }

    /// The nodes of the layout before this one that are none of it, without those that are lost.
    pub fn going_from(&self, before: &Self) -> Vec<u16> {
        let next = self.next.as_ref();
        let is_lost = |id: u16| next.is_some_and(|next| next.gone.contains(&id));
        let before = before.nodes().into_iter().map(|node| node.id);
        before
            .filter(|id| !self.has(*id) && !is_lost(*id))
            .collect()
    }

    /// The node with this number, if it is one of [`Layout::nodes`].
    pub fn node(&self, id: u16) -> Option<Node> {
        self.nodes().into_iter().find(|node| node.id == id)
    }

    /// The node at this address, if it is one of [`Layout::nodes`].
    pub fn node_at(&self, address: &str) -> Option<Node> {
        let mut nodes = self.nodes().into_iter();
        nodes.find(|node| &*node.address == address)
    }

    /// The replicas of a key that an operation concerns, and how many of them it needs.
    pub fn replicas(&self, key: &[u8], quorum: Quorum) -> Replicas {
        let first = self.now.replicas_of_key(key, quorum.from);
        let replicas = Replicas::new(first, quorum.ack);
        match &self.next {
            None => replicas,
            Some(Next { placement, .. }) => {
                let quorum = placement.quorum(quorum, &self.now);
                let first = placement.replicas_of_key(key, quorum.from);
                replicas.and(&first, quorum.ack)
            }
        }
    }

    /// Whether a node is to take what the replicas of before have of a slot. That is whoever is no replica yet, also for a request
    /// that says fewer replicas than usual. Only where keys are placed by slots there is something that follows.
    pub fn gains(&self, node: u16, slot: Slot) -> bool {
        let Some(Next { placement, .. }) = &self.next else {
            return false;
        };
        let (old, new) = (self.now.replicas_of(slot), placement.replicas_of(slot));
        let rank = |nodes: &[u16]| nodes.iter().position(|other| *other == node);
        match (rank(&old), rank(&new)) {
            (_, None) => false,
            (None, Some(_)) => true,
            // Most of the replicas of before may not be most of fewer.
            (Some(_), Some(_)) if placement.replicas < self.now.replicas => true,
            (Some(old), Some(new)) => new < old,
        }
    }

    /// The bytes of this layout:
    ///
    /// ```text
    /// cluster (8)  highest (8)  placement  has next (1)  [placement  gone (1)  their numbers (2 each)]
    /// placement: replicas (1)  length (4)  map, as in [`crate::placement`]
    /// ```
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u64(self.cluster);
        bytes.put_u64(self.highest);
        self.now.encode(&mut bytes);
        bytes.put_u8(u8::from(self.next.is_some()));
        if let Some(Next { placement, gone }) = &self.next {
            placement.encode(&mut bytes);
            bytes.put_u8(gone.len() as u8);
            for node in gone {
                bytes.put_u16(*node);
            }
        }
        bytes.freeze()
    }

    /// Reads a layout, which is all of `bytes`; `None` if they are none.
    pub fn decode(mut bytes: Bytes) -> Option<Self> {
        let (cluster, highest) = (bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?);
        let now = Placement::decode(&mut bytes)?;
        let next = match bytes.try_get_u8().ok()? {
            0 => None,
            1 => {
                let placement = Placement::decode(&mut bytes)?;
                let count = bytes.try_get_u8().ok()?;
                let gone: Option<Vec<u16>> = (0..count).map(|_| bytes.try_get_u16().ok()).collect();
                Some(Next {
                    placement,
                    gone: gone?,
                })
            }
            _ => return None,
        };
        bytes.is_empty().then_some(Self {
            cluster,
            highest,
            now,
            next,
        })
    }
}

/// Whether two nodes may work together, by what their frames say: they have a map in common.
pub fn have_common(one: u64, other: u64) -> bool {
    let epochs = |epoch: u64| [epoch & u64::from(u32::MAX), epoch >> 32];
    let mut ours = epochs(one).into_iter().filter(|epoch| *epoch > 0);
    ours.any(|epoch| epochs(other).contains(&epoch))
}

/// What maps another node has, beside those of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maps {
    /// Both have one of them.
    InCommon,
    /// All of its maps are older: whatever it does for a key, it does without nodes that have the key now.
    Older,
    /// It is this node that has older ones.
    Newer,
    /// They have nothing to do with each other.
    Other,
}

/// What maps another node has, by what frames say of both layouts.
pub fn maps(own: u64, other: u64) -> Maps {
    let now = |epoch: u64| epoch & u64::from(u32::MAX);
    let newest = |epoch: u64| now(epoch).max(epoch >> 32);
    if have_common(own, other) {
        Maps::InCommon
    } else if newest(other) < now(own) {
        Maps::Older
    } else if newest(own) < now(other) {
        Maps::Newer
    } else {
        Maps::Other
    }
}

#[cfg(test)]
mod tests;
