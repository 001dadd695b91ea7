//! The nodes of a store: what this one asks of the others, and does for them.
//!
//! ```text
//! worker ──► hub: one coordinator for each request ──► own engine
//!             ▲  ▲                              └───► peer ══► the engine of another node
//!             │  └── what engines and peers answer           (serve, there)
//! answers ◄───┘
//! ```
//!
//! All of it is one thread with a runtime of its own. Requests that only concern this node never come here.

mod asker;
mod call;
pub(crate) mod hello;
mod hints;
mod hub;
pub(crate) mod line;
mod merged;
mod pages;
mod peer;
mod repair;
pub(crate) mod serve;
mod shared;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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
pub use self::repair::{Repair, Upkeep};
pub(crate) use self::shared::Shared;

use self::hints::Hints;
use self::hub::{Event, Hub};
use self::peer::Peer;
use crate::coordinator;
use crate::engine::{Engine, EngineError};
use crate::placement::Map;
use crate::version::Clock;

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
    /// Where hints for other nodes are kept.
    pub hints: PathBuf,
    /// How long hints are worth sending.
    pub hints_age: Duration,
    /// What they know each other by; empty where nobody else reaches them.
    pub secret: String,
}

/// A node among others.
pub(crate) struct Cluster {
    pub(crate) shared: Arc<Shared>,
    pub(crate) asker: Asker,
    /// Which of the others answer.
    up: HashMap<u16, Arc<AtomicBool>>,
    /// Where clients reach the routes of a node.
    urls: HashMap<u16, Box<str>>,
    /// Dropped, the thread ends.
    life: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Their threads end when the one above has, which answers them.
    hints: HashMap<u16, Hints>,
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
    /// The addresses make no cluster, or this node's cannot be listened on.
    pub(crate) fn start(
        settings: &ClusterSettings,
        engine: Arc<dyn Engine>,
    ) -> Result<Self, String> {
        let names: Vec<String> = settings.nodes.iter().map(ToString::to_string).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        let map = Map::new(&names).map_err(|error| error.to_string())?;
        let own = settings.node.to_string();
        let me = map.node(&own).map(|node| node.id);
        let me = me.ok_or_else(|| format!("{own} is not among the nodes"))?;
        engine.claim(&format!("{own} of {}", names.join(", ")))?;
        let (newest, run) = engine.opened();
        let shared = Arc::new(Shared {
            clock: Mutex::new(Clock::new(me, run, newest)),
            engine,
            replicas: settings.replicas,
            fingerprint: map.fingerprint() ^ settings.replicas as u64,
            map,
            me,
            tally: Arc::default(),
        });
        let failed =
            |error: std::io::Error| format!("cannot listen on {own} for other nodes: {error}");
        let listener = std::net::TcpListener::bind(settings.node).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (events, happened) = mpsc::unbounded_channel();
        let (life, ended) = oneshot::channel();
        let mut cluster = Self {
            shared: Arc::clone(&shared),
            asker: Asker {
                shared: Arc::clone(&shared),
                events: events.clone(),
                under_way: Arc::default(),
            },
            up: shared
                .others()
                .map(|node| (node.id, Arc::default()))
                .collect(),
            urls: urls(settings, &shared.map),
            life: Some(life),
            thread: None,
            hints: HashMap::new(),
        };
        cluster.open_hints(settings)?;
        let parts = Parts {
            secret: settings.secret.as_str().into(),
            shared,
            under_way: Arc::clone(&cluster.asker.under_way),
            up: cluster.up.clone(),
            keepers: cluster
                .hints
                .iter()
                .map(|(&node, hints)| (node, hints.keeper()))
                .collect(),
        };
        let thread = std::thread::Builder::new().name("kv nodes".to_owned());
        let live = move || live(parts, listener, (events, happened), ended);
        let thread = thread.spawn(live);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        cluster.thread = Some(thread);
        Ok(cluster)
    }

    fn open_hints(&mut self, settings: &ClusterSettings) -> Result<(), String> {
        let calls = self.calls();
        for (&id, is_up) in &self.up {
            let address = self.shared.map.nodes().iter().find(|node| node.id == id);
            let name = address.map_or(String::new(), |node| {
                node.address.replace([':', '[', ']'], "_")
            });
            let path = settings.hints.join(name);
            let hints = Hints::open(
                &path,
                (id, Arc::clone(is_up)),
                calls.clone(),
                settings.hints_age,
            )?;
            self.hints.insert(id, hints);
        }
        Ok(())
    }

    /// Asks the other nodes, from threads that may wait.
    pub(crate) fn calls(&self) -> Calls {
        Calls {
            shared: Arc::clone(&self.shared),
            events: Some(self.asker.events.clone()),
        }
    }

    /// Where clients reach the node whose turn it is with a key, if that is another one and its URL is known.
    pub(crate) fn elsewhere(&self, key: &[u8]) -> Option<&str> {
        let replicas = self.shared.replicas(key, self.shared.replicas);
        let first = replicas.into_iter().find(|node| self.is_up(*node))?;
        // There is no URL of this node.
        self.urls.get(&first).map(|url| &**url)
    }

    /// Whether a node answers.
    pub(crate) fn is_up(&self, node: u16) -> bool {
        node == self.shared.me
            || self
                .up
                .get(&node)
                .is_some_and(|up| up.load(Ordering::Acquire))
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.asker.under_way.load(Ordering::Acquire) == 0
    }
}

/// The URLs of all nodes but this one.
fn urls(settings: &ClusterSettings, map: &Map) -> HashMap<u16, Box<str>> {
    let urls = settings.nodes.iter().zip(&settings.urls);
    let others = urls.filter(|(node, _)| **node != settings.node);
    let id = |node: &SocketAddr| map.node(&node.to_string()).map(|node| node.id);
    others
        .filter_map(|(node, url)| Some((id(node)?, url.as_str().into())))
        .collect()
}

impl Drop for Cluster {
    /// Ends the thread, which has the address and the engine.
    fn drop(&mut self) {
        drop(self.life.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Parts {
    secret: Arc<str>,
    shared: Arc<Shared>,
    under_way: Arc<AtomicUsize>,
    up: HashMap<u16, Arc<AtomicBool>>,
    keepers: HashMap<u16, hints::Keeper>,
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
            mut up,
            keepers,
        } = parts;
        let peers = shared.others().map(|node| {
            let is_up = up.remove(&node.id).unwrap_or_default();
            let peer = Peer::start((node.clone(), is_up), &shared, &secret, events.clone());
            (node.id, peer)
        });
        let server = serve::Server {
            shared: Arc::clone(&shared),
            secret: Arc::clone(&secret),
            events: events.clone(),
        };
        let hub = Hub::new(
            Arc::clone(&shared),
            (peers.collect(), keepers),
            events,
            under_way,
        );
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
