//! How keys find their nodes: what a key is hashed with, and which scheme makes nodes of the hash.

use std::borrow::Cow;
use std::fmt;

use super::scheme::{Hash, Locator, Scheme};
use super::{Map, MapError, Node, Slot};

/// Bytes of a rule.
const BYTES: usize = 4;

/// How keys find their nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What makes nodes of a hash.
    pub scheme: Scheme,
    /// What a key is hashed with.
    pub hash: Hash,
}

impl Default for Rule {
    /// Slots by XXH3-64, which a map finds without anything else.
    fn default() -> Self {
        Self {
            scheme: Scheme::Slots,
            hash: Hash::Xxh3,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.scheme.name(), self.hash.name())?;
        match self.scheme {
            Scheme::RingTree(each) | Scheme::RingArray(each) => {
                write!(f, ", {each} virtual nodes each")
            }
            _ => Ok(()),
        }
    }
}

impl Rule {
    /// `scheme (1)  virtual nodes (2)  hash (1)`
    pub(super) fn encode(self) -> [u8; BYTES] {
        let (scheme, each) = match self.scheme {
            Scheme::Slots => (0, 0),
            Scheme::RingTree(each) => (1, each),
            Scheme::RingArray(each) => (2, each),
            Scheme::Rendezvous => (3, 0),
            Scheme::Jump => (4, 0),
            Scheme::Maglev => (5, 0),
        };
        let hash = match self.hash {
            Hash::Xxh3 => 0,
            Hash::Md5 => 1,
        };
        let [high, low] = (each.min(Scheme::VIRTUAL_NODES_MAX) as u16).to_be_bytes();
        [scheme, high, low, hash]
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let [scheme, high, low, hash]: [u8; BYTES] = bytes.try_into().ok()?;
        let each = usize::from(u16::from_be_bytes([high, low]));
        let is_ring = (1..=Scheme::VIRTUAL_NODES_MAX).contains(&each);
        let scheme = match scheme {
            0 => Scheme::Slots,
            1 if is_ring => Scheme::RingTree(each),
            2 if is_ring => Scheme::RingArray(each),
            3 => Scheme::Rendezvous,
            4 => Scheme::Jump,
            5 => Scheme::Maglev,
            _ => return None,
        };
        let hash = match hash {
            0 => Hash::Xxh3,
            1 => Hash::Md5,
            _ => return None,
        };
        Some(Self { scheme, hash })
    }
}

/// A rule made for the nodes of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) rule: Rule,
    /// `None` for slots, which the map has.
    locator: Option<Locator>,
}

impl Found {
    /// A scheme has the nodes in the order of their addresses, as a map has them.
    pub(super) fn new(rule: Rule, nodes: &[Node]) -> Result<Self, MapError> {
        let addresses: Vec<&str> = nodes.iter().map(|node| &*node.address).collect();
        let locator = match rule.scheme {
            Scheme::Slots => None,
            scheme => Some(Locator::new(scheme, &addresses)?),
        };
        Ok(Self { rule, locator })
    }

    pub(super) fn first(&self, key: &[u8], map: &Map) -> usize {
        let hash = self.rule.hash.of(key);
        match &self.locator {
            Some(locator) => locator.owner(hash),
            None => usize::from(map.ranked(Slot::of_hash(hash))[0]),
        }
    }

    pub(super) fn replicas<'m>(&self, key: &[u8], count: usize, map: &'m Map) -> Cow<'m, [u8]> {
        let hash = self.rule.hash.of(key);
        if let Some(locator) = &self.locator {
            return Cow::Owned(ranked(locator, hash, count));
        }
        let ranked = map.ranked(Slot::of_hash(hash));
        Cow::Borrowed(&ranked[..count.min(ranked.len())])
    }

    /// All nodes for the first hash of a slot.
    pub(super) fn ranked_at(&self, slot: Slot) -> Vec<u8> {
        let hash = slot.first_hash();
        let locator = self.locator.as_ref();
        locator.map_or_else(Vec::new, |locator| ranked(locator, hash, usize::MAX))
    }
}

fn ranked(locator: &Locator, hash: u64, count: usize) -> Vec<u8> {
    let nodes = locator.replicas(hash, count).into_iter();
    nodes.map(|node| node as u8).collect()
}
