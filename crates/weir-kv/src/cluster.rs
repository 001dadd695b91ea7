//! The nodes of a store: what this one asks of the others, and does for them.
//!
//! ```text
//! worker ──► hub: one coordinator for each request ──► own engine
//!             ▲  ▲                              └───► peer ══► the engine of another node
//!             │  └── what engines and peers answer           (serve, there)
//! answers ◄───┘
//! ```
//!
//! All of it is one thread with a runtime of its own. Requests that only concern this node never come here, and reads of one other
//! node only where something is not as usual (`direct`).

mod asker;
mod call;
mod direct;
pub(crate) mod hello;
mod hints;
mod hub;
pub(crate) mod line;
mod members;
mod merged;
mod moving;
mod neighbours;
mod opening;
mod pages;
mod peer;
mod reach;
mod repair;
pub(crate) mod serve;
mod shared;
mod sweeping;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use weir_gateway::service::{Answer, Replier};

pub(crate) use self::asker::Asker;
pub(crate) use self::call::{Calls, NoAnswer};
pub(crate) use self::hub::{too_few, too_many, written};
pub(crate) use self::merged::{Merged, TooFewNodes};
pub(crate) use self::repair::Repairs;
pub use self::repair::Upkeep;
pub(crate) use self::shared::{Alone, Shared};

use self::direct::Direct;
use self::hints::Counts;
use self::hub::{Clocks, Event, Hub};
use self::members::Members;
use self::neighbours::Neighbours;
use crate::coordinator;
use crate::engine::{Engine, EngineError};
use crate::frame::Membership;
use crate::placement::Rule;

/// The nodes, and which of them this one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Where this node listens for the others.
    pub node: SocketAddr,
    /// All nodes, this one among them.
    pub nodes: Vec<SocketAddr>,
    /// Where clients reach the routes of each of them, in the same order; empty if nobody says.
    pub urls: Vec<String>,
    /// How many of them have a key, unless a request says otherwise.
    pub replicas: usize,
    /// How keys find their nodes.
    pub placement: Rule,
    /// Where hints for other nodes are kept.
    pub hints: PathBuf,
    /// How long hints are worth sending.
    pub hints_age: Duration,
    /// What they know each other by; empty where nobody else reaches them.
    pub secret: String,
    /// Whether this node waits until it joins a cluster that is there, as long as it has no data.
    pub is_joining: bool,
}

/// A node among others.
pub(crate) struct Cluster {
    pub(crate) shared: Arc<Shared>,
    pub(crate) asker: Asker,
    neighbours: Arc<Neighbours>,
    clocks: Arc<Clocks>,
    members: Arc<Members>,
    /// Where clients reach the routes of the node at an address.
    urls: HashMap<Box<str>, Box<str>>,
    /// Dropped, the thread ends.
    life: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

/// Makes the answer for a client of what came of an operation.
pub(crate) type ToAnswer =
    Box<dyn FnOnce(Result<coordinator::Answer, EngineError>) -> Answer + Send>;

impl Cluster {
    /// Listens for the other nodes, and connects to them.
    ///
    /// # Errors
    /// The addresses make no cluster, the data is another one's, or this node's address cannot be listened on.
    pub(crate) fn start(
        settings: &ClusterSettings,
        engine: Arc<dyn Engine>,
    ) -> Result<Self, String> {
        let own = settings.node.to_string();
        let layout = opening::layout(settings, &*engine)?;
        let shared = Arc::new(Shared::new(engine, &own, layout));
        let failed =
            |error: std::io::Error| format!("cannot listen on {own} for other nodes: {error}");
        let listener = std::net::TcpListener::bind(settings.node).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (events, happened) = mpsc::unbounded_channel();
        let (life, ended) = oneshot::channel();
        let hints = (settings.hints.clone(), settings.hints_age);
        let neighbours = Arc::new(Neighbours::new(hints.0, hints.1));
        let under_way = Arc::default();
        let secret: Arc<str> = settings.secret.as_str().into();
        let counted = (events.clone(), Arc::clone(&under_way));
        let direct = Direct::new(&shared, &secret, &neighbours, counted);
        let asker = Asker {
            events: events.clone(),
            under_way,
            direct: Arc::new(direct),
            waiting: Arc::default(),
        };
        let members = Members::new(
            Arc::clone(&shared),
            Arc::clone(&neighbours),
            events.clone(),
            opening::names(settings),
        );
        let mut cluster = Self {
            urls: urls(settings),
            life: Some(life),
            thread: None,
            members: Arc::new(members),
            shared,
            asker,
            neighbours,
            clocks: Arc::default(),
        };
        let come = cluster
            .neighbours
            .open(cluster.shared.others(), &cluster.calls())?;
        let come = cluster.neighbours.add(come);
        // Nobody is gone: the hub is not there yet.
        let _ = events.send(Event::Nodes {
            come,
            go: Vec::new(),
            generation: Some(0),
        });
        let parts = Parts {
            secret,
            shared: Arc::clone(&cluster.shared),
            under_way: Arc::clone(&cluster.asker.under_way),
            clocks: Arc::clone(&cluster.clocks),
            members: Arc::clone(&cluster.members),
        };
        let thread = std::thread::Builder::new().name("kv nodes".to_owned());
        let live = move || live(parts, listener, (events, happened), ended);
        let thread = thread.spawn(live);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        cluster.thread = Some(thread);
        cluster.members.sweep();
        Ok(cluster)
    }

    /// Asks the other nodes, from threads that may wait.
    pub(crate) fn calls(&self) -> Calls {
        Calls {
            shared: Arc::clone(&self.shared),
            events: Some(self.asker.events.clone()),
        }
    }

    /// Whether it is known where clients reach nodes.
    pub(crate) fn has_urls(&self) -> bool {
        !self.urls.is_empty()
    }

    /// Where clients reach the node whose turn it is with a key, if that is another one and its URL is known.
    pub(crate) fn elsewhere(&self, key: &[u8]) -> Option<&str> {
        let replicas = self.shared.usual_replicas(key);
        // One whose clock is wrong does nothing for clients.
        let may_write = |node: &u16| {
            *node == self.shared.me() || self.is_up(*node) && self.clocks.is_near(*node)
        };
        let first = replicas.into_iter().find(may_write)?;
        // Nobody gets through to one that drains, and this node does.
        if self.neighbours.is_draining(first) {
            return None;
        }
        let node = self.shared.layout().node(first)?;
        // There is no URL of this node.
        self.urls.get(&node.address).map(|url| &**url)
    }

    /// Whether a node answers.
    pub(crate) fn is_up(&self, node: u16) -> bool {
        node == self.shared.me() || self.neighbours.is_up(node)
    }

    /// Why a node takes no part, though it is there.
    pub(crate) fn apart(&self, node: u16) -> Option<String> {
        self.neighbours.apart(node)
    }

    /// What is told of the hints for a node.
    pub(crate) fn hint_counts(&self, node: u16) -> Option<Arc<Counts>> {
        self.neighbours.hint_counts(node)
    }

    /// How this node stands among the others.
    pub(crate) fn standing(&self) -> Membership {
        self.members.standing()
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.asker.under_way.load(Ordering::Acquire) == 0
    }
}

/// The URLs of all nodes but this one.
fn urls(settings: &ClusterSettings) -> HashMap<Box<str>, Box<str>> {
    let urls = settings.nodes.iter().zip(&settings.urls);
    let others = urls.filter(|(node, _)| **node != settings.node);
    others
        .map(|(node, url)| (node.to_string().into(), url.as_str().into()))
        .collect()
}

impl Drop for Cluster {
    /// Ends the thread, which has the address and the engine.
    fn drop(&mut self) {
        self.members.end();
        drop(self.life.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Their threads end now, since nobody answers them any more.
        self.neighbours.clear();
    }
}

struct Parts {
    secret: Arc<str>,
    shared: Arc<Shared>,
    under_way: Arc<AtomicUsize>,
    clocks: Arc<Clocks>,
    members: Arc<Members>,
}

type Events = (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>);

/// The thread.
fn live(
    parts: Parts,
    listener: std::net::TcpListener,
    (events, happened): Events,
    ended: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return;
    };
    runtime.block_on(async move {
        let Parts {
            secret,
            shared,
            under_way,
            clocks,
            members,
        } = parts;
        let server = serve::Server {
            shared: Arc::clone(&shared),
            secret: Arc::clone(&secret),
            events: events.clone(),
            members,
        };
        let hub = Hub::new(shared, secret, events, (under_way, clocks));
        let Ok(listener) = TcpListener::from_std(listener) else {
            return;
        };
        tokio::select! {
            () = hub.run(happened) => {}
            () = serve::accept(listener, server) => {}
            _ = ended => {}
        }
    });
}

/// Gives answers to clients, for the price of one wake-up for each worker.
fn give(answers: Vec<(Replier, Answer)>) {
    if !answers.is_empty() {
        Replier::answer_all(answers.into_iter());
    }
}

#[cfg(test)]
mod tests;
