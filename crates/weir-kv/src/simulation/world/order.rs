//! Whose turn it is to write a key, as nodes see it.

use super::{NODES, World};

impl World {
    /// The node that makes a write of a key, if the one that was asked and that one itself agree on it, and it has no other one under
    /// way. The first replica is another one for each key.
    pub(super) fn whose_turn(&mut self, asked: u16, key: u8) -> Option<u16> {
        let is_up = self.nodes[usize::from(asked) - 1].is_up;
        let node = Some(self.first_up(asked, key)).filter(|_| is_up)?;
        let is_agreed = node == asked || self.first_up(node, key) == node;
        let is_free = self
            .in_order
            .get(&key)
            .is_none_or(|(other, _)| *other != node);
        (is_agreed && is_free).then_some(node)
    }

    /// The operation that was asked for last is this write.
    pub(super) fn note_in_order(&mut self, node: u16, key: u8) {
        let number = self.told.asked;
        if self.node(node).under_way.contains_key(&number) {
            self.in_order.insert(key, (node, number));
        }
    }

    fn first_up(&mut self, from: u16, key: u8) -> u16 {
        let first = (0..NODES).map(|rank| (u16::from(key) + rank) % NODES + 1);
        let ranked: Vec<u16> = first.collect();
        let sees = |this: &mut Self, other: u16| {
            let reaches = this.nodes[usize::from(other) - 1].is_up && !this.is_cut(from, other);
            reaches != (this.rng.f64() < this.faults.misjudged)
        };
        let first = ranked
            .into_iter()
            .find(|&other| other == from || sees(self, other));
        first.unwrap_or(from)
    }
}
