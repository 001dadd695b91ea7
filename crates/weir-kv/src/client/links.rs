//! The connections to all nodes, and the map that one of them tells.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::ClientError;
use super::attempts::Came;
use super::link::Link;
use crate::coordinator::Quorum;
use crate::frame::Say;
use crate::placement::Map;

/// Which nodes have a key.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) map: Map,
    /// How many of them, unless somebody says otherwise.
    pub(super) replicas: usize,
}

impl Placed {
    /// All nodes, the replicas of the key in front. One that has none of it asks those that have.
    pub(super) fn ranked(&self, key: &[u8]) -> Vec<Box<str>> {
        let nodes = self.map.nodes();
        let ranked = self.map.replicas(key, nodes.len());
        ranked
            .iter()
            .map(|&index| nodes[usize::from(index)].address.clone())
            .collect()
    }

    /// The quorum that is meant, if nodes take it.
    pub(super) fn quorum(&self, asked: Option<Quorum>) -> Result<Quorum, ClientError> {
        let nodes = self.map.nodes().len();
        match asked {
            None => Ok(Quorum::majority(self.replicas)),
            Some(quorum) if (1..=quorum.from).contains(&quorum.ack) && quorum.from <= nodes => {
                Ok(quorum)
            }
            Some(Quorum { ack, from }) => Err(ClientError::Invalid(format!(
                "{ack} of {from} replicas, and there are {nodes} nodes"
            ))),
        }
    }
}

/// Connections by the addresses of their nodes, made when they are needed.
#[derive(Debug)]
pub(super) struct Links {
    by_address: Mutex<HashMap<Box<str>, Arc<Link>>>,
    /// Nodes that are known without a map.
    first: Vec<Box<str>>,
    secret: Arc<str>,
}

impl Links {
    pub(super) fn new(nodes: Vec<SocketAddr>, secret: String) -> Self {
        let first = nodes.into_iter().map(|node| node.to_string().into());
        Self {
            by_address: Mutex::default(),
            first: first.collect(),
            secret: secret.into(),
        }
    }

    /// The connection to the node at this address.
    pub(super) fn to(&self, address: &str) -> Arc<Link> {
        let mut links = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(address) {
            return Arc::clone(link);
        }
        let link = Arc::new(Link::start(address, &self.secret));
        links.insert(address.into(), Arc::clone(&link));
        link
    }

    /// The map of the first node that has one that is newer than the known one.
    pub(super) async fn learn(
        &self,
        known: Option<&Placed>,
        deadline: Instant,
    ) -> Result<Placed, ClientError> {
        let mapped = known.iter().flat_map(|known| known.map.nodes());
        let mapped = mapped.map(|node| &node.address);
        let more = mapped.filter(|node| !self.first.contains(node));
        let mut failed = Vec::new();
        for node in self.first.iter().chain(more) {
            let why = match self.to(node).ask(0, Say::Which, deadline).await {
                Came::Said(Say::Map(replicas, map)) => match Map::decode(map) {
                    Some(map) if known.is_none_or(|known| known.map.epoch() < map.epoch()) => {
                        self.keep_those_of(&map);
                        let replicas = usize::from(replicas).clamp(1, map.nodes().len());
                        return Ok(Placed { map, replicas });
                    }
                    Some(_) => "it has no newer map".to_owned(),
                    None => "its map cannot be read".to_owned(),
                },
                Came::Said(_) => "it says what is no map".to_owned(),
                Came::NotAsked(why) | Came::Lost(why) => why,
            };
            failed.push((node.clone(), why));
        }
        Err(ClientError::Unreachable(failed))
    }

    /// Ends connections to what is no node any more.
    fn keep_those_of(&self, map: &Map) {
        let mut links = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        links.retain(|address, _| map.node(address).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_be_asked_is_the_owner_and_a_quorum_fits_the_nodes() {
        let map = Map::new(&["a:1", "b:1", "c:1", "d:1"]).expect("a map");
        let placed = Placed { map, replicas: 3 };
        for key in [b"one", b"two"] {
            let ranked = placed.ranked(key);
            let owner = placed.map.first(key);
            let owner = &placed.map.nodes()[owner].address;
            assert_eq!((&ranked[0], ranked.len()), (owner, 4));
        }
        let quorum = |ack, from| placed.quorum(Some(Quorum { ack, from }));
        assert_eq!(placed.quorum(None), Ok(Quorum { ack: 2, from: 3 }));
        assert!(quorum(1, 4).is_ok());
        for (ack, from) in [(0, 1), (2, 1), (1, 5)] {
            assert!(quorum(ack, from).is_err(), "{ack}/{from}");
        }
    }
}
