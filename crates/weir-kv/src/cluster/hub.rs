//! Owns every request that concerns other nodes, from its beginning until nothing of it is awaited any more.

mod answers;
mod clocks;
mod event;
mod nodes;
mod order;
mod replicas;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_gateway::service::{Answer, Replier};

pub(crate) use self::answers::{too_few, too_many, written};
pub(super) use self::clocks::{Clocks, Off};
pub(super) use self::event::{Asked, Client, Event};
pub(super) use self::order::Order;
use self::order::{Tried, Waiting};
use super::call::Call;
use super::hints::Keeper;
use super::peer::Peer;
use super::{Shared, give};
use crate::coordinator::{self, Coordinator, Operation, Step};
use crate::frame::{self, Say, Why};
use crate::seldom::Seldom;
use crate::tally;
use crate::wall::unix_ms;

/// How long replicas may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);
/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often it takes events before what it has put off is done.
const TURNS_MAX: u64 = 8;
/// Events that are taken at once.
const EVENTS_MAX: usize = 1024;

struct UnderWay {
    key: Bytes,
    coordinator: Coordinator,
    client: Client,
    is_in_order: bool,
    until_ms: Option<u64>,
}

/// The owner of requests.
pub(super) struct Hub {
    shared: Arc<Shared>,
    peers: HashMap<u16, Peer>,
    /// For engines, which answer from their threads.
    events: mpsc::UnboundedSender<Event>,
    under_way: HashMap<u64, UnderWay>,
    count: Arc<AtomicUsize>,
    /// In the order in which they end.
    deadlines: VecDeque<(Instant, u64)>,
    /// Who keeps what a node missed.
    keepers: HashMap<u16, Keeper>,
    /// What other nodes do for clients of this one.
    forwarded: HashMap<u64, Tried>,
    /// What those have not begun, and are asked for again.
    again: Vec<Tried>,
    /// Questions of threads.
    calls: HashMap<u64, SyncSender<Say>>,
    /// The keys of which a write is under way whose order matters, and what waits for it.
    in_order: HashMap<Bytes, Waiting>,
    /// Keys with such a write that has its answer.
    answered_in_order: Vec<Bytes>,
    /// Nodes that have gone, and until when what began before is awaited of them.
    going: Vec<(Instant, u16)>,
    clocks: Arc<Clocks>,
    told: Seldom,
    secret: Arc<str>,
    next_id: u64,
    /// What has a higher number began by the layout of this generation.
    settles_at: Option<(u64, usize)>,
    answers: Vec<(Replier, Answer)>,
}

impl Hub {
    pub(super) fn new(
        shared: Arc<Shared>,
        secret: Arc<str>,
        events: mpsc::UnboundedSender<Event>,
        (count, clocks): (Arc<AtomicUsize>, Arc<Clocks>),
    ) -> Self {
        Self {
            shared,
            peers: HashMap::new(),
            events,
            count,
            under_way: HashMap::new(),
            deadlines: VecDeque::new(),
            keepers: HashMap::new(),
            forwarded: HashMap::new(),
            again: Vec::new(),
            calls: HashMap::new(),
            in_order: HashMap::new(),
            answered_in_order: Vec::new(),
            going: Vec::new(),
            clocks,
            told: Seldom::default(),
            secret,
            next_id: 0,
            settles_at: None,
            answers: Vec::new(),
        }
    }

    pub(super) async fn run(mut self, mut happened: mpsc::UnboundedReceiver<Event>) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut tick = tokio::time::interval(TICK);
        for turn in 1_u64.. {
            tokio::select! {
                count = happened.recv_many(&mut events, EVENTS_MAX) => {
                    if count == 0 {
                        return;
                    }
                    events.drain(..).for_each(|event| self.happen(event));
                }
                _ = tick.tick() => {
                    self.give_up_late();
                    self.try_again();
                    self.go_on_in_order();
                    self.settle();
                    self.leave_those_that_go();
                }
            }
            give(std::mem::take(&mut self.answers));
            if turn % TURNS_MAX == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Many(events) => return events.into_iter().for_each(|event| self.happen(event)),
            Event::Ask(asked) => self.begin(asked),
            Event::Order(order) => self.order(order),
            Event::Told(id, answer) => self.told(id, answer),
            Event::Call(call) => self.call(call),
            Event::Replied(id, say) => self.replied(id, say),
            Event::Found(id, _, cell) if self.calls.contains_key(&id) => {
                self.replied(id, Say::Found(cell));
            }
            Event::Written(id, _, version, newer) if self.calls.contains_key(&id) => {
                self.replied(id, Say::Written { version, newer });
            }
            Event::Found(id, node, cell) => {
                self.coordinate(id, |coordinator, steps| coordinator.read(node, cell, steps));
            }
            Event::Written(id, node, version, newer) => {
                self.coordinate(id, |coordinator, steps| {
                    coordinator.written(node, version, newer, steps);
                });
            }
            Event::Refused(id, _, why, text) if self.calls.contains_key(&id) => {
                self.replied(id, Say::Refused(why, text));
            }
            Event::Nodes {
                come,
                go,
                generation,
            } => self.change(come, go, generation),
            Event::Clock(node, heard) => self.hear_clock(node, heard),
            // It may begin until it is too late for that: nobody is told before that it has failed.
            Event::Silent(id, _) if self.forwarded.contains_key(&id) => {}
            Event::Refused(id, _, why, _) if self.forwarded.contains_key(&id) => {
                self.not_begun(id, why);
            }
            Event::Refused(id, node, ..) | Event::Silent(id, node) => {
                self.happen(Event::Failed(id, node));
            }
            Event::Failed(id, _) if self.forwarded.contains_key(&id) => {
                self.told(id, coordinator::Answer::TooFew);
            }
            Event::Failed(id, node) => {
                self.calls.remove(&id);
                self.coordinate(id, |coordinator, steps| coordinator.failed(node, steps));
            }
        }
        self.go_on_in_order();
    }

    fn begin(&mut self, asked: Asked) {
        let Asked {
            operation,
            key,
            quorum,
            client,
            is_in_order,
            until_ms,
        } = asked;
        if self.shared.is_off(matches!(operation, Operation::Get)) {
            return self.give_up(client, (key, is_in_order));
        }
        self.next_id += 1;
        let id = self.next_id;
        let mut steps = Vec::new();
        let is_up = |node| self.is_up(node);
        // Not before: what begins here goes by the layout of now.
        let replicas = self.shared.replicas(&key, quorum);
        let coordinator = Coordinator::begin(operation, replicas, is_up, &mut steps);
        let under_way = UnderWay {
            key,
            coordinator,
            client,
            is_in_order,
            until_ms,
        };
        self.under_way.insert(id, under_way);
        self.deadlines.push_back((Instant::now() + DEADLINE, id));
        self.carry_out(id, steps);
    }

    fn hear_clock(&mut self, node: u16, heard: Option<(frame::Clocks, Instant)>) {
        match heard {
            Some(heard) => self.clocks.tell(node, heard, self.shared.clocks()),
            None => self.clocks.forget(node),
        }
        let off = self.clocks.own_off();
        self.shared.set_off(off);
        match off {
            Off::Nothing => {}
            Off::Wall => self.told.tell(format_args!(
                "kv: the clock of this node is more than 30 s off those of most others: it does nothing for clients until that is mended"
            )),
            Off::Versions => self.told.tell(format_args!(
                "kv: the clock of this node was wrong, and the versions that it gives are more than 30 s off those of others: it makes no writes until they have caught up. To have it write before, take it out with `weir kv leave NODE --gone`, empty its directory, and let it join"
            )),
        }
    }

    /// Does not begin at all.
    fn give_up(&mut self, client: Client, (key, is_in_order): (Bytes, bool)) {
        if is_in_order {
            self.answered_in_order.push(key);
        }
        self.answer(client, coordinator::Answer::TooFew);
    }

    fn coordinate(&mut self, id: u64, what: impl FnOnce(&mut Coordinator, &mut Vec<Step>)) {
        let mut steps = Vec::new();
        if let Some(under_way) = self.under_way.get_mut(&id) {
            what(&mut under_way.coordinator, &mut steps);
        }
        self.carry_out(id, steps);
    }

    /// Carries out steps, and what comes of them at once.
    fn carry_out(&mut self, id: u64, steps: Vec<Step>) {
        let mut steps: VecDeque<Step> = steps.into();
        while let Some(step) = steps.pop_front() {
            let Some(under_way) = self.under_way.get_mut(&id) else {
                return;
            };
            let mut more = Vec::new();
            match step {
                Step::Behind(version) => {
                    if !under_way.coordinator.has_condition() {
                        tally::more(&self.shared.tally.advanced);
                    }
                    let is_seen = self.shared.see(version);
                    let version = self.shared.tick();
                    let is_late = is_over(under_way.until_ms);
                    if is_seen && !is_late {
                        under_way.coordinator.behind(version, &mut more);
                    } else {
                        under_way.coordinator.give_up(&mut more);
                    }
                }
                Step::Answer(answer) => {
                    if under_way.is_in_order {
                        self.answered_in_order.push(under_way.key.clone());
                    }
                    let client = std::mem::replace(&mut under_way.client, Client::Nobody);
                    self.answer(client, answer);
                }
                // This node's own engine has said why it does not write.
                Step::Hint(node, _) if node == self.shared.me() => {}
                Step::Hint(node, cell) => {
                    if let Some(keeper) = self.keepers.get(&node) {
                        keeper.keep(under_way.key.clone(), cell);
                    }
                }
                Step::Read(node) => {
                    let key = under_way.key.clone();
                    if !self.read(id, node, key) {
                        self.fail(id, node, &mut more);
                    }
                }
                Step::Write(node, cell) => {
                    let (key, is_read) = (under_way.key.clone(), under_way.coordinator.is_read());
                    if !self.write(id, node, (key, cell), None) {
                        self.fail(id, node, &mut more);
                    } else if is_read {
                        tally::more(&self.shared.tally.read_repairs);
                    }
                }
                Step::WriteOver(node, cell, over) => {
                    let key = under_way.key.clone();
                    if !self.write(id, node, (key, cell), Some(over)) {
                        self.fail(id, node, &mut more);
                    }
                }
            }
            steps.extend(more);
        }
        if self
            .under_way
            .get(&id)
            .is_some_and(|under_way| under_way.coordinator.is_over())
        {
            self.under_way.remove(&id);
        }
    }

    /// Asks a node for a thread.
    fn call(&mut self, Call { node, say, answer }: Call) {
        self.next_id += 1;
        let id = self.next_id;
        if self.peers.get(&node).is_some_and(|peer| peer.send(id, say)) {
            self.calls.insert(id, answer);
            self.deadlines.push_back((Instant::now() + DEADLINE, id));
        }
    }

    fn replied(&mut self, id: u64, say: Say) {
        if let Some(answer) = self.calls.remove(&id) {
            // A thread that has ended asks no more.
            let _ = answer.try_send(say);
        }
    }

    fn is_up(&self, node: u16) -> bool {
        node == self.shared.me() || self.peers.get(&node).is_some_and(Peer::is_up)
    }

    fn answer(&mut self, client: Client, answer: coordinator::Answer) {
        self.end(client, |client| client.told(answer));
    }

    /// Nothing was begun, for this reason.
    fn refuse(&mut self, client: Client, why: Why) {
        self.end(client, |client| client.refused(why));
    }

    fn end(&mut self, client: Client, how: impl FnOnce(Client) -> Option<(Replier, Answer)>) {
        let is_counted = client.is_counted();
        self.answers.extend(how(client));
        if is_counted {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// A replica could not even be asked.
    fn fail(&mut self, id: u64, node: u16, steps: &mut Vec<Step>) {
        if let Some(under_way) = self.under_way.get_mut(&id) {
            under_way.coordinator.failed(node, steps);
        }
    }

    fn give_up_late(&mut self) {
        let now = Instant::now();
        let late = self.deadlines.iter().take_while(|(at, _)| *at <= now);
        let late: Vec<u64> = self
            .deadlines
            .drain(..late.count())
            .map(|(_, id)| id)
            .collect();
        for id in late {
            self.calls.remove(&id);
            self.told(id, coordinator::Answer::TooFew);
            self.coordinate(id, Coordinator::give_up);
        }
    }
}

/// Whether it is later than this, in milliseconds since 1970.
fn is_over(until_ms: Option<u64>) -> bool {
    until_ms.is_some_and(|until_ms| unix_ms() > until_ms)
}
