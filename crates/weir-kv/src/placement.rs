//! Where keys live.
//!
//! A key belongs to one of [`SLOTS`] slots, by its hash. A [`Map`] ranks all nodes for each slot; the first `n` of a ranking
//! are the replicas of a key that has `n`, so the replicas for fewer are among those for more. The map is explicit and has an
//! epoch: it is made once, kept, and only changed by a successor, so that nodes never have to agree on a computation.
//!
//! A ranking begins as rendezvous hashing (Thaler and Ravishankar, 1998): every node draws a number for every slot, and the
//! highest comes first. So a node that joins takes its part evenly from all others, and one that leaves is followed by
//! whoever is ranked next. Chance leaves a few percent between nodes. Levelling takes them away: at every rank, each node has
//! the same number of slots, give or take one.
//!
//! [`scheme`] has what others use instead, to compare with.

pub mod scheme;

use std::fmt;

use bytes::{Buf as _, Bytes};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Slots of every map. They are so many that a hundred nodes have equal parts within one percent.
pub const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;

/// Nodes of a map at most.
pub const NODES_MAX: usize = 128;

/// Ranks that are levelled: replicas of a key at most.
pub const REPLICAS_MAX: usize = 9;

/// A part of all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of a key: the upper bits of its XXH3-64.
    pub fn of(key: &[u8]) -> Self {
        Self((xxh3_64(key) >> (64 - SLOT_BITS)) as u16)
    }

    /// The slot with this number, if there is one.
    pub fn numbered(number: usize) -> Option<Self> {
        (number < SLOTS).then_some(Self(number as u16))
    }

    /// All slots.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS).map(|number| Self(number as u16))
    }

    /// From 0 to [`SLOTS`] − 1.
    pub fn number(self) -> usize {
        usize::from(self.0)
    }
}

/// A node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number, which no other node of the cluster ever gets.
    pub id: u16,
    /// Where the others reach it, as the configuration says: its name.
    pub address: Box<str>,
}

/// Which nodes have which slots.
#[derive(Clone, PartialEq, Eq)]
pub struct Map {
    epoch: u64,
    nodes: Vec<Node>,
    /// For each slot all nodes, as indices of `nodes`, in the order of their rank.
    ranking: Box<[u8]>,
    /// The next number for a node.
    next_id: u16,
}

/// Why there is no map of these nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapError {
    /// A map needs a node.
    NoNodes,
    /// More than [`NODES_MAX`].
    TooMany(usize),
    /// An address that is there twice.
    Twice(Box<str>),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => f.write_str("a cluster has at least one node"),
            Self::TooMany(count) => {
                write!(f, "{count} nodes, but a cluster has at most {NODES_MAX}")
            }
            Self::Twice(address) => write!(f, "{address} is there twice"),
        }
    }
}

impl std::error::Error for MapError {}

impl Map {
    /// The first map of a cluster. Whoever makes it of the same addresses, in whatever order, has the same map.
    ///
    /// # Errors
    /// Addresses that make no cluster.
    pub fn new(addresses: &[&str]) -> Result<Self, MapError> {
        let nobody = Self {
            epoch: 0,
            nodes: Vec::new(),
            ranking: Box::default(),
            next_id: 1,
        };
        nobody.successor(addresses)
    }

    /// The map that follows this one, for these nodes: those of before keep their slots as far as equal parts allow.
    ///
    /// # Errors
    /// Addresses that make no cluster.
    pub fn successor(&self, addresses: &[&str]) -> Result<Self, MapError> {
        let mut sorted: Vec<&str> = addresses.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MapError::Twice(pair[0].into()));
        }
        match sorted.len() {
            0 => return Err(MapError::NoNodes),
            count if count > NODES_MAX => return Err(MapError::TooMany(count)),
            _ => {}
        }
        let mut next_id = self.next_id;
        let node = |address: &&str| {
            let known = self.node(address).cloned();
            known.unwrap_or_else(|| {
                let id = next_id;
                next_id += 1;
                let address = (*address).into();
                Node { id, address }
            })
        };
        let nodes: Vec<Node> = sorted.iter().map(node).collect();
        let mut ranking = Vec::with_capacity(SLOTS * nodes.len());
        for slot in Slot::all() {
            self.rank(slot, &nodes, &mut ranking);
        }
        for rank in 0..nodes.len().min(REPLICAS_MAX) {
            level(&mut ranking, nodes.len(), rank);
        }
        Ok(Self {
            epoch: self.epoch + 1,
            nodes,
            ranking: ranking.into(),
            next_id,
        })
    }

    /// The map that follows this one, with another node in the place of one: it gets the same slots.
    ///
    /// # Errors
    /// The one is no node of this map, or the other one is.
    pub fn replaced(&self, old: &str, new: &str) -> Result<Self, MapError> {
        if self.node(new).is_some() {
            return Err(MapError::Twice(new.into()));
        }
        let old = self.nodes.iter().position(|node| &*node.address == old);
        let old = old.ok_or(MapError::NoNodes)?;
        let mut nodes: Vec<(usize, Node)> = self.nodes.iter().cloned().enumerate().collect();
        nodes[old].1 = Node {
            id: self.next_id,
            address: new.into(),
        };
        nodes.sort_by(|(_, one), (_, other)| one.address.cmp(&other.address));
        let mut places = vec![0; nodes.len()];
        for (place, (before, _)) in nodes.iter().enumerate() {
            places[*before] = place as u8;
        }
        let ranking = self.ranking.iter();
        let ranking = ranking.map(|&before| places[usize::from(before)]);
        Ok(Self {
            epoch: self.epoch + 1,
            ranking: ranking.collect(),
            nodes: nodes.into_iter().map(|(_, node)| node).collect(),
            next_id: self.next_id + 1,
        })
    }

    /// The same map, where so many numbers of nodes and maps were given already.
    #[must_use]
    pub(crate) fn behind(&self, count: u64) -> Self {
        Self {
            epoch: self.epoch + count,
            next_id: self.next_id + count as u16,
            ..self.clone()
        }
    }

    /// Ranks `nodes` for a slot: those that are ranked already stay in their order, the others come in where they drew.
    fn rank(&self, slot: Slot, nodes: &[Node], ranking: &mut Vec<u8>) {
        let index = |id: u16| nodes.iter().position(|node| node.id == id);
        let known = self.ranked(slot).iter();
        let known = known.filter_map(|&old| index(self.nodes[usize::from(old)].id));
        let mut order: Vec<usize> = known.collect();
        let drawn = |index: usize| draw(slot, &nodes[index].address);
        for new in 0..nodes.len() {
            if !order.contains(&new) {
                let higher = order.iter().filter(|&&other| drawn(other) > drawn(new));
                let place = higher.count();
                order.insert(place, new);
            }
        }
        ranking.extend(order.into_iter().map(|index| index as u8));
    }

    /// What tells this map from all others, also of the same epoch.
    pub fn fingerprint(&self) -> u64 {
        let mut bytes = Vec::with_capacity(self.ranking.len() + 64);
        bytes.extend(self.epoch.to_be_bytes());
        for node in &self.nodes {
            bytes.extend(node.id.to_be_bytes());
            bytes.extend(node.address.bytes());
            bytes.push(0);
        }
        bytes.extend_from_slice(&self.ranking);
        xxh3_64(&bytes)
    }

    /// The bytes of this map, for those who have none:
    ///
    /// ```text
    /// epoch (8)  next number (2)  nodes (2), each: number (2)  length (1)  address
    /// for each slot: the places of all nodes in this list, in the order of their rank (1 each)
    /// ```
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.ranking.len() + 64 * self.nodes.len() + 12);
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(self.next_id.to_be_bytes());
        bytes.extend((self.nodes.len() as u16).to_be_bytes());
        for node in &self.nodes {
            bytes.extend(node.id.to_be_bytes());
            bytes.push(node.address.len() as u8);
            bytes.extend(node.address.bytes());
        }
        bytes.extend_from_slice(&self.ranking);
        bytes.into()
    }

    /// Reads a map, which is all of `bytes`; `None` if they are none.
    pub fn decode(mut bytes: Bytes) -> Option<Self> {
        let epoch = bytes.try_get_u64().ok()?;
        let next_id = bytes.try_get_u16().ok()?;
        let count = usize::from(bytes.try_get_u16().ok()?);
        if !(1..=NODES_MAX).contains(&count) {
            return None;
        }
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            let id = bytes.try_get_u16().ok()?;
            let length = usize::from(bytes.try_get_u8().ok()?);
            if bytes.len() < length {
                return None;
            }
            let address = String::from_utf8(bytes.split_to(length).into()).ok()?;
            let address = address.into();
            nodes.push(Node { id, address });
        }
        let is_ranking = |ranked: &[u8]| {
            let mut seen = [false; NODES_MAX];
            let mut places = ranked.iter().map(|&place| usize::from(place));
            places.all(|place| place < count && !std::mem::replace(&mut seen[place], true))
        };
        let is_whole = bytes.len() == SLOTS * count && bytes.chunks(count).all(is_ranking);
        // What a successor is made of: numbers that were given, and some that are left.
        let is_given = |node: &Node| {
            let alike = |other: &&Node| other.id == node.id || other.address == node.address;
            node.id < next_id && nodes.iter().filter(alike).count() == 1
        };
        let has_next = epoch < u64::MAX && usize::from(next_id) + NODES_MAX < usize::from(u16::MAX);
        let is_map = is_whole && has_next && nodes.iter().all(is_given);
        is_map.then(|| Self {
            epoch,
            nodes,
            ranking: bytes[..].into(),
            next_id,
        })
    }

    /// How many maps there were before this one, and one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The nodes, in the order of their addresses.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node at this address.
    pub fn node(&self, address: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| &*node.address == address)
    }

    /// All nodes for a slot, as indices of [`Map::nodes`]: the first is the owner, the first `n` are `n` replicas.
    pub fn ranked(&self, slot: Slot) -> &[u8] {
        let count = self.nodes.len();
        self.ranking
            .get(slot.number() * count..(slot.number() + 1) * count)
            .unwrap_or_default()
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("epoch", &self.epoch)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

/// What a node draws for a slot.
fn draw(slot: Slot, address: &str) -> u64 {
    xxh3_64_with_seed(address.as_bytes(), slot.number() as u64)
}

/// Gives every node the same number of slots at a rank, give or take one. Two nodes change places in the ranking of a slot,
/// and those that are ranked closest to each other do so first; ranks before this one stay.
fn level(ranking: &mut [u8], nodes: usize, rank: usize) {
    let mut counts = vec![0; nodes];
    for order in ranking.chunks_exact(nodes) {
        counts[usize::from(order[rank])] += 1;
    }
    let quotas = quotas(&counts);
    for distance in 1..nodes - rank {
        for order in ranking.chunks_exact_mut(nodes) {
            let (has, takes) = (
                usize::from(order[rank]),
                usize::from(order[rank + distance]),
            );
            if counts[has] > quotas[has] && counts[takes] < quotas[takes] {
                order.swap(rank, rank + distance);
                counts[has] -= 1;
                counts[takes] += 1;
            }
        }
    }
}

/// How many slots each node is to have: the same number, and one more for those that have most, as far as there are some left.
fn quotas(counts: &[usize]) -> Vec<usize> {
    let (each, left) = (SLOTS / counts.len(), SLOTS % counts.len());
    let mut by_count: Vec<usize> = (0..counts.len()).collect();
    by_count.sort_by_key(|&node| (std::cmp::Reverse(counts[node]), node));
    let mut quotas = vec![each; counts.len()];
    for node in by_count.into_iter().take(left) {
        quotas[node] += 1;
    }
    quotas
}

#[cfg(test)]
mod tests;
