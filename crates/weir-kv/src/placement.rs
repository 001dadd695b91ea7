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
//! [`scheme`] has what others use instead, to compare with. A map that follows one of them finds the nodes of each key by that, and its
//! ranking says only what the first hash of each slot has. Such a map has no successor.

mod level;
mod rule;
pub mod scheme;
mod slot;

use std::borrow::Cow;
use std::fmt;

use bytes::{Buf as _, Bytes};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub use self::rule::Rule;
pub use self::slot::Slot;

use self::level::level;
use self::rule::Found;
use self::scheme::Scheme;

/// Slots of every map. They are so many that a hundred nodes have equal parts within one percent.
pub const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;

/// Nodes of a map at most.
pub const NODES_MAX: usize = 128;

/// Ranks that are levelled: replicas of a key at most.
pub const REPLICAS_MAX: usize = 9;

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
    /// How keys are found instead of by their slots; `None` for what is usual.
    found: Option<Box<Found>>,
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
    /// Nodes cannot come and go: keys are not placed by slots.
    Fixed,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => f.write_str("a cluster has at least one node"),
            Self::TooMany(count) => {
                write!(f, "{count} nodes, but a cluster has at most {NODES_MAX}")
            }
            Self::Twice(address) => write!(f, "{address} is there twice"),
            Self::Fixed => f.write_str("nodes come and go only where keys are placed by slots and XXH3; where they are not, fill a new cluster with what /v1/range says"),
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
            found: None,
        };
        nobody.successor(addresses)
    }

    /// The map of a cluster that follows `rule`. Whoever makes it of the same addresses, in whatever order, has the same map.
    ///
    /// # Errors
    /// Addresses that make no cluster.
    pub fn following(rule: Rule, addresses: &[&str]) -> Result<Self, MapError> {
        let map = Self::new(addresses)?;
        if rule == Rule::default() {
            return Ok(map);
        }
        let mut map = Self {
            found: Some(Box::new(Found::new(rule, &map.nodes)?)),
            ..map
        };
        if rule.scheme != Scheme::Slots
            && let Some(found) = &map.found
        {
            let ranked = Slot::all().flat_map(|slot| found.ranked_at(slot));
            map.ranking = ranked.collect();
        }
        Ok(map)
    }

    /// The map that follows this one, for these nodes: those of before keep their slots as far as equal parts allow.
    ///
    /// # Errors
    /// Addresses that make no cluster; keys that are not placed by slots.
    pub fn successor(&self, addresses: &[&str]) -> Result<Self, MapError> {
        if self.found.is_some() {
            return Err(MapError::Fixed);
        }
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
            found: None,
        })
    }

    /// The map that follows this one, with another node in the place of one: it gets the same slots.
    ///
    /// # Errors
    /// The one is no node of this map, or the other one is; keys are not placed by slots.
    pub fn replaced(&self, old: &str, new: &str) -> Result<Self, MapError> {
        if self.found.is_some() {
            return Err(MapError::Fixed);
        }
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
            found: None,
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
        bytes.extend(self.found.iter().flat_map(|found| found.rule.encode()));
        xxh3_64(&bytes)
    }

    /// The bytes of this map, for those who have none:
    ///
    /// ```text
    /// epoch (8)  next number (2)  nodes (2), each: number (2)  length (1)  address
    /// for each slot: the places of all nodes in this list, in the order of their rank (1 each)
    /// nothing more, or the rule: scheme (1)  virtual nodes (2)  hash (1)
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
        bytes.extend(self.found.iter().flat_map(|found| found.rule.encode()));
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
        if bytes.len() < SLOTS * count {
            return None;
        }
        let ranking = bytes.split_to(SLOTS * count);
        // What a successor is made of: numbers that were given, and some that are left.
        let is_given = |node: &Node| {
            let alike = |other: &&Node| other.id == node.id || other.address == node.address;
            node.id < next_id && nodes.iter().filter(alike).count() == 1
        };
        let has_next = epoch < u64::MAX && usize::from(next_id) + NODES_MAX < usize::from(u16::MAX);
        let is_map = ranking.chunks(count).all(is_ranking) && nodes.iter().all(is_given);
        if !is_map || !has_next {
            return None;
        }
        let found = match &*bytes {
            [] => None,
            rule => Some(Box::new(Found::new(Rule::decode(rule)?, &nodes).ok()?)),
        };
        Some(Self {
            epoch,
            nodes,
            ranking: ranking[..].into(),
            next_id,
            found,
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

    /// How keys find their nodes.
    pub fn rule(&self) -> Rule {
        self.found.as_ref().map_or_else(Rule::default, |it| it.rule)
    }

    /// The slot of a key, if its nodes are those of a slot.
    pub fn slot(&self, key: &[u8]) -> Option<Slot> {
        let rule = self.rule();
        (rule.scheme == Scheme::Slots).then(|| Slot::of_hash(rule.hash.of(key)))
    }

    /// The node that has a key with one replica, as an index of [`Map::nodes`].
    #[inline]
    pub fn first(&self, key: &[u8]) -> usize {
        match &self.found {
            None => usize::from(self.ranked(Slot::of(key))[0]),
            Some(found) => found.first(key, self),
        }
    }

    /// The first `count` replicas of a key, as indices of [`Map::nodes`]: those for fewer are among those for more.
    #[inline]
    pub fn replicas(&self, key: &[u8], count: usize) -> Cow<'_, [u8]> {
        let ranked = match &self.found {
            None => self.ranked(Slot::of(key)),
            Some(found) => return found.replicas(key, count, self),
        };
        Cow::Borrowed(&ranked[..count.min(ranked.len())])
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

#[cfg(test)]
mod tests;
