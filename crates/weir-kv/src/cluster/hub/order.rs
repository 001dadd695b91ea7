//! Writes whose order matters: one node at a time makes those of a key, one after the other. It is the first of the key's replicas
//! that is up, as each node sees it.
//!
//! A node that is asked by another one, and does not see that it is its turn, refuses without having begun. Whoever asked looks again
//! in a moment whose turn it is, and asks that one, until the deadline: so nobody makes a write by what another node believes.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::{Asked, Client, DEADLINE, Hub, is_over};
use crate::cell::Cell;
use crate::condition::Condition;
use crate::coordinator::{Answer, Operation};
use crate::frame::{Ask, Say, What, Why};
use crate::tally;
use crate::wall::unix_ms;

/// What a node is to do in order, or to have another one do.
pub(in crate::cluster) struct Order {
    pub(in crate::cluster) ask: Ask,
    pub(in crate::cluster) client: Client,
    /// Whether another node has said whose turn it is, so that it goes no further.
    pub(in crate::cluster) is_for_me: bool,
}

/// One that waits for those before it, and since when.
pub(super) type Waiting = VecDeque<(Instant, Order)>;

/// A write that other nodes are asked to make, one after the other, until this time.
pub(super) struct Tried {
    ask: Ask,
    client: Client,
    until: Instant,
}

/// Writes of one key that wait. More are refused.
const WAITING_MAX: usize = 256;

impl Hub {
    /// Does it here, or has the node do it whose turn it is.
    pub(super) fn order(&mut self, order: Order) {
        if order.ask.what == What::Get {
            return self.begin_ask(order.ask, order.client, false);
        }
        let turn = self.whose_turn(&order.ask);
        if turn == Some(self.shared.me()) {
            self.begin_in_order(order);
        } else {
            self.pass_on(turn, order, Instant::now() + DEADLINE);
        }
    }

    /// It is not the turn of this node.
    fn pass_on(&mut self, turn: Option<u16>, order: Order, until: Instant) {
        let Order {
            ask,
            client,
            is_for_me,
        } = order;
        match turn {
            // Whoever has sent it here may not see a node that this one sees. If both of them made the writes of a key, conditions
            // would not hold.
            _ if is_for_me => self.refuse(client, Why::Turn),
            Some(node) => self.forward(node, Tried { ask, client, until }),
            None => self.answer(client, Answer::TooFew),
        }
    }

    /// The node that makes a write, as this one sees it.
    fn whose_turn(&self, ask: &Ask) -> Option<u16> {
        let me = self.shared.me();
        let may_write = |node: u16| {
            if node == me {
                !self.shared.is_off(false)
            } else {
                self.is_up(node) && self.clocks.is_near(node)
            }
        };
        let mut replicas = self.shared.in_turn(&ask.key, ask.quorum).into_iter();
        replicas.find(|node| may_write(*node))
    }

    fn begin_ask(&mut self, ask: Ask, client: Client, is_in_order: bool) {
        let Ask {
            key,
            what,
            quorum,
            condition,
            until_ms,
        } = ask;
        // Before it takes a version: the clock never goes back.
        if is_over(until_ms) || self.shared.is_off(what == What::Get) {
            return self.give_up(client, (key, is_in_order));
        }
        let operation = self.operation(what, condition);
        self.begin(Asked {
            operation,
            key,
            quorum,
            client,
            is_in_order,
            until_ms,
        });
    }

    fn operation(&self, what: What, condition: Condition) -> Operation {
        let (value, expires_ms) = match what {
            What::Get => return Operation::Get,
            What::Put { value, expires_ms } => (Some(value), expires_ms),
            What::Delete => (None, None),
        };
        let cell = Cell {
            version: self.shared.tick(),
            expires_ms,
            value,
        };
        if condition.is_none() {
            Operation::Put(cell)
        } else {
            Operation::PutIf(cell, condition, unix_ms())
        }
    }

    fn forward(&mut self, node: u16, tried: Tried) {
        let now = Instant::now();
        // Whoever waits may have given up, and have written something else: the node that gets it would begin at once.
        if is_over(tried.ask.until_ms) || tried.until <= now {
            return self.answer(tried.client, Answer::TooFew);
        }
        self.next_id += 1;
        let id = self.next_id;
        // If it gets there later, it must not come over what was written meanwhile.
        let own_ms = tried.ask.until_ms;
        let own_ms = own_ms.map(|until_ms| until_ms.saturating_sub(unix_ms()));
        let left = tried.until - now;
        let left = own_ms.map_or(left, |own_ms| left.min(Duration::from_millis(own_ms)));
        let until_ms = self.clocks.wall_at(node, now + left);
        let ask = Ask {
            until_ms,
            ..tried.ask.clone()
        };
        let peer = self.peers.get(&node).filter(|_| until_ms.is_some());
        if peer.is_some_and(|peer| peer.send(id, Say::Ask(ask))) {
            tally::more(&self.shared.tally.forwarded);
            // One that is tried again ends before others that have begun later.
            let at = self.deadlines.partition_point(|(at, _)| *at <= tried.until);
            self.deadlines.insert(at, (tried.until, id));
            self.forwarded.insert(id, tried);
        } else {
            self.answer(tried.client, Answer::TooFew);
        }
    }

    /// Another node has done what it was asked to; or has not, or nobody knows.
    pub(super) fn told(&mut self, id: u64, answer: Answer) {
        if let Some(tried) = self.forwarded.remove(&id) {
            self.answer(tried.client, answer);
        }
    }

    /// Another node has not begun what it was asked to.
    pub(super) fn not_begun(&mut self, id: u64, why: Why) {
        let Some(tried) = self.forwarded.remove(&id) else {
            return;
        };
        match why {
            // It sees other nodes, or goes by another map, as long as not all have heard of something.
            Why::Turn | Why::Epoch | Why::Stranger => self.again.push(tried),
            Why::Busy => self.refuse(tried.client, why),
            Why::Failed | Why::Clock | Why::Unable => self.answer(tried.client, Answer::TooFew),
        }
    }

    /// Looks again whose turn it is with what nobody has begun.
    pub(super) fn try_again(&mut self) {
        for tried in std::mem::take(&mut self.again) {
            let Tried { ask, client, until } = tried;
            let order = Order {
                ask,
                client,
                is_for_me: false,
            };
            let turn = self.whose_turn(&order.ask);
            if turn == Some(self.shared.me()) {
                self.begin_in_order(order);
            } else {
                self.pass_on(turn, order, until);
            }
        }
    }

    fn begin_in_order(&mut self, order: Order) {
        match self.in_order.get_mut(&order.ask.key) {
            Some(waiting) if waiting.len() < WAITING_MAX => {
                waiting.push_back((Instant::now(), order));
            }
            Some(_) => self.refuse(order.client, Why::Busy),
            None => {
                self.in_order.insert(order.ask.key.clone(), VecDeque::new());
                self.begin_ask(order.ask, order.client, true);
            }
        }
    }

    /// Goes on with those that waited for one that has its answer.
    pub(super) fn go_on_in_order(&mut self) {
        while let Some(key) = self.answered_in_order.pop() {
            let Some(waiting) = self.in_order.get_mut(&key) else {
                continue;
            };
            match waiting.pop_front() {
                None => {
                    self.in_order.remove(&key);
                }
                Some((since, order)) if since.elapsed() > DEADLINE => {
                    // Nobody waits for it any more, and it is known that it was not done.
                    self.answer(order.client, Answer::TooFew);
                    self.answered_in_order.push(key);
                }
                Some((since, order)) => {
                    let turn = self.whose_turn(&order.ask);
                    if turn == Some(self.shared.me()) {
                        self.begin_ask(order.ask, order.client, true);
                    } else {
                        // That node makes writes of the key by now.
                        self.pass_on(turn, order, since + DEADLINE);
                        self.answered_in_order.push(key);
                    }
                }
            }
        }
    }
}
