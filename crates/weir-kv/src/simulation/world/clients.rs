//! What clients do: when they ask for what, and what they are answered.

use super::events::{Event, cell, written};
use super::{CALM_MS, DEADLINE_MS, END_MS, HINTS_MS, NODES, OPERATIONS, Seen, World};
use crate::condition::{Condition, Tags};
use crate::coordinator::{Answer, Coordinator, Operation, Quorum, Replicas};
use crate::version::Version;

impl World {
    /// Chooses when clients ask and what goes wrong.
    pub(super) fn plan(&mut self) {
        for _ in 0..OPERATIONS {
            let at = self.rng.u64(0..CALM_MS);
            self.at(at, Event::Ask);
        }
        for node in 1..=NODES {
            self.at(HINTS_MS, Event::Hints(node));
        }
        for _ in 0..self.faults.crashes {
            let (node, at) = (self.rng.u16(1..=NODES), self.rng.u64(0..CALM_MS));
            let back = at + self.rng.u64(10..1_500);
            self.at(at, Event::Crash(node));
            self.at(back, Event::Start(node));
        }
        for _ in 0..self.faults.cuts {
            let (one, other) = (self.rng.u16(1..=NODES), self.rng.u16(1..=NODES));
            let at = self.rng.u64(0..CALM_MS);
            let back = at + self.rng.u64(10..1_500);
            self.at(at, Event::Cut(one, other));
            self.at(back, Event::Mend(one, other));
        }
        self.at(CALM_MS, Event::Calm);
        if self.faults.is_read {
            self.at(END_MS - 4_000, Event::Settle);
        }
    }

    /// A client asks a node: 4 a write, 3 a write that reads first, 2 one over the value that was seen last, others a read.
    pub(super) fn ask(&mut self, id: u16, key: u8, kind: u8) {
        self.told.asked += 1;
        if !self.node(id).is_up {
            return;
        }
        let number = self.told.asked;
        let wall_ms = self.wall_ms(id);
        let version = self.node(id).clock.tick(wall_ms);
        let over = self.newest_seen(key);
        let operation = match kind {
            4 => Operation::Put(cell((version, number))),
            3 => Operation::PutBehind(cell((version, number))),
            2 => {
                let condition = match over {
                    (_, 0) => Condition {
                        matches: None,
                        matches_none: Some(Tags::Any),
                    },
                    (version, _) => Condition {
                        matches: Some(Tags::These(vec![version])),
                        matches_none: None,
                    },
                };
                Operation::PutIf(cell((version, number)), condition, wall_ms)
            }
            _ => Operation::Get,
        };
        let is_settling = self.now_ms > CALM_MS;
        let ack = if is_settling {
            usize::from(NODES)
        } else {
            Quorum::majority(usize::from(NODES)).ack
        };
        self.seen.insert(
            number,
            Seen {
                key,
                is_write: kind > 1,
                over: (kind == 2).then_some(over),
                found: None,
                began_ms: self.now_ms,
                answered: None,
            },
        );
        let all: Vec<u16> = (1..=NODES).collect();
        let up: Vec<u16> = all
            .iter()
            .copied()
            .filter(|&other| {
                let is_up = other == id
                    || (self.nodes[usize::from(other) - 1].is_up && !self.is_cut(id, other));
                is_up != (other != id && self.rng.f64() < self.faults.misjudged)
            })
            .collect();
        let mut steps = Vec::new();
        let is_up = |other| up.contains(&other);
        let coordinator = Coordinator::begin(operation, Replicas::new(all, ack), is_up, &mut steps);
        let run = self.node(id).run;
        self.node(id).under_way.insert(number, (key, coordinator));
        let deadline = self.now_ms + DEADLINE_MS;
        self.at(
            deadline,
            Event::Deadline {
                node: id,
                run,
                id: number,
            },
        );
        self.carry_out(id, number, key, steps);
    }

    /// The newest version of a key that a client was told of, and the number of the operation that wrote it.
    fn newest_seen(&self, key: u8) -> (Version, u64) {
        let seen = self.seen.iter().filter(|(_, seen)| seen.key == key);
        let told = seen.filter_map(|(id, seen)| {
            let (_, version) = seen.answered?;
            Some((version, seen.found.unwrap_or(*id)))
        });
        told.max().unwrap_or_default()
    }

    pub(super) fn answer(&mut self, id: u64, answer: &Answer) {
        self.in_order.retain(|_, (_, number)| *number != id);
        let mut found = None;
        let version = match answer {
            Answer::TooFew => return,
            Answer::Conflict => {
                self.told.answered += 1;
                return;
            }
            Answer::Written(version) => *version,
            Answer::Found(None) | Answer::Unmet(None) => {
                found = Some(0);
                Version::default()
            }
            Answer::Found(Some(cell)) | Answer::Unmet(Some(cell)) => {
                let (version, number) = written(cell);
                found = Some(number);
                let is_sound = self.seen.get(&number).is_some_and(|seen| seen.is_write);
                if !is_sound {
                    self.told
                        .wrong
                        .push(format!("{id} found {number}, which nobody wrote"));
                }
                version
            }
        };
        let now_ms = self.now_ms;
        let seen = self.seen.get_mut(&id).expect("somebody asked");
        if seen.answered.is_some() {
            self.told.wrong.push(format!("{id} was answered twice"));
        }
        // A write that was not made is a read.
        seen.is_write = matches!(answer, Answer::Written(_));
        seen.found = found;
        seen.answered = Some((now_ms, version));
        self.told.answered += 1;
    }
}
