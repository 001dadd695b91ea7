//! What nodes say to each other, and whether it arrives.

use super::{CALM_MS, Event, Place, World};
use crate::layout::have_common;
use crate::simulation::world::events::{Message, Written, cell};
use crate::version::Version;

impl World {
    pub(super) fn is_cut(&self, one: Place, other: Place) -> bool {
        let mut cut = self.cut.iter();
        cut.any(|cut| *cut == (one, other) || *cut == (other, one))
    }

    pub(super) fn send_to(&mut self, from: Place, id: u16, message: Message) {
        if let Some(to) = self.place_of(from, id) {
            self.send(from, to, message);
        }
    }

    fn send(&mut self, from: Place, to: Place, message: Message) {
        let is_lost = from != to && self.now_ms < CALM_MS && self.rng.u8(..40) == 0;
        if is_lost || self.is_cut(from, to) {
            return;
        }
        let mut delay_ms = self.rng.u64(1..5);
        if self.now_ms < CALM_MS && self.rng.u8(..12) == 0 {
            delay_ms += self.rng.u64(0..600);
        }
        let epoch = self.epoch(from);
        let at = self.now_ms + delay_ms;
        self.at(
            at,
            Event::Arrive {
                from,
                to,
                epoch,
                message,
            },
        );
    }

    /// Whether a node does what another one asks it to.
    pub(super) fn is_heard(&self, from: Place, to: Place, epoch: u64) -> bool {
        let Some(layout) = &self.nodes[to].layout else {
            return false;
        };
        let id = self.nodes[from].id;
        let mut going = self.nodes[to].going.iter();
        let mut is_going = || going.any(|(node, until)| *node == id && self.now_ms < *until);
        have_common(epoch, layout.epoch()) && (layout.has(id) || is_going())
    }

    pub(super) fn arrive(&mut self, (from, to): (Place, Place), epoch: u64, message: Message) {
        if !self.nodes[to].is_up {
            return;
        }
        let is_request = matches!(
            message,
            Message::Read { .. } | Message::Write { .. } | Message::Hint { .. }
        );
        if is_request && !self.is_heard(from, to, epoch) {
            return;
        }
        let id_of_sender = self.nodes[from].id;
        match message {
            Message::Read { id, key } => {
                let cell = self.nodes[to].cells.get(&key).copied();
                self.send(to, from, Message::Cell { id, cell });
            }
            Message::Write { id, key, cell, .. } => {
                let newer = self.take(to, key, cell);
                let version = cell.0;
                self.send(to, from, Message::Done { id, version, newer });
            }
            Message::Hint { number, key, cell } => {
                self.take(to, key, cell);
                self.send(to, from, Message::Taken { number });
            }
            Message::Taken { number } => {
                self.nodes[to].hints.remove(&number);
            }
            Message::Cell { id, cell: found } => {
                let found = found.map(cell);
                self.coordinate(to, id, |coordinator, steps| {
                    coordinator.read(id_of_sender, found, steps);
                });
            }
            Message::Done { id, version, newer } => {
                self.coordinate(to, id, |coordinator, steps| {
                    coordinator.written(id_of_sender, version, newer, steps);
                });
            }
        }
    }

    /// A replica takes a cell, unless it has a newer one, which is told.
    pub(super) fn take(&mut self, place: Place, key: u8, cell: Written) -> Option<Version> {
        let wall_ms = self.wall_ms(place);
        let node = &mut self.nodes[place];
        let _ = node.clock.see(cell.0, wall_ms);
        match node.cells.get(&key) {
            Some(kept) if kept.0 > cell.0 => Some(kept.0),
            _ => {
                node.cells.insert(key, cell);
                None
            }
        }
    }

    pub(super) fn try_hints(&mut self) {
        for place in 0..self.nodes.len() {
            let node = &self.nodes[place];
            if !node.is_up {
                continue;
            }
            for (number, (to, key, cell)) in node.hints.clone() {
                self.send_to(place, to, Message::Hint { number, key, cell });
            }
        }
        let next = self.now_ms + 150;
        self.at(next, Event::Hints);
    }
}
