//! The cluster: nodes, links, clients, and a queue of what happens when.

mod checks;
mod clients;
pub(super) mod events;
mod history;
mod order;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fastrand::Rng;

use self::events::{Event, Message, Written, cell, written};
use super::faults::{Asks, Faults};

use crate::cell::Cell;
use crate::coordinator::{Coordinator, Step};
use crate::version::{Clock, Version};

/// Nodes are numbered from 1.
const NODES: u16 = 3;
const KEYS: u8 = 3;
const OPERATIONS: u64 = 300;
/// An operation that takes longer is given up.
const DEADLINE_MS: u64 = 400;
/// How often kept hints are tried.
const HINTS_MS: u64 = 150;
/// Faults end at this time, and the cluster gets well.
const CALM_MS: u64 = 6_000;
const END_MS: u64 = 20_000;
/// Where wall clocks begin.
const EPOCH_MS: u64 = 1_000_000;

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// Writes that took a newer version.
    pub(super) advanced: u64,
    /// Writes with a condition that were made.
    pub(super) over: u64,
    /// Of all keys: the histories, those that are not linearizable, and those that are not if all conditions have to hold.
    pub(super) histories: [u64; 3],
    pub(super) wrong: Vec<String>,
    pub(super) trace: Vec<String>,
}

/// A node. What is kept on its disk outlives a crash.
struct Node {
    is_up: bool,
    skew_ms: i64,
    // On the disk.
    cells: BTreeMap<u8, Written>,
    hints: BTreeMap<u64, (u16, u8, Written)>,
    run: u16,
    // In memory.
    clock: Clock,
    under_way: BTreeMap<u64, (u8, Coordinator)>,
}

/// An operation as its client saw it.
#[derive(Debug, Clone)]
struct Seen {
    key: u8,
    is_write: bool,
    /// The version over which it is written, and what that was written by; for a write with a condition. Both are the lowest where
    /// there must be none.
    over: Option<(Version, u64)>,
    /// What it found: the number of the operation that wrote it, or 0.
    found: Option<u64>,
    began_ms: u64,
    /// When it was answered, and with what version.
    answered: Option<(u64, Version)>,
}

pub(super) struct World {
    rng: Rng,
    faults: Faults,
    now_ms: u64,
    order: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    nodes: Vec<Node>,
    cut: Vec<(u16, u16)>,
    seen: BTreeMap<u64, Seen>,
    /// The write of a key that is under way in order.
    in_order: BTreeMap<u8, (u16, u64)>,
    told: Told,
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        let mut rng = Rng::with_seed(seed);
        let nodes = (1..=NODES).map(|id| Node {
            is_up: true,
            skew_ms: rng.i64(-faults.skew_ms..=faults.skew_ms),
            cells: BTreeMap::new(),
            hints: BTreeMap::new(),
            run: 1,
            clock: Clock::new(id, 1, Version::default()),
            under_way: BTreeMap::new(),
        });
        let nodes = nodes.collect();
        let mut world = Self {
            rng,
            faults,
            now_ms: 0,
            order: 0,
            queue: BinaryHeap::new(),
            nodes,
            cut: Vec::new(),
            seen: BTreeMap::new(),
            in_order: BTreeMap::new(),
            told: Told::default(),
        };
        world.plan();
        world
    }

    pub(super) fn run(mut self) -> Told {
        while let Some(Reverse((at, _, event))) = self.queue.pop() {
            if at > END_MS {
                break;
            }
            self.now_ms = at;
            self.told.trace.push(format!("{at} {event:?}"));
            self.happen(event);
        }
        self.check_end();
        self.check_order();
        self.check_conditions();
        self.check_histories();
        self.told
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((at_ms, self.order, event)));
    }

    fn node(&mut self, id: u16) -> &mut Node {
        &mut self.nodes[usize::from(id) - 1]
    }

    /// What the wall clock of a node says.
    fn wall_ms(&self, id: u16) -> u64 {
        let skew_ms = self.nodes[usize::from(id) - 1].skew_ms;
        (EPOCH_MS + self.now_ms).saturating_add_signed(skew_ms)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask => {
                let node = self.rng.u16(1..=NODES);
                let key = self.rng.u8(..KEYS);
                let drawn = self.rng.u8(..5);
                let kind = match (self.faults.asks, drawn) {
                    // A write that was refused may be on some replicas, until somebody reads or repairs.
                    (Asks::All, 2) if !self.faults.is_read => 0,
                    (Asks::All, kind) | (_, kind @ ..2) => kind,
                    (Asks::ReadingFirst, _) => 3,
                    (Asks::Plain, _) | (Asks::InOrder, 4) => 4,
                    (Asks::Conditions | Asks::InOrder | Asks::ConditionsInOrder, _) => 2,
                };
                let is_in_order =
                    matches!(self.faults.asks, Asks::InOrder | Asks::ConditionsInOrder);
                if kind < 2 || !is_in_order {
                    self.ask(node, key, kind);
                } else if let Some(node) = self.whose_turn(node, key) {
                    self.ask(node, key, kind);
                    self.note_in_order(node, key);
                }
            }
            Event::Arrive { from, to, message } => self.arrive(from, to, message),
            Event::Deadline { node, run, id } => {
                if self.node(node).run == run {
                    self.coordinate(node, id, Coordinator::give_up);
                }
            }
            Event::Hints(node) => {
                self.try_hints(node);
                let next = self.now_ms + HINTS_MS;
                self.at(next, Event::Hints(node));
            }
            Event::Crash(node) => self.node(node).is_up = false,
            Event::Start(node) => self.start(node),
            Event::Cut(one, other) => self.cut.push((one, other)),
            Event::Mend(one, other) => {
                let cut = self.cut.iter().position(|cut| *cut == (one, other));
                cut.map(|index| self.cut.swap_remove(index));
            }
            Event::Calm => {
                self.faults = Faults {
                    skew_ms: self.faults.skew_ms,
                    ..Faults::none()
                };
                self.cut.clear();
                for node in 1..=NODES {
                    self.start(node);
                }
            }
            Event::Settle => {
                for key in 0..KEYS {
                    self.ask(1, key, 0);
                }
            }
        }
    }

    /// As after a crash: what was in memory is gone.
    fn start(&mut self, id: u16) {
        let node = self.node(id);
        if node.is_up {
            return;
        }
        let kept = node.cells.values().map(|(version, _)| *version).max();
        node.run += 1;
        node.is_up = true;
        node.under_way.clear();
        self.in_order.retain(|_, (node, _)| *node != id);
        let node = self.node(id);
        node.clock = Clock::new(id, node.run, kept.unwrap_or_default());
        // The wall clock is set, or is not.
        let skew_ms = self.faults.skew_ms;
        let skew_ms = self.rng.i64(-skew_ms..=skew_ms);
        self.node(id).skew_ms = skew_ms;
    }

    fn coordinate(
        &mut self,
        node: u16,
        id: u64,
        what: impl FnOnce(&mut Coordinator, &mut Vec<Step>),
    ) {
        let under_way = &mut self.node(node).under_way;
        let Some((key, coordinator)) = under_way.get_mut(&id) else {
            return;
        };
        let key = *key;
        let mut steps = Vec::new();
        what(coordinator, &mut steps);
        if coordinator.is_over() {
            under_way.remove(&id);
        }
        self.carry_out(node, id, key, steps);
    }

    fn carry_out(&mut self, node: u16, id: u64, key: u8, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Read(to) => self.send(node, to, Message::Read { id, key }),
                Step::Write(to, cell) => self.send_cell(node, to, (id, key), &cell, None),
                Step::WriteOver(to, cell, over) => {
                    self.send_cell(node, to, (id, key), &cell, Some(over));
                }
                Step::Hint(to, cell) => {
                    self.order += 1;
                    let number = self.order;
                    let hint = (to, key, written(&cell));
                    self.node(node).hints.insert(number, hint);
                }
                Step::Behind(version) => {
                    self.told.advanced += 1;
                    let wall_ms = self.wall_ms(node);
                    let clock = &mut self.node(node).clock;
                    let _ = clock.see(version, wall_ms);
                    let version = clock.tick(wall_ms);
                    self.coordinate(node, id, |coordinator, steps| {
                        coordinator.behind(version, steps);
                    });
                }
                Step::Answer(answer) => self.answer(id, &answer),
            }
        }
    }

    fn send_cell(
        &mut self,
        node: u16,
        to: u16,
        (id, key): (u64, u8),
        cell: &Cell,
        over: Option<Version>,
    ) {
        let cell = written(cell);
        self.send(
            node,
            to,
            Message::Write {
                id,
                key,
                cell,
                over,
            },
        );
    }

    fn is_cut(&self, one: u16, other: u16) -> bool {
        let mut cut = self.cut.iter();
        cut.any(|cut| *cut == (one, other) || *cut == (other, one))
    }

    fn send(&mut self, from: u16, to: u16, message: Message) {
        let is_lost = from != to && self.rng.f64() < self.faults.lost;
        if is_lost || self.is_cut(from, to) {
            return;
        }
        let mut delay_ms = self.rng.u64(1..5);
        if self.rng.f64() < self.faults.slow {
            delay_ms += self.rng.u64(0..2_000);
        }
        let at = self.now_ms + delay_ms;
        self.at(at, Event::Arrive { from, to, message });
    }

    fn arrive(&mut self, from: u16, to: u16, message: Message) {
        if !self.node(to).is_up {
            return;
        }
        match message {
            Message::Read { id, key } => {
                let cell = self.node(to).cells.get(&key).copied();
                self.send(to, from, Message::Cell { id, cell });
            }
            Message::Write {
                id,
                key,
                cell,
                over,
            } => {
                let newer = self.take(to, key, cell, over);
                let version = cell.0;
                self.send(to, from, Message::Done { id, version, newer });
            }
            Message::Hint { number, key, cell } => {
                self.take(to, key, cell, None);
                self.send(to, from, Message::Taken { number });
            }
            Message::Taken { number } => {
                self.node(to).hints.remove(&number);
            }
            Message::Cell { id, cell: found } => {
                let found = found.map(cell);
                self.coordinate(to, id, |coordinator, steps| {
                    coordinator.read(from, found, steps);
                });
            }
            Message::Done { id, version, newer } => {
                self.coordinate(to, id, |coordinator, steps| {
                    coordinator.written(from, version, newer, steps);
                });
            }
        }
    }

    /// A replica takes a cell, unless it has a newer one than that, or than the one it goes over, which is told.
    fn take(&mut self, id: u16, key: u8, cell: Written, over: Option<Version>) -> Option<Version> {
        let most = over.unwrap_or(cell.0);
        let wall_ms = self.wall_ms(id);
        let node = self.node(id);
        let _ = node.clock.see(cell.0, wall_ms);
        match node.cells.get(&key) {
            Some(kept) if kept.0 > most => Some(kept.0),
            _ => {
                node.cells.insert(key, cell);
                None
            }
        }
    }

    fn try_hints(&mut self, id: u16) {
        if !self.node(id).is_up {
            return;
        }
        for (number, (to, key, cell)) in self.node(id).hints.clone() {
            self.send(id, to, Message::Hint { number, key, cell });
        }
    }
}
