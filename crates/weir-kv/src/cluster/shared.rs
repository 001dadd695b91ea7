//! What all parts of a node know.

use std::sync::{Arc, Mutex, PoisonError};

use super::hello;
use crate::engine::Engine;
use crate::placement::{Map, Node, Slot};
use crate::tally::Tally;
use crate::version::{Clock, Version};
use crate::wall::unix_ms;

/// What all parts of a node know.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Mutex<Clock>,
    pub(crate) map: Map,
    /// Nodes that have a key, unless a request says otherwise.
    pub(crate) replicas: usize,
    /// That of the map, and of what else all nodes must have alike.
    pub(crate) fingerprint: u64,
    /// The number of this node.
    pub(crate) me: u16,
    pub(crate) tally: Arc<Tally>,
}

impl Shared {
    pub(crate) fn tick(&self) -> Version {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.tick(unix_ms())
    }

    /// Goes on behind a version; whether that is not too far ahead.
    pub(crate) fn see(&self, version: Version) -> bool {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.see(version, unix_ms()).is_ok()
    }

    /// What this node says of itself.
    pub(super) fn own<'s>(&'s self, secret: &'s str) -> hello::Own<'s> {
        let own = self.map.nodes().iter().find(|node| node.id == self.me);
        hello::Own {
            address: own.map_or("", |own| &own.address),
            secret,
            map: self.fingerprint,
        }
    }

    /// The other nodes.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Node> {
        self.map.nodes().iter().filter(|node| node.id != self.me)
    }

    /// The number of the node that has a key with one replica.
    pub(crate) fn owner(&self, key: &[u8]) -> u16 {
        let first = self.map.ranked(Slot::of(key))[0];
        self.map.nodes()[usize::from(first)].id
    }

    /// Whether both this node and another one have replicas of a key.
    pub(crate) fn is_common(&self, key: &[u8], other: u16) -> bool {
        let replicas = self.replicas(key, self.replicas);
        replicas.contains(&self.me) && replicas.contains(&other)
    }

    /// The first replicas of a key, by the numbers of their nodes.
    pub(crate) fn replicas(&self, key: &[u8], from: usize) -> Vec<u16> {
        let ranked = self.map.ranked(Slot::of(key)).iter().take(from);
        ranked
            .map(|&index| self.map.nodes()[usize::from(index)].id)
            .collect()
    }
}
