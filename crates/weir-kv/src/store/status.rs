//! What operators see of the store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use weir_gateway::service::{
    HintStatus, SLOT_PARTS, StoreChange, StoreNode, StoreStanding, StoreStatus,
};

use super::Store;
use crate::cluster::{Cluster, Repairs};
use crate::frame::{Moved, Standing};
use crate::layout::Layout;
use crate::placement::{Map, SLOTS, Slot};

/// What each node has of the slots, by the epoch of the map; once somebody has asked.
pub(super) type Shares = Mutex<Option<(u64, Arc<Vec<Share>>)>>;

/// What a node has of the slots.
#[derive(Debug, Default)]
pub(super) struct Share {
    first_of: usize,
    replica_of: usize,
    first_by_part: Vec<u16>,
}

impl Store {
    /// How the store is, as this node sees it.
    pub fn status(&self) -> StoreStatus {
        let layout = Layout::clone(&self.shared.layout());
        let map = &layout.now.map;
        let shares = self.shares(&layout);
        let nodes = map.nodes().iter().zip(&*shares);
        let nodes: Vec<StoreNode> = nodes
            .map(|(node, share)| StoreNode {
                address: node.address.to_string(),
                id: node.id,
                is_up: self.is_up(node.id),
                apart: self.apart(node.id),
                is_this: node.id == self.shared.me(),
                first_of: share.first_of,
                replica_of: share.replica_of,
                first_by_part: share.first_by_part.clone(),
                hints: self.hints(node.id),
            })
            .collect();
        let this = nodes.iter().find(|node| node.is_this);
        let standing = self.cluster.as_ref().map(Cluster::standing);
        StoreStatus {
            node: this.map_or_else(String::new, |this| this.address.clone()),
            standing: match standing.as_ref().map(|standing| standing.standing) {
                Some(Standing::Waits) => StoreStanding::Waits,
                Some(Standing::Left) => StoreStanding::Left,
                _ if self.shared.is_behind() => StoreStanding::Behind,
                _ => StoreStanding::Member,
            },
            change: standing.and_then(|standing| change(&layout, &standing.moved)),
            epoch: map.epoch(),
            replicas: layout.now.replicas,
            slots: SLOTS,
            nodes,
            failing: self.shared.engine.failing(),
            operations: self.shared.tally.read(),
            repair: self.repairs.as_ref().map(Repairs::status),
        }
    }

    /// What nodes have, which is the same until the next change of them.
    fn shares(&self, layout: &Layout) -> Arc<Vec<Share>> {
        let mut known = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((epoch, shares)) if *epoch == layout.now.map.epoch() => Arc::clone(shares),
            _ => {
                let shares = Arc::new(shares(&layout.now.map, layout.now.replicas));
                *known = Some((layout.now.map.epoch(), Arc::clone(&shares)));
                shares
            }
        }
    }

    /// Whether a node answers.
    pub(super) fn is_up(&self, node: u16) -> bool {
        let others = self.cluster.as_ref();
        node == self.shared.me() || others.is_some_and(|cluster| cluster.is_up(node))
    }

    fn apart(&self, node: u16) -> Option<String> {
        self.cluster.as_ref()?.apart(node)
    }

    fn hints(&self, node: u16) -> Option<HintStatus> {
        let counts = self.cluster.as_ref()?.hint_counts(node)?;
        Some(HintStatus {
            waiting: counts.waiting.load(Ordering::Relaxed),
            taken: counts.taken.load(Ordering::Relaxed),
            left_out: counts.left_out.load(Ordering::Relaxed),
        })
    }
}

/// The map that is to follow, if there is one.
fn change(layout: &Layout, moved: &Moved) -> Option<StoreChange> {
    let next = &layout.next.as_ref()?.placement;
    let nodes = next.map.nodes().iter();
    Some(StoreChange {
        epoch: next.map.epoch(),
        replicas: next.replicas,
        nodes: nodes.map(|node| node.address.to_string()).collect(),
        has_begun: moved.has_begun,
        is_done: moved.is_done,
        looked_at: moved.looked_at,
        copied: moved.copied,
        bytes: moved.bytes,
        trouble: moved.trouble.clone(),
    })
}

/// What each node has, in the order of the map.
fn shares(map: &Map, replicas: usize) -> Vec<Share> {
    let nothing = || Share {
        first_by_part: vec![0; SLOT_PARTS],
        ..Share::default()
    };
    let mut shares: Vec<Share> = map.nodes().iter().map(|_| nothing()).collect();
    for slot in Slot::all() {
        let ranked = map.ranked(slot);
        for &node in ranked.iter().take(replicas) {
            shares[usize::from(node)].replica_of += 1;
        }
        let first = &mut shares[usize::from(ranked[0])];
        first.first_of += 1;
        first.first_by_part[slot.number() * SLOT_PARTS / SLOTS] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_in_the_share_of_its_replicas() {
        let map = Map::new(&["a", "b", "c", "d"]).expect("a map");
        let shares = shares(&map, 3);
        for share in &shares {
            assert_eq!((share.first_of, share.replica_of), (4096, 3 * 4096));
        }
        for part in 0..SLOT_PARTS {
            let counts = shares.iter().map(|share| share.first_by_part[part]);
            assert_eq!(usize::from(counts.sum::<u16>()), SLOTS / SLOT_PARTS);
        }
        let one = Map::new(&["a"]).expect("a map");
        assert_eq!(super::shares(&one, 1)[0].first_of, SLOTS);
    }
}
