//! Nodes that come and go.

use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::{DEADLINE, Hub};
use crate::cluster::neighbours::Come;
use crate::cluster::peer::Peer;
use crate::frame::Say;

impl Hub {
    /// From here on, some nodes are asked that were not, and others only for what has begun. Without a generation, the layout is to follow.
    pub(super) fn change(&mut self, come: Vec<Come>, go: Vec<u16>, generation: Option<usize>) {
        for Come {
            node,
            reach,
            keeper,
        } in come
        {
            let id = node.id;
            let peer = Peer::start(
                (node, reach),
                &self.shared,
                &self.secret,
                self.events.clone(),
            );
            self.peers.insert(id, peer);
            self.keepers.insert(id, keeper);
            self.going.retain(|(_, going)| *going != id);
        }
        let until = Instant::now() + DEADLINE;
        for id in go {
            self.keepers.remove(&id);
            self.going.push((until, id));
        }
        let Some(generation) = generation else {
            return;
        };
        self.settles_at = Some((self.next_id, generation));
        self.settle();
        // Nobody waits for the answers: that the others hear by which map this node goes is what this is for.
        for peer in self.peers.values() {
            self.next_id += 1;
            peer.send(self.next_id, Say::Ping);
        }
    }

    /// Leaves nodes that have gone, once nothing is awaited of them.
    pub(super) fn leave_those_that_go(&mut self) {
        let now = Instant::now();
        for (_, id) in self.going.extract_if(.., |(until, _)| *until <= now) {
            self.peers.remove(&id);
            self.clocks.forget(id);
        }
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
