//! What clients ask, and what they are answered.

use super::{DEADLINE_MS, Event, Place, Seen, World};
use crate::coordinator::{Answer, Coordinator, Operation, Quorum};
use crate::simulation::world::events::{cell, written};
use crate::version::Version;

impl World {
    /// A client asks a node: 3 a write, 2 one that reads first, others a read; for all replicas if it is to `settle`.
    pub(super) fn ask(&mut self, place: Place, key: u8, kind: u8, settles: bool) {
        let node = &self.nodes[place];
        let Some(layout) = node.layout.clone().filter(|_| node.is_up) else {
            return;
        };
        // One that is lost does not know it.
        if layout.node_at(&node.name).is_none() {
            return;
        }
        self.order += 1;
        let (number, wall_ms) = (self.order, self.wall_ms(place));
        let version = self.nodes[place].clock.tick(wall_ms);
        let operation = match kind {
            3 => Operation::Put(cell((version, number))),
            2 => Operation::PutBehind(cell((version, number))),
            _ => Operation::Get,
        };
        let mut quorum = Quorum::majority(layout.now.replicas);
        if settles {
            quorum.ack = quorum.from;
        }
        let replicas = layout.replicas(&[key], quorum);
        self.seen.insert(
            number,
            Seen {
                key,
                is_write: kind > 1,
                began_ms: self.now_ms,
                answered: None,
            },
        );
        let up: Vec<u16> = replicas
            .nodes
            .iter()
            .copied()
            .filter(|id| {
                let other = self.place_of(place, *id);
                let is_up = other.is_some_and(|other| {
                    other == place || (self.nodes[other].is_up && !self.is_cut(place, other))
                });
                is_up != (self.rng.u8(..50) == 0 && !settles)
            })
            .collect();
        let mut steps = Vec::new();
        let coordinator =
            Coordinator::begin(operation, replicas, |id| up.contains(&id), &mut steps);
        let node = &mut self.nodes[place];
        let run = node.run;
        node.under_way.insert(number, (key, coordinator));
        let deadline = self.now_ms + DEADLINE_MS;
        self.at(deadline, Event::Deadline(place, run, number));
        self.carry_out(place, number, key, steps);
    }

    pub(super) fn answer(&mut self, id: u64, answer: &Answer) {
        let version = match answer {
            Answer::Written(version) => *version,
            Answer::Found(None) => Version::default(),
            Answer::Found(Some(cell)) => written(cell).0,
            _ => return,
        };
        let seen = self.seen.get_mut(&id).expect("somebody asked");
        seen.answered = Some((self.now_ms, version));
        self.told.answered += 1;
    }
}
