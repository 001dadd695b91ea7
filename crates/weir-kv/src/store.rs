//! The service of routes with `kv = true`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use weir_gateway::service::{Answer, Ask, Content, Feeder, Replier, Reply, Service};

use crate::api::{self, v0};
use crate::cell::Cell;
use crate::cluster::{self, Cluster, ClusterSettings, Shared};
use crate::coordinator::{self, Operation, Quorum};
use crate::engine::{Engine, EngineError};
use crate::placement::Map;
use crate::version::Clock;
use crate::wall::unix_ms;

/// The most that a value may have.
pub const VALUE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a range that are sent at once, about.
const RANGE_PIECE_BYTES: usize = 64 << 10;

/// A node of a store.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    /// The other nodes, if there are some.
    cluster: Option<Cluster>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Store {
    /// A store of one node, whose data is in `engine`.
    ///
    /// # Errors
    /// The data is that of a node among others.
    pub fn alone(engine: Arc<dyn Engine>) -> Result<Self, String> {
        engine.claim("alone")?;
        let (newest, run) = engine.opened();
        let map = Map::new(&["alone"]).expect("one node makes a cluster");
        let me = map.nodes()[0].id;
        Ok(Self {
            shared: Arc::new(Shared {
                clock: Mutex::new(Clock::new(me, run, newest)),
                engine,
                fingerprint: map.fingerprint(),
                map,
                me,
            }),
            cluster: None,
        })
    }

    /// A node among others, whose own data is in `engine`.
    ///
    /// # Errors
    /// The addresses make no cluster, or this node's cannot be listened on.
    pub fn among(settings: &ClusterSettings, engine: Arc<dyn Engine>) -> Result<Self, String> {
        let cluster = Cluster::start(settings, engine)?;
        Ok(Self {
            shared: Arc::clone(&cluster.shared),
            cluster: Some(cluster),
        })
    }

    /// The other nodes, unless this one alone is asked for a key.
    fn others(&self, key: &[u8], quorum: Quorum) -> Option<&Cluster> {
        let cluster = self.cluster.as_ref()?;
        let is_alone = quorum.from == 1 && self.shared.owner(key) == self.shared.me;
        (!is_alone).then_some(cluster)
    }

    fn get(&self, key: Bytes, quorum: Quorum) -> Reply {
        if let Some(cluster) = self.others(&key, quorum) {
            let answer = |answer| match answer {
                coordinator::Answer::Found(cell) => found(cell),
                _ => cluster::too_few(),
            };
            return cluster.ask(Operation::Get, key, quorum, Box::new(answer));
        }
        if let Some(cell) = self.shared.engine.at_hand(&key) {
            return Reply::ready(found(Some(cell)));
        }
        let (replier, reply) = Reply::later();
        let then = Box::new(|read| Some((replier, told(read, found))));
        self.shared.engine.read(key, then);
        reply
    }

    /// Writes a value, or that there is none, and answers with `status`.
    fn put(&self, key: Bytes, value: Option<Bytes>, quorum: Quorum, status: u16) -> Reply {
        let cell = Cell {
            version: self.shared.tick(),
            expires_ms: None,
            value,
        };
        if let Some(cluster) = self.others(&key, quorum) {
            let operation = Operation::Put(cell);
            return cluster.ask(operation, key, quorum, cluster::written(status));
        }
        let (replier, reply) = Reply::later();
        write_alone(&self.shared, (key, cell), (replier, status), true);
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
                None => range_of(&range).is_wanted(),
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
        self.shared
            .engine
            .scan(from, to, Box::new(each), Box::new(then));
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

    /// Whether somebody still waits for the beginning.
    fn is_wanted(&self) -> bool {
        self.replier
            .as_ref()
            .is_none_or(|replier| !replier.has_left())
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
        let nodes = self.shared.map.nodes().len();
        let call = v0::parse(ask.request.method, ask.path(), query, nodes);
        match call {
            Err(refusal) => Reply::ready(refusal.answer()),
            Ok(v0::Call::Status) => Reply::ready(api::text(200, "ok")),
            Ok(v0::Call::Get(key, quorum)) => self.get(key, quorum),
            Ok(v0::Call::Put(key, quorum)) => {
                let value = std::mem::take(&mut ask.body);
                self.put(key, Some(value.into()), quorum, 201)
            }
            Ok(v0::Call::Delete(key, quorum)) => self.put(key, None, quorum, 202),
            Ok(v0::Call::Range(from, to)) => self.range(from, to),
        }
    }

    fn drain(&self) {}

    fn is_drained(&self) -> bool {
        let is_idle = self.cluster.as_ref().is_none_or(Cluster::is_idle);
        is_idle && self.shared.engine.is_idle()
    }
}

/// Writes a cell here alone. When there is a newer one, this write takes a newer version, once: it has come later.
fn write_alone(
    shared: &Arc<Shared>,
    (key, cell): (Bytes, Cell),
    (replier, status): (Replier, u16),
    may_advance: bool,
) {
    let again = (Arc::clone(shared), key.clone(), cell.clone());
    let then = move |written| match written {
        Ok(Some(newer)) if may_advance => {
            let (shared, key, cell) = again;
            if !shared.see(newer) {
                let why = "there is a write whose version is too far ahead of the clock here";
                return Some((replier, api::text(503, why)));
            }
            let version = shared.tick();
            let cell = Cell { version, ..cell };
            write_alone(&shared, (key, cell), (replier, status), false);
            None
        }
        written => Some((replier, told(written, |_| Answer::new(status)))),
    };
    shared.engine.write(key, cell, Box::new(then));
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
    let why = error.to_string();
    match error {
        EngineError::Busy => api::busy(&why),
        EngineError::Failed(_) => api::text(503, &why),
        EngineError::Refused(_) => api::text(422, &why),
        EngineError::NoRanges => api::text(501, &why),
    }
}
