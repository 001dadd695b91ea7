//! Nodes that come and go.

use std::sync::atomic::Ordering;

use super::Hub;
use crate::cluster::neighbours::Come;
use crate::cluster::peer::Peer;

impl Hub {
    /// From here on, some nodes are asked that were not, and others are not any more.
    pub(super) fn change(&mut self, come: Vec<Come>, go: &[u16], generation: usize) {
        for Come {
            node,
            is_up,
            keeper,
        } in come
        {
            let id = node.id;
            let peer = Peer::start(
                (node, is_up),
                &self.shared,
                &self.secret,
                self.events.clone(),
            );
            self.peers.insert(id, peer);
            self.keepers.insert(id, keeper);
        }
        for id in go {
            self.peers.remove(id);
            self.keepers.remove(id);
            self.clocks.forget(*id);
        }
        self.settles_at = Some((self.next_id, generation));
        self.settle();
    }

    /// Whether all is over that began before nodes came or went.
    pub(super) fn settle(&mut self) {
        let Some((last, generation)) = self.settles_at else {
            return;
        };
        if self.under_way.keys().all(|id| *id > last) {
            self.settles_at = None;
            self.shared.settled.store(generation, Ordering::SeqCst);
        }
    }
}
