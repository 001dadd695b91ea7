//! The connection to one node: kept as long as the client lives, and made again when it ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;

use super::attempts::Came;
use crate::cluster::hello;
use crate::cluster::line::{Lost, Outbox, PING_ID, Unsent, outbox};
use crate::cluster::serve::ASKS_MAX;
use crate::frame::{Frame, Say, What};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(1);
/// How long to wait before the next attempt: at first so little that a node that was started again is soon used, later less often.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(2);

/// Whether a node can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// The first connection is being made.
    Unknown,
    Up,
    /// It cannot, for this reason.
    Down(String),
}

/// Those who wait for answers, by the numbers of their requests.
type Waiters = Arc<Mutex<HashMap<u64, Waiter>>>;

/// One who waits for an answer.
#[derive(Debug)]
struct Waiter {
    came: oneshot::Sender<Came>,
    is_write: bool,
}

/// What the wall clock of the node has said, and when.
type Clock = Arc<Mutex<Option<(u64, Instant)>>>;

/// A node, as a client asks it.
#[derive(Debug)]
pub(super) struct Link {
    outbox: Outbox,
    state: watch::Receiver<State>,
    waiters: Waiters,
    clock: Clock,
    next_id: AtomicU64,
    /// A node refuses more.
    room: Semaphore,
}

impl Link {
    /// Connects to the node at this address.
    pub(super) fn start(address: &str, secret: &Arc<str>) -> Self {
        let (outbox, unsent) = outbox();
        let (state, seen) = watch::channel(State::Unknown);
        let (waiters, clock) = (Waiters::default(), Clock::default());
        let connector = Connector {
            address: address.into(),
            secret: Arc::clone(secret),
            state,
            waiters: Arc::clone(&waiters),
            clock: Arc::clone(&clock),
        };
        tokio::spawn(connector.run(unsent));
        Self {
            outbox,
            state: seen,
            waiters,
            clock,
            next_id: AtomicU64::new(1),
            room: Semaphore::new(ASKS_MAX),
        }
    }

    /// Asks the node. What is lost at the deadline may still be sent; a node does not begin then.
    pub(super) async fn ask(&self, epoch: u64, mut say: Say, deadline: Instant) -> Came {
        let mut state = self.state.clone();
        let known = state.wait_for(|state| *state != State::Unknown);
        match tokio::time::timeout_at(deadline, known).await {
            Ok(Ok(state)) => {
                if let State::Down(why) = &*state {
                    return Came::NotAsked(why.clone());
                }
            }
            Ok(Err(_)) => return Came::NotAsked("the runtime ends".to_owned()),
            Err(_) => return Came::NotAsked("no time was left to connect".to_owned()),
        }
        let Ok(_room) = tokio::time::timeout_at(deadline, self.room.acquire()).await else {
            return Came::NotAsked("too many requests wait for it".to_owned());
        };
        let mut is_write = false;
        if let Say::Ask(ask) = &mut say {
            ask.until_ms = self.until_ms(deadline);
            is_write = ask.what != What::Get;
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, came) = oneshot::channel();
        let waiter = Waiter {
            came: sender,
            is_write,
        };
        lock(&self.waiters).insert(id, waiter);
        if !self.outbox.put(Frame { epoch, id, say }) {
            lock(&self.waiters).remove(&id);
            return Came::NotAsked("too many requests wait for it".to_owned());
        }
        // Whoever drops this waits no more.
        let _waits = Waits(&self.waiters, id);
        match tokio::time::timeout_at(deadline, came).await {
            Ok(Ok(came)) => came,
            Ok(Err(_)) => Came::Lost("the runtime ends".to_owned()),
            Err(_) => Came::Lost("it has not answered in time".to_owned()),
        }
    }
}

impl Link {
    /// What the node's clock says at the deadline, if that is known.
    fn until_ms(&self, deadline: Instant) -> Option<u64> {
        let (wall_ms, heard) = (*lock(&self.clock))?;
        let since = deadline.saturating_duration_since(heard);
        Some(wall_ms.saturating_add(since.as_millis() as u64))
    }
}

/// Somebody who waits.
struct Waits<'w>(&'w Waiters, u64);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        lock(self.0).remove(&self.1);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a connection to a node.
struct Connector {
    address: Box<str>,
    secret: Arc<str>,
    state: watch::Sender<State>,
    waiters: Waiters,
    clock: Clock,
}

impl Connector {
    async fn run(self, mut unsent: Unsent) {
        let mut pause = AGAIN;
        while !unsent.is_closed() {
            let connecting = connect(&self.address, &self.secret);
            let why = match tokio::time::timeout(CONNECT, connecting).await {
                Ok(Ok(stream)) => {
                    pause = AGAIN;
                    if unsent
                        .converse(stream, |id, said| self.hear(id, said))
                        .await
                    {
                        return;
                    }
                    "the connection has ended".to_owned()
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "it takes too long to connect".to_owned(),
            };
            *lock(&self.clock) = None;
            self.state.send_replace(State::Down(why.clone()));
            unsent.give_up(|id| self.tell(id, Came::NotAsked(why.clone())));
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(AGAIN_MAX);
        }
    }

    fn hear(&self, id: u64, said: Result<Frame, Lost>) {
        match said.map(|frame| frame.say) {
            Ok(Say::Pong(presence)) if id == PING_ID => {
                *lock(&self.clock) = Some((presence.clocks.wall_ms, Instant::now()));
                // Not before: what is asked says until when it may be begun.
                self.state.send_if_modified(|state| {
                    let was_up = std::mem::replace(state, State::Up) == State::Up;
                    !was_up
                });
            }
            Ok(say) => self.tell(id, Came::Said(say)),
            // It may be made until its deadline, which whoever waits for it knows.
            Err(Lost::Silent) if self.is_write(id) => {}
            Err(lost) => self.tell(id, Came::lost(lost)),
        }
    }

    fn is_write(&self, id: u64) -> bool {
        let waiters = lock(&self.waiters);
        waiters.get(&id).is_some_and(|waiter| waiter.is_write)
    }

    fn tell(&self, id: u64, came: Came) {
        let waiter = lock(&self.waiters).remove(&id);
        if let Some(waiter) = waiter {
            // It may have stopped waiting just now.
            let _ = waiter.came.send(came);
        }
    }
}

async fn connect(address: &str, secret: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    hello::ask_as_client(&mut stream, secret, address).await?;
    Ok(stream)
}
