//! The same while nodes come and go: an operator lets them join, leave and take the place of each other, changes his mind, and tells a node
//! what he decided a while ago; nodes crash in between, links are cut, and one that was given up as lost comes back.
//!
//! What must hold is what clients see, as before; and in the end, that all replicas of a key by the last map are the same.

mod checks;
mod clients;
mod messages;
mod operator;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fastrand::Rng;

use super::seeds;
use super::world::events::{Message, Written, written};
use crate::coordinator::{Coordinator, Step};
use crate::frame::{Change, Moved};
use crate::layout::Layout;
use crate::placement::Map;
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
    /// Nodes that have gone, and until when they are heard.
    going: Vec<(u16, u64)>,
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
            going: Vec::new(),
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
        let skew_ms = (i64::from(place as u16) * 97) % (2 * SKEW_MS) - SKEW_MS;
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
