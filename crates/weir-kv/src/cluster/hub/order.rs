//! Writes whose order matters: one node at a time makes those of a key, one after the other. It is the first of the key's replicas
//! that is up, as each node sees it.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::{Asked, Client, DEADLINE, Hub};
use crate::cell::Cell;
use crate::coordinator::{Answer, Operation};
use crate::frame::{Ask, Say, What};
use crate::wall::unix_ms;

/// What a node is to do in order, or to have another one do.
pub(in crate::cluster) struct Order {
    pub(in crate::cluster) ask: Ask,
    pub(in crate::cluster) client: Client,
    /// Whether it comes from another node, or from a client that knows the map, and is done here whoever is up.
    pub(in crate::cluster) is_for_me: bool,
}

/// One that waits for those before it, and since when.
pub(super) type Waiting = VecDeque<(Instant, Asked)>;

impl Hub {
    /// Does it here, or has the node do it whose turn it is.
    pub(super) fn order(&mut self, order: Order) {
        let Order {
            ask,
            client,
            is_for_me,
        } = order;
        let me = self.shared.me;
        let replicas = self.shared.replicas(&ask.key, ask.quorum.from);
        let first = replicas.iter().find(|node| self.is_up(**node));
        match first.copied() {
            Some(first) if first != me && !is_for_me => self.forward(first, ask, client),
            None if !is_for_me => self.answer(client, Answer::TooFew),
            _ => {
                let is_write = ask.what != What::Get;
                let asked = Asked {
                    operation: self.operation(ask.what, ask.condition),
                    key: ask.key,
                    ack: ask.quorum.ack,
                    replicas,
                    client,
                    is_in_order: is_write,
                };
                if is_write {
                    self.begin_in_order(asked);
                } else {
                    self.begin(asked);
                }
            }
        }
    }

    fn operation(&self, what: What, condition: crate::condition::Condition) -> Operation {
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
        self.next_id += 1;
        let id = self.next_id;
        let peer = self.peers.get(&node);
        if peer.is_some_and(|peer| peer.send(id, Say::Ask(ask))) {
            self.forwarded.insert(id, (node, client));
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

    fn begin_in_order(&mut self, asked: Asked) {
        match self.in_order.get_mut(&asked.key) {
            Some(waiting) => waiting.push_back((Instant::now(), asked)),
            None => {
                self.in_order.insert(asked.key.clone(), VecDeque::new());
                self.begin(asked);
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
                Some((since, asked)) if since.elapsed() > DEADLINE => {
                    // Nobody waits for it any more, and it is known that it was not done.
                    self.answer(asked.client, Answer::TooFew);
                    self.answered_in_order.push(key);
                }
                Some((_, asked)) => self.begin(asked),
            }
        }
    }
}
