//! The service of routes with `kv = true`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use weir_gateway::service::{Answer, Ask, Content, Feeder, Replier, Reply, Service};

use crate::api::{self, v0};
use crate::cell::Cell;
use crate::engine::{Engine, EngineError};
use crate::version::{Clock, Version};
use crate::wall::unix_ms;

/// The most that a value may have.
pub const VALUE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a range that are sent at once, about.
const RANGE_PIECE_BYTES: usize = 64 << 10;

/// A store of one node.
pub struct Store {
    engine: Arc<dyn Engine>,
    clock: Mutex<Clock>,
    /// Nodes of the cluster.
    nodes: usize,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// A store whose data is in `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        let (newest, run) = engine.opened();
        Self {
            clock: Mutex::new(Clock::new(1, run, newest)),
            nodes: 1,
            engine,
        }
    }

    fn version(&self) -> Version {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.tick(unix_ms())
    }

    fn get(&self, key: Bytes) -> Reply {
        if let Some(cell) = self.engine.at_hand(&key) {
            return Reply::ready(found(Some(cell)));
        }
        let (replier, reply) = Reply::later();
        self.engine
            .read(key, Box::new(|read| Some((replier, told(read, found)))));
        reply
    }

    /// Writes a value, or that there is none, and answers with `status`.
    fn put(&self, key: Bytes, value: Option<Bytes>, status: u16) -> Reply {
        let cell = Cell {
            version: self.version(),
            expires_ms: None,
            value,
        };
        let (replier, reply) = Reply::later();
        let then = move |written| Some((replier, told(written, |_| Answer::new(status))));
        self.engine.write(key, cell, Box::new(then));
        reply
    }

    /// The entries of this node from a key on, up to another one.
    fn range(&self, from: Bytes, to: Option<Bytes>) -> Reply {
        let (feeder, content) = Content::pieces(None);
        let (replier, reply) = Reply::later();
        let range = Arc::new(Mutex::new(Range {
            feeder: Some(feeder),
            content: Some(content),
            replier: Some(replier),
            piece: Vec::with_capacity(RANGE_PIECE_BYTES),
        }));
        let each = {
            let (range, now_ms) = (Arc::clone(&range), unix_ms());
            move |key: &[u8], cell: Cell| match cell.at(now_ms) {
                None => true,
                Some(value) => range_of(&range).add(key, value),
            }
        };
        let then = move |result: Result<(), EngineError>| match result {
            Ok(()) => {
                range_of(&range).end();
                None
            }
            Err(error) => {
                let mut range = range_of(&range);
                // An answer that has begun breaks off.
                let replier = range.replier.take();
                replier.map(|replier| (replier, failed(&error)))
            }
        };
        self.engine.scan(from, to, Box::new(each), Box::new(then));
        reply
    }
}

fn range_of(range: &Mutex<Range>) -> std::sync::MutexGuard<'_, Range> {
    range.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A range that is being sent. The answer begins with the first piece, so that what fails before that has a status.
struct Range {
    feeder: Option<Feeder>,
    content: Option<Content>,
    replier: Option<Replier>,
    piece: Vec<u8>,
}

impl Range {
    /// Adds an entry; whether more are wanted.
    fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.piece.extend_from_slice(key);
        self.piece.push(b'\n');
        self.piece.extend_from_slice(value);
        self.piece.len() < RANGE_PIECE_BYTES || self.send()
    }

    fn send(&mut self) -> bool {
        self.begin();
        let piece = std::mem::take(&mut self.piece);
        let feeder = self.feeder.as_ref();
        feeder.is_some_and(|feeder| feeder.feed_blocking(piece).is_ok())
    }

    fn begin(&mut self) {
        if let (Some(replier), Some(content)) = (self.replier.take(), self.content.take()) {
            replier.answer(Answer {
                content,
                ..Answer::new(200).with("Content-Type", *b"application/octet-stream")
            });
        }
    }

    fn end(&mut self) {
        if (self.piece.is_empty() || self.send())
            && let Some(feeder) = self.feeder.take()
        {
            self.begin();
            // A client that has left is told nothing.
            let _ = feeder.finish_blocking();
        }
    }
}

impl Service for Store {
    fn body_bytes_max(&self) -> u64 {
        VALUE_BYTES_MAX
    }

    fn call(&self, mut ask: Ask) -> Reply {
        let query = ask.query().unwrap_or_default();
        let call = v0::parse(ask.request.method, ask.path(), query, self.nodes);
        match call {
            Err(refusal) => Reply::ready(refusal.answer()),
            Ok(v0::Call::Status) => Reply::ready(api::text(200, "ok")),
            Ok(v0::Call::Get(key, _)) => self.get(key),
            Ok(v0::Call::Put(key, _)) => {
                let value = std::mem::take(&mut ask.body);
                self.put(key, Some(value.into()), 201)
            }
            Ok(v0::Call::Delete(key, _)) => self.put(key, None, 202),
            Ok(v0::Call::Range(from, to)) => self.range(from, to),
        }
    }

    fn drain(&self) {}

    fn is_drained(&self) -> bool {
        self.engine.is_idle()
    }
}

fn found(cell: Option<Cell>) -> Answer {
    let value = cell.and_then(|cell| cell.at(unix_ms()).cloned());
    match value {
        Some(value) => Answer::new(200)
            .with("Content-Type", *b"application/octet-stream")
            .content(value),
        None => Answer::new(404),
    }
}

fn told<T>(result: Result<T, EngineError>, answer: impl FnOnce(T) -> Answer) -> Answer {
    result.map_or_else(|error| failed(&error), answer)
}

fn failed(error: &EngineError) -> Answer {
    let answer = api::text(503, &error.to_string());
    match error {
        EngineError::Busy => answer.with("Retry-After", *b"1"),
        EngineError::Failed(_) => answer,
    }
}
