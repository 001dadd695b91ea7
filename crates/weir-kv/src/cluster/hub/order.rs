//! Writes whose order matters: one node at a time makes those of a key, one after the other. It is the first of the key's replicas
//! that is up, as each node sees it.

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
pub(super) type Waiting = VecDeque<(Instant, Ask, Client)>;

/// Writes of one key that wait. More are refused.
const WAITING_MAX: usize = 256;

impl Hub {
    /// Does it here, or has the node do it whose turn it is.
    pub(super) fn order(&mut self, order: Order) {
        let Order {
            ask,
            client,
            is_for_me,
        } = order;
        let me = self.shared.me();
        let replicas = self.shared.replicas(&ask.key, ask.quorum).nodes;
        let may_write = |node: u16| {
            if node == me {
                !self.shared.is_off(false)
            } else {
                self.is_up(node) && self.clocks.is_near(node)
            }
        };
        let first = replicas.into_iter().find(|node| may_write(*node));
        match first {
            _ if ask.what == What::Get => self.begin_ask(ask, client, false),
            Some(first) if first == me => self.begin_in_order(ask, client),
            Some(first) if !is_for_me => self.forward(first, ask, client),
            // Whoever has sent it here does not see a node that this one sees. If both of them made the writes of a key, conditions
            // would not hold.
            _ => self.answer(client, Answer::TooFew),
        }
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

    fn forward(&mut self, node: u16, ask: Ask, client: Client) {
        // Whoever waits may have given up, and have written something else: the node that gets it would begin at once.
        if is_over(ask.until_ms) {
            return self.answer(client, Answer::TooFew);
        }
        self.next_id += 1;
        // If it gets there later, it must not come over what was written meanwhile.
        let own_ms = ask
            .until_ms
            .map(|until_ms| until_ms.saturating_sub(unix_ms()));
        let left = own_ms.map_or(DEADLINE, |own_ms| {
            DEADLINE.min(Duration::from_millis(own_ms))
        });
        let until_ms = self.clocks.wall_at(node, Instant::now() + left);
        let ask = Ask { until_ms, ..ask };
        let id = self.next_id;
        let peer = self.peers.get(&node).filter(|_| until_ms.is_some());
        if peer.is_some_and(|peer| peer.send(id, Say::Ask(ask))) {
            self.forwarded.insert(id, (node, client));
            tally::more(&self.shared.tally.forwarded);
            self.deadlines.push_back((Instant::now() + DEADLINE, id));
        } else {
            self.answer(client, Answer::TooFew);
        }
    }

    /// Another node has done what it was asked to; or has not, or nobody knows.
    pub(super) fn told(&mut self, id: u64, answer: Answer) {
        if let Some((_, client)) = self.forwarded.remove(&id) {
            self.answer(client, answer);
        }
    }

    /// Another node has too much to do to begin with what it was asked to.
    pub(super) fn not_begun(&mut self, id: u64) {
        if let Some((_, client)) = self.forwarded.remove(&id) {
            self.refuse(client, Why::Busy);
        }
    }

    fn begin_in_order(&mut self, ask: Ask, client: Client) {
        match self.in_order.get_mut(&ask.key) {
            Some(waiting) if waiting.len() < WAITING_MAX => {
                waiting.push_back((Instant::now(), ask, client));
            }
            Some(_) => self.refuse(client, Why::Busy),
            None => {
                self.in_order.insert(ask.key.clone(), VecDeque::new());
                self.begin_ask(ask, client, true);
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
                Some((since, _, client)) if since.elapsed() > DEADLINE => {
                    // Nobody waits for it any more, and it is known that it was not done.
                    self.answer(client, Answer::TooFew);
                    self.answered_in_order.push(key);
                }
                Some((_, ask, client)) => self.begin_ask(ask, client, true),
            }
        }
    }
}
