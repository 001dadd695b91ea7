//! The same while nodes come and go: an operator lets them join, leave and take the place of each other, changes his mind, and tells a node
//! what he decided a while ago; nodes crash in between, links are cut, and one that was given up as lost comes back.
//!
//! What must hold is what clients see, as before; and in the end, that all replicas of a key by the last map are the same.

mod operator;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fastrand::Rng;

use super::seeds;
use super::world::events::{Message, Written, cell, written};
use crate::coordinator::{Answer, Coordinator, Operation, Quorum, Step};
use crate::frame::{Change, Moved};
use crate::layout::{Layout, have_common};
use crate::placement::{Map, Slot};
use crate::version::{Clock, Version};

const KEYS: u8 = 8;
const OPERATIONS: u64 = 600;
const DEADLINE_MS: u64 = 300;
const CALM_MS: u64 = 8_000;
const END_MS: u64 = 20_000;
const EPOCH_MS: u64 = 1_000_000;
const SKEW_MS: i64 = 150;

/// Nodes are told apart by their place in the list of all that there ever were.
type Place = usize;

struct Node {
    name: Box<str>,
    id: u16,
    is_up: bool,
    /// It was given up as lost: it may come back, and is no node any more.
    is_lost: bool,
    // On the disk.
    layout: Option<Layout>,
    cells: BTreeMap<u8, Written>,
    hints: BTreeMap<u64, (u16, u8, Written)>,
    run: u16,
    // In memory.
    clock: Clock,
    under_way: BTreeMap<u64, (u8, Coordinator)>,
    /// What has a higher number began by the layout of now.
    settles_at: u64,
    moved: Moved,
    /// The next key to be taken.
    cursor: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Ask,
    Arrive {
        from: Place,
        to: Place,
        epoch: u64,
        message: Message,
    },
    Deadline(Place, u16, u64),
    Hints,
    Crash(Place),
    Start(Place),
    Cut(Place, Place),
    Mend(Place, Place),
    /// The operator looks at the nodes.
    Look,
    /// A node hears what he has decided.
    Told(Place, Change),
    /// A node takes the next key.
    Take(Place, u16),
    Calm,
    Settle,
}

#[derive(Debug)]
struct Seen {
    key: u8,
    is_write: bool,
    began_ms: u64,
    answered: Option<(u64, Version)>,
}

/// What came of a run.
#[derive(Debug, Default)]
struct Told {
    answered: u64,
    committed: u64,
    aborted: u64,
    wrong: Vec<String>,
}

struct World {
    rng: Rng,
    now_ms: u64,
    order: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    nodes: Vec<Node>,
    cut: Vec<(Place, Place)>,
    seen: BTreeMap<u64, Seen>,
    /// What the operator wants, and whether he wants it back.
    goal: Option<(Layout, bool)>,
    /// Breaks a rule, to see that it is found.
    broken: Broken,
    told: Told,
}

/// A rule that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Data moves while something is under way that began before.
    Settling,
    /// The next map holds before data has moved.
    Moving,
}

impl World {
    fn new(seed: u64, broken: Broken) -> Self {
        let mut world = Self {
            rng: Rng::with_seed(seed),
            now_ms: 0,
            order: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            nodes: Vec::new(),
            cut: Vec::new(),
            seen: BTreeMap::new(),
            goal: None,
            broken,
            told: Told::default(),
        };
        let count = world.rng.usize(1..=4);
        let names: Vec<String> = (0..count).map(|place| format!("n{place}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let layout = Layout::first(Map::new(&names).expect("a map"), count.min(3));
        for _ in 0..count {
            world.add(Some(layout.clone()));
        }
        world.plan();
        world
    }

    /// A node more. Without a layout, it waits.
    fn add(&mut self, layout: Option<Layout>) -> Place {
        let name: Box<str> = format!("n{}", self.nodes.len()).into();
        let node = layout.as_ref().and_then(|layout| layout.node_at(&name));
        let id = node.map_or(0, |node| node.id);
        self.nodes.push(Node {
            name,
            id,
            is_up: true,
            is_lost: false,
            layout,
            cells: BTreeMap::new(),
            hints: BTreeMap::new(),
            run: 1,
            clock: Clock::new(id, 1, Version::default()),
            under_way: BTreeMap::new(),
            settles_at: 0,
            moved: Moved::default(),
            cursor: 0,
        });
        self.nodes.len() - 1
    }

    fn plan(&mut self) {
        for _ in 0..OPERATIONS {
            let at = self.rng.u64(0..CALM_MS);
            self.at(at, Event::Ask);
        }
        for _ in 0..self.rng.u64(0..8) {
            let at = self.rng.u64(0..CALM_MS);
            // Whoever is there then.
            let place = self.rng.usize(0..6);
            self.at(at, Event::Crash(place));
            let back = at + self.rng.u64(10..1_000);
            self.at(back, Event::Start(place));
        }
        for _ in 0..self.rng.u64(0..8) {
            let (one, other) = (self.rng.usize(0..6), self.rng.usize(0..6));
            let at = self.rng.u64(0..CALM_MS);
            self.at(at, Event::Cut(one, other));
            let back = at + self.rng.u64(10..1_000);
            self.at(back, Event::Mend(one, other));
        }
        self.at(100, Event::Hints);
        self.at(200, Event::Look);
        self.at(CALM_MS, Event::Calm);
        self.at(END_MS - 4_000, Event::Settle);
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.order += 1;
        self.events.insert(self.order, event);
        self.queue.push(Reverse((at_ms, self.order)));
    }

    fn run(mut self) -> Told {
        while let Some(Reverse((at, order))) = self.queue.pop() {
            if at > END_MS {
                break;
            }
            self.now_ms = at;
            let event = self.events.remove(&order).expect("it is to happen");
            self.happen(event);
        }
        self.check_order();
        self.check_end();
        self.told
    }

    fn wall_ms(&self, place: Place) -> u64 {
        let skew_ms = (place as i64 * 97) % (2 * SKEW_MS) - SKEW_MS;
        (EPOCH_MS + self.now_ms).saturating_add_signed(skew_ms)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask => {
                let place = self.rng.usize(..self.nodes.len());
                let (key, kind) = (self.rng.u8(..KEYS), self.rng.u8(..4));
                self.ask(place, key, kind, false);
            }
            Event::Arrive {
                from,
                to,
                epoch,
                message,
            } => self.arrive((from, to), epoch, message),
            Event::Deadline(place, run, id) => {
                if self.nodes[place].run == run {
                    self.coordinate(place, id, Coordinator::give_up);
                }
            }
            Event::Hints => self.try_hints(),
            Event::Crash(place) => {
                if let Some(node) = self.nodes.get_mut(place) {
                    node.is_up = false;
                }
            }
            Event::Start(place) => self.start(place),
            Event::Cut(one, other) => self.cut.push((one, other)),
            Event::Mend(one, other) => {
                let cut = self.cut.iter().position(|cut| *cut == (one, other));
                cut.map(|at| self.cut.swap_remove(at));
            }
            Event::Look => self.look(),
            Event::Told(place, change) => self.hear(place, &change),
            Event::Take(place, run) => self.take_next(place, run),
            Event::Calm => {
                self.cut.clear();
                for place in 0..self.nodes.len() {
                    self.start(place);
                }
            }
            Event::Settle => {
                for key in 0..KEYS {
                    let members = (0..self.nodes.len()).find(|place| self.is_member(*place));
                    let member = members.expect("somebody is there");
                    self.ask(member, key, 0, true);
                }
            }
        }
    }

    fn is_member(&self, place: Place) -> bool {
        let node = &self.nodes[place];
        let layout = node.layout.as_ref();
        let is_there = layout.is_some_and(|layout| layout.node_at(&node.name).is_some());
        node.is_up && !node.is_lost && is_there
    }

    fn start(&mut self, place: Place) {
        let Some(node) = self.nodes.get_mut(place) else {
            return;
        };
        if node.is_up {
            return;
        }
        let kept = node.cells.values().map(|(version, _)| *version).max();
        node.is_up = true;
        node.run += 1;
        node.under_way.clear();
        node.moved = Moved::default();
        node.clock = Clock::new(node.id, node.run, kept.unwrap_or_default());
    }

    fn epoch(&self, place: Place) -> u64 {
        self.nodes[place].layout.as_ref().map_or(0, Layout::epoch)
    }

    /// A client asks a node: 3 a write, 2 one that reads first, others a read; for all replicas if it is to `settle`.
    fn ask(&mut self, place: Place, key: u8, kind: u8, settles: bool) {
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

    /// Where a node with this number is, as another one knows.
    fn place_of(&self, place: Place, id: u16) -> Option<Place> {
        let node = self.nodes[place].layout.as_ref()?.node(id)?;
        let mut nodes = self.nodes.iter();
        nodes.position(|other| other.name == node.address)
    }

    fn coordinate(
        &mut self,
        place: Place,
        id: u64,
        what: impl FnOnce(&mut Coordinator, &mut Vec<Step>),
    ) {
        let under_way = &mut self.nodes[place].under_way;
        let Some((key, coordinator)) = under_way.get_mut(&id) else {
            return;
        };
        let (key, mut steps) = (*key, Vec::new());
        what(coordinator, &mut steps);
        if coordinator.is_over() {
            under_way.remove(&id);
        }
        self.carry_out(place, id, key, steps);
    }

    fn carry_out(&mut self, place: Place, id: u64, key: u8, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Read(to) => self.send_to(place, to, Message::Read { id, key }),
                Step::Write(to, cell) => {
                    let (cell, over) = (written(&cell), None);
                    let message = Message::Write {
                        id,
                        key,
                        cell,
                        over,
                    };
                    self.send_to(place, to, message);
                }
                Step::WriteOver(..) => unreachable!("there are no conditions here"),
                Step::Hint(to, cell) => {
                    self.order += 1;
                    let hint = (to, key, written(&cell));
                    self.nodes[place].hints.insert(self.order, hint);
                }
                Step::Behind(version) => {
                    let wall_ms = self.wall_ms(place);
                    let clock = &mut self.nodes[place].clock;
                    let _ = clock.see(version, wall_ms);
                    let version = clock.tick(wall_ms);
                    self.coordinate(place, id, |coordinator, steps| {
                        coordinator.behind(version, steps);
                    });
                }
                Step::Answer(answer) => self.answer(id, &answer),
            }
        }
    }

    fn answer(&mut self, id: u64, answer: &Answer) {
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

    fn is_cut(&self, one: Place, other: Place) -> bool {
        let mut cut = self.cut.iter();
        cut.any(|cut| *cut == (one, other) || *cut == (other, one))
    }

    fn send_to(&mut self, from: Place, id: u16, message: Message) {
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
    fn is_heard(&self, from: Place, to: Place, epoch: u64) -> bool {
        let Some(layout) = &self.nodes[to].layout else {
            return false;
        };
        let gone = layout.next.as_ref().map(|next| &next.gone[..]);
        let is_gone = gone.is_some_and(|gone| gone.contains(&self.nodes[from].id));
        have_common(epoch, layout.epoch()) && !is_gone
    }

    fn arrive(&mut self, (from, to): (Place, Place), epoch: u64, message: Message) {
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
    fn take(&mut self, place: Place, key: u8, cell: Written) -> Option<Version> {
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

    fn try_hints(&mut self) {
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

    /// Each operation against all that were answered before it began.
    fn check_order(&mut self) {
        for (later_id, later) in &self.seen {
            let Some((_, version)) = later.answered else {
                continue;
            };
            for (earlier_id, earlier) in &self.seen {
                let Some((answered_ms, known)) = earlier.answered else {
                    continue;
                };
                if earlier.key != later.key || answered_ms >= later.began_ms {
                    continue;
                }
                let is_sound = match later.is_write {
                    true => version > known,
                    false => version >= known,
                };
                if !is_sound {
                    self.told.wrong.push(format!(
                        "{later_id} ({later:?}) goes behind {earlier_id} ({earlier:?})"
                    ));
                }
            }
        }
    }

    /// In the end, all nodes go by the same map, and all replicas by it are the same.
    fn check_end(&mut self) {
        let members: Vec<Place> = (0..self.nodes.len())
            .filter(|place| self.is_member(*place))
            .collect();
        let layout = self.nodes[members[0]].layout.clone().expect("a member");
        for place in &members {
            let own = self.nodes[*place].layout.as_ref();
            if own.is_none_or(|own| own.now != layout.now || own.next.is_some()) {
                let wrong = format!("{place} and {} have different maps", members[0]);
                self.told.wrong.push(wrong);
            }
        }
        for key in 0..KEYS {
            let replicas = layout.now.replicas_of(Slot::of(&[key]));
            let cells: Vec<_> = replicas
                .iter()
                .filter_map(|id| self.place_of(members[0], *id))
                .map(|place| self.nodes[place].cells.get(&key).copied())
                .collect();
            if cells.windows(2).any(|pair| pair[0] != pair[1]) {
                let wrong = format!("the replicas of {key} have {cells:?}");
                self.told.wrong.push(wrong);
            }
        }
    }
}

#[test]
fn nothing_is_lost_while_nodes_come_and_go() {
    let (mut answered, mut committed, mut aborted) = (0, 0, 0);
    for seed in seeds() {
        let told = World::new(seed, Broken::Nothing).run();
        assert!(told.wrong.is_empty(), "seed {seed}: {:#?}", told.wrong);
        answered += told.answered;
        committed += told.committed;
        aborted += told.aborted;
    }
    // Otherwise nothing was shown.
    let count = seeds().count() as u64;
    assert!(answered > 200 * count, "{answered} answered");
    assert!(committed > count && aborted > 0, "{committed}, {aborted}");
}

/// The rules are needed, and what goes wrong without them is found.
#[test]
fn a_rule_that_is_not_kept_is_found() {
    for broken in [Broken::Settling, Broken::Moving] {
        let mut runs = (0..3_000).map(|seed| World::new(seed, broken).run());
        assert!(runs.any(|told| !told.wrong.is_empty()), "{broken:?}");
    }
}
