//! The way from workers, and other threads, to the hub.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use bytes::Bytes;
use tokio::sync::mpsc;
use weir_gateway::service::Reply;

use super::ToAnswer;
use super::direct::{Direct, Read};
use super::hub::{self, Client, Event};
use crate::coordinator::{Operation, Quorum};
use crate::engine::EngineError;
use crate::frame::{Ask, What};
use crate::round;
use crate::store::Done;

/// Requests under way at once. More are refused.
const UNDER_WAY_MAX: usize = 32_768;

/// Has things done for keys, from whatever thread.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) under_way: Arc<AtomicUsize>,
    pub(super) direct: Arc<Direct>,
    /// What has come in the rounds of threads.
    pub(super) waiting: Arc<Mutex<Waiting>>,
}

/// What waits for the end of a round, and of whose.
#[derive(Default)]
pub(super) struct Waiting {
    events: Vec<Event>,
    sending: round::Threads,
}

impl Asker {
    /// Carries out an operation on the replicas of a key.
    pub(crate) fn ask(
        &self,
        operation: Operation,
        key: Bytes,
        quorum: Quorum,
        answer: ToAnswer,
    ) -> Reply {
        if !self.has_room() {
            return Reply::ready(answer(Err(EngineError::Busy)));
        }
        let (replier, reply) = Reply::later();
        let client = Client::Waits(replier, answer);
        self.begin(operation, key, quorum, client);
        reply
    }

    /// Reads a key, or has the node write it whose turn it is with it, in order with all other writes that come this way.
    pub(crate) fn carry_out(&self, ask: Ask, done: Done) {
        if !self.has_room() {
            if let Some((replier, answer)) = done(Err(EngineError::Busy)) {
                replier.answer(answer);
            }
            return;
        }
        let client = Client::Part(done);
        if ask.what != What::Get {
            let is_for_me = false;
            return self.send(Event::Order(hub::Order {
                ask,
                client,
                is_for_me,
            }));
        }
        self.begin(Operation::Get, ask.key, ask.quorum, client);
    }

    fn begin(&self, operation: Operation, key: Bytes, quorum: Quorum, client: Client) {
        let (key, client) = if operation == Operation::Get && quorum.from == 1 {
            match self.direct.ask(Read { key, client }) {
                Ok(()) => return,
                Err(Read { key, client }) => (key, client),
            }
        } else {
            (key, client)
        };
        self.send(Event::Ask(hub::Asked {
            operation,
            key,
            quorum,
            client,
            is_in_order: false,
            until_ms: None,
        }));
    }

    /// Whether one more may be under way. It is counted then.
    fn has_room(&self) -> bool {
        let has_room = self.under_way.fetch_add(1, Ordering::AcqRel) < UNDER_WAY_MAX;
        if !has_room {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
        }
        has_room
    }

    /// Sends it with all that comes in the same round. If the thread is gone, so is the replier: the client gets a 500.
    fn send(&self, event: Event) {
        let sends = {
            let mut waiting = lock(&self.waiting);
            waiting.events.push(event);
            waiting.sending.begin()
        };
        if let Some(thread) = sends {
            round::at_end(Sends(self.clone(), thread));
        }
    }
}

/// Sends all that waits when it is dropped.
struct Sends(Asker, ThreadId);

impl Drop for Sends {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0.waiting);
        waiting.sending.end(self.1);
        let events = std::mem::take(&mut waiting.events);
        let count = events.len();
        if count == 0 {
            return;
        }
        // Under the lock: what comes behind it is sent behind it.
        let sent = self.0.events.send(Event::Many(events));
        drop(waiting);
        if sent.is_err() {
            self.0.under_way.fetch_sub(count, Ordering::AcqRel);
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
