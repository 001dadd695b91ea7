//! The service of routes with `kv = true`.

mod alone;
mod batch;
mod jobs;
mod pieces;
mod range;
mod redirect;
mod status;
mod v1;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use weir_gateway::service::{Answer, Ask, Replier, Reply, Service};

use self::jobs::Jobs;
use crate::api::{self, Size, v0};
use crate::cell::Cell;
use crate::cluster::{self, Alone, Calls, Cluster, ClusterSettings, Repairs, Shared, Upkeep};
use crate::coordinator::{self, Operation, Quorum};
use crate::engine::{Engine, EngineError};
use crate::layout::Layout;
use crate::placement::Map;
use crate::tally::{self, Begun, Ended, Kind};
use crate::wall::unix_ms;

/// The most that a value may have.
pub const VALUE_BYTES_MAX: u64 = 16 << 20;

/// The name of a node that has no others.
pub(crate) const ALONE: &str = "alone";

/// What a node says that is none of the cluster.
const STRANGER: &str =
    "this node has not joined its cluster yet, or has left it: `weir kv status` says more";

/// What a node says that has an old map.
const BEHIND: &str =
    "this node has an older map of the cluster than the others: `weir kv status` says what to do";

/// What is told of a write that others have come before again and again.
const BETWEEN: &str = "other writes of this key came in between";

/// What came of something that was done for a key.
type Outcome = Result<coordinator::Answer, EngineError>;
/// A client that is answered by it.
type Told = Option<(Replier, Answer)>;
/// What is done with it.
pub(crate) type Done = Box<dyn FnOnce(Outcome) -> Told + Send>;

/// A node of a store.
#[derive(Debug)]
pub struct Store {
    /// Before the cluster, which answers them.
    repairs: Option<Repairs>,
    shared: Arc<Shared>,
    /// The other nodes, if there are some.
    cluster: Option<Cluster>,
    /// Batches and ranges.
    jobs: Jobs,
    shares: status::Shares,
}

/// Does what is asked for a key, from whatever thread.
struct Doer {
    shared: Arc<Shared>,
    asker: Option<cluster::Asker>,
}

impl Doer {
    fn carry_out(&self, ask: crate::frame::Ask, done: Done) {
        match &self.asker {
            None => alone::carry_out(&self.shared, ask, done),
            Some(asker) => asker.carry_out(ask, done),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Store {
    /// A store of one node, whose data is in `engine`. Without upkeep, the engine sees to its own.
    ///
    /// # Errors
    /// The data is that of a node among others.
    pub fn alone(engine: Arc<dyn Engine>, upkeep: Option<Upkeep>) -> Result<Self, String> {
        engine.claim(ALONE)?;
        let map = Map::new(&[ALONE]).expect("one node makes a cluster");
        let shared = Arc::new(Shared::new(engine, ALONE, Layout::first(map, 1)));
        let repairs = upkeep.map(|upkeep| Repairs::start(Calls::alone(&shared), upkeep));
        Ok(Self {
            repairs: repairs.transpose()?,
            shared,
            cluster: None,
            jobs: Jobs::default(),
            shares: status::Shares::default(),
        })
    }

    /// A node among others, whose own data is in `engine`.
    ///
    /// # Errors
    /// The addresses make no cluster, or this node's cannot be listened on.
    pub fn among(
        settings: &ClusterSettings,
        engine: Arc<dyn Engine>,
        upkeep: Upkeep,
    ) -> Result<Self, String> {
        let cluster = Cluster::start(settings, engine)?;
        let repairs = Repairs::start(cluster.calls(), upkeep)?;
        Ok(Self {
            repairs: Some(repairs),
            shared: Arc::clone(&cluster.shared),
            cluster: Some(cluster),
            jobs: Jobs::default(),
            shares: status::Shares::default(),
        })
    }

    /// The other nodes, unless this one alone is asked for a key.
    fn others(&self, key: &[u8], quorum: Quorum) -> Option<&Cluster> {
        let cluster = self.cluster.as_ref()?;
        let is_alone = quorum.from == 1 && self.shared.is_only(key);
        (!is_alone).then_some(cluster)
    }

    /// What counts a write as long as it is under way, where nobody else might know of it.
    fn counted(&self, quorum: Quorum) -> Option<Alone> {
        let may_be = self.cluster.is_some() && quorum.from == 1;
        may_be.then(|| self.shared.begin_alone())
    }

    fn get(&self, key: Bytes, quorum: Quorum) -> Reply {
        if let Some(cluster) = self.others(&key, quorum) {
            let begun = self.shared.tally.begin(Kind::Get);
            let answer = |outcome: Outcome| {
                begun.end(Ended::of(&outcome));
                match outcome {
                    Ok(coordinator::Answer::Found(cell)) => found(cell),
                    Ok(_) => cluster::too_few(),
                    Err(_) => cluster::too_many(),
                }
            };
            return cluster
                .asker
                .ask(Operation::Get, key, quorum, Box::new(answer));
        }
        if let Some(cell) = self.shared.engine.at_hand(&key) {
            let answer = found(Some(cell));
            let ended = Ended::of_read(answer.status);
            self.shared.tally.note(Kind::Get, ended);
            return Reply::ready(answer);
        }
        let (replier, reply) = Reply::later();
        let begun = self.shared.tally.begin(Kind::Get);
        let then = move |read: Result<_, EngineError>| {
            let answer = match read {
                Ok(cell) => {
                    let answer = found(cell);
                    begun.end(Ended::of_read(answer.status));
                    answer
                }
                Err(error) => {
                    begun.end(Ended::of_error(&error));
                    failed(&error)
                }
            };
            Some((replier, answer))
        };
        self.shared.engine.read(key, Box::new(then));
        reply
    }

    /// Writes a value, or that there is none, and answers with `status`.
    fn put(&self, key: Bytes, value: Option<Bytes>, quorum: Quorum, status: u16) -> Reply {
        let kind = match value {
            Some(_) => Kind::Put,
            None => Kind::Delete,
        };
        let begun = self.shared.tally.begin(kind);
        // Before it takes a version: the clock never goes back.
        if self.shared.is_off(false) {
            let answer = cluster::written(status, begun);
            return Reply::ready(answer(Ok(coordinator::Answer::TooFew)));
        }
        let cell = Cell {
            version: self.shared.tick(),
            expires_ms: None,
            value,
        };
        // Before it is looked who is asked.
        let alone = self.counted(quorum);
        if let Some(cluster) = self.others(&key, quorum) {
            let operation = Operation::Put(cell);
            let answer = cluster::written(status, begun);
            return cluster.asker.ask(operation, key, quorum, answer);
        }
        let (replier, reply) = Reply::later();
        let waits = Waits {
            replier,
            status,
            begun,
            _alone: alone,
        };
        write_alone(&self.shared, (key, cell), waits, alone::TRIES);
        reply
    }

    /// Has a repair begin. It does not where something else sees to the data: then it is false.
    pub fn repair(&self) -> bool {
        self.repairs.as_ref().map(Repairs::begin).is_some()
    }

    pub(crate) fn size(&self) -> Size {
        let layout = self.shared.layout();
        Size {
            nodes: layout.now.map.nodes().len(),
            replicas: layout.now.replicas,
        }
    }

    /// Does what is asked for a key.
    fn carry_out(&self, ask: crate::frame::Ask, done: Done) {
        match &self.cluster {
            None => alone::carry_out(&self.shared, ask, done),
            Some(cluster) => cluster.asker.carry_out(ask, done),
        }
    }

    fn doer(&self) -> Doer {
        Doer {
            shared: Arc::clone(&self.shared),
            asker: self.cluster.as_ref().map(|cluster| cluster.asker.clone()),
        }
    }

    fn calls(&self) -> Calls {
        match &self.cluster {
            Some(cluster) => cluster.calls(),
            None => Calls::alone(&self.shared),
        }
    }
}

impl Service for Store {
    fn body_bytes_max(&self) -> u64 {
        VALUE_BYTES_MAX
    }

    fn call(&self, mut ask: Ask) -> Reply {
        if !self.shared.is_member() {
            return Reply::ready(api::text(503, STRANGER));
        }
        if self.shared.is_behind() {
            return Reply::ready(api::text(503, BEHIND));
        }
        if ask.path().starts_with(b"/v1/") {
            return self.v1(ask);
        }
        let query = ask.query().unwrap_or_default();
        let call = v0::parse(ask.request.method, ask.path(), query, self.size());
        if let Ok(v0::Call::Get(key, _) | v0::Call::Put(key, _) | v0::Call::Delete(key, _)) = &call
            && let Some(answer) = self.redirect(&ask, key)
        {
            return Reply::ready(answer);
        }
        match call {
            Err(refusal) => Reply::ready(refusal.answer()),
            Ok(v0::Call::Status) => Reply::ready(api::text(200, "ok")),
            Ok(v0::Call::Get(key, quorum)) => self.get(key, quorum),
            Ok(v0::Call::Put(key, quorum)) => {
                let value = content(&mut ask);
                self.put(key, Some(value), quorum, 201)
            }
            Ok(v0::Call::Delete(key, quorum)) => self.put(key, None, quorum, 202),
            Ok(v0::Call::Range(from, to)) => self.range(from, to),
        }
    }

    fn drain(&self) {
        self.shared.drain();
        if let Some(repairs) = &self.repairs {
            repairs.end();
        }
    }

    fn is_drained(&self) -> bool {
        // What other nodes have this one do goes on to its end.
        let is_idle = match &self.cluster {
            Some(cluster) => cluster.is_idle(),
            None => self.shared.engine.is_idle(),
        };
        is_idle && self.jobs.is_idle()
    }
}

/// The client of a write.
struct Waits {
    replier: Replier,
    /// How it is told that it is done.
    status: u16,
    begun: Begun,
    _alone: Option<Alone>,
}

/// Writes a cell here alone. When there is a newer one, this write takes a newer version: it has come later.
fn write_alone(shared: &Arc<Shared>, (key, cell): (Bytes, Cell), waits: Waits, tries: u32) {
    let again = (Arc::clone(shared), key.clone(), cell.clone());
    let then = move |written| match written {
        Ok(Some(_)) if tries <= 1 => {
            waits.begun.end(Ended::Conflict);
            Some((waits.replier, api::busy(BETWEEN)))
        }
        Ok(Some(newer)) => {
            let (shared, key, cell) = again;
            if !shared.see(newer) {
                let why = "there is a write whose version is too far ahead of the clock here";
                return Some((waits.replier, api::text(503, why)));
            }
            tally::more(&shared.tally.advanced);
            let version = shared.tick();
            let cell = Cell { version, ..cell };
            write_alone(&shared, (key, cell), waits, tries - 1);
            None
        }
        Ok(None) => {
            waits.begun.end(Ended::Ok);
            Some((waits.replier, Answer::new(waits.status)))
        }
        Err(error) => {
            waits.begun.end(Ended::of_error(&error));
            Some((waits.replier, failed(&error)))
        }
    };
    shared.engine.write(key, cell, None, Box::new(then));
}

/// The value that a request brings. It may stay in memory for long, so it takes no more than it has.
fn content(request: &mut Ask) -> Bytes {
    let mut body = std::mem::take(&mut request.body);
    body.shrink_to_fit();
    body.into()
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

fn failed(error: &EngineError) -> Answer {
    let why = error.to_string();
    match status_of(error) {
        503 => api::busy(&why),
        status => api::text(status, &why),
    }
}

fn status_of(error: &EngineError) -> u16 {
    match error {
        EngineError::Busy | EngineError::Failed(_) => 503,
        EngineError::Refused(_) => 422,
        EngineError::NoRanges | EngineError::NoConditions => 501,
    }
}
