//! Reads that ask one other node, by connections of the worker whose client it is.
//!
//! ```text
//! worker ═══► the engine of another node (serve, there)
//!        ◄═══
//! ```
//!
//! Such a read has nothing to coordinate, and by way of the hub it wakes another thread, there and back. Whatever is not as usual goes
//! to the hub all the same: a node that is away, nodes that come or go, and what is not answered by a cell.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Shared;
use super::hello;
use super::hub::{Asked, Client, DEADLINE, Event};
use super::line::{Lost, Outbox, PING_ID, Unsent, outbox};
use super::neighbours::Neighbours;
use super::peer;
use crate::coordinator::{Answer, Operation, Quorum};
use crate::frame::{Frame, Say};
use crate::placement::Node;

/// How long a worker leaves a node to the hub when a connection to it has ended, or has not come about.
const PAUSE: Duration = Duration::from_millis(100);
/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(250);

/// A read of one node.
pub(super) struct Read {
    pub(super) key: Bytes,
    pub(super) client: Client,
}

/// The connections of all workers.
pub(super) struct Direct {
    shared: Arc<Shared>,
    secret: Arc<str>,
    neighbours: Arc<Neighbours>,
    hub: mpsc::UnboundedSender<Event>,
    /// How many requests are under way, these among them.
    count: Arc<AtomicUsize>,
    links: Mutex<Vec<Link>>,
}

/// The connection of a worker to a node. There is one for each of both.
struct Link {
    thread: ThreadId,
    node: u16,
    outbox: Outbox,
    under_way: Arc<UnderWay>,
}

/// What a connection is asked for.
struct UnderWay {
    is_up: AtomicBool,
    is_over: AtomicBool,
    reads: Mutex<Reads>,
    hub: mpsc::UnboundedSender<Event>,
    count: Arc<AtomicUsize>,
}

/// The reads under way and when they end, in their order, from the first that is. Each has a number, one more than that before it.
#[derive(Default)]
struct Reads {
    awaited: VecDeque<(Instant, Option<Read>)>,
    /// How many there were that are over.
    over: u64,
}

impl Reads {
    /// One more, with its number.
    fn begin(&mut self, read: Read) -> u64 {
        self.awaited
            .push_back((Instant::now() + DEADLINE, Some(read)));
        self.over + self.awaited.len() as u64
    }

    /// That one is over; `None` if it was before.
    fn take(&mut self, id: u64) -> Option<Read> {
        let at = id.checked_sub(self.over + 1)?;
        let read = self.awaited.get_mut(at as usize)?.1.take();
        self.forget(|_, read| read.is_none());
        read
    }

    /// Takes out the first ones, as long as they are like this.
    fn forget(&mut self, is_over: impl Fn(Instant, &Option<Read>) -> bool) -> Vec<Read> {
        let mut forgotten = Vec::new();
        while let Some((until, read)) = self.awaited.front()
            && is_over(*until, read)
        {
            self.over += 1;
            forgotten.extend(self.awaited.pop_front().and_then(|(_, read)| read));
        }
        forgotten
    }
}

impl Direct {
    pub(super) fn new(
        shared: &Arc<Shared>,
        secret: &Arc<str>,
        neighbours: &Arc<Neighbours>,
        (hub, count): (mpsc::UnboundedSender<Event>, Arc<AtomicUsize>),
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            secret: Arc::clone(secret),
            neighbours: Arc::clone(neighbours),
            hub,
            count,
            links: Mutex::default(),
        }
    }

    /// Asks the node that has the key, if this thread may ask it by itself.
    ///
    /// # Errors
    /// It is left to the hub.
    pub(super) fn ask(&self, read: Read) -> Result<(), Read> {
        let layout = self.shared.layout();
        let map = &layout.now.map;
        let owner = &map.nodes()[map.first(&read.key)];
        let is_usual = layout.next.is_none() && owner.id != self.shared.me();
        if !is_usual || self.shared.is_off(true) {
            return Err(read);
        }
        let thread = std::thread::current().id();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = |link: &Link| link.thread == thread && link.node == owner.id;
        if let Some(link) = links.iter().find(|link| is_own(link))
            && !link.under_way.is_over.load(Ordering::Acquire)
        {
            return link.ask(layout.epoch(), read);
        }
        // A thread that is no worker has no runtime.
        if self.neighbours.is_up(owner.id)
            && let Ok(runtime) = Handle::try_current()
        {
            links.retain(|link| !link.under_way.is_over.load(Ordering::Acquire));
            links.push(self.link(&runtime, thread, owner));
        }
        Err(read)
    }

    fn link(&self, runtime: &Handle, thread: ThreadId, node: &Node) -> Link {
        let (outbox, unsent) = outbox();
        let under_way = Arc::new(UnderWay {
            is_up: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            reads: Mutex::default(),
            hub: self.hub.clone(),
            count: Arc::clone(&self.count),
        });
        // Not the shared parts: the engine of a store that is dropped is closed, whatever its connections do.
        let own = self.shared.own(&self.secret);
        let greeting = Greeting {
            own: own.address.into(),
            secret: Arc::clone(&self.secret),
            cluster: own.cluster,
            to: node.address.clone(),
        };
        runtime.spawn(converse(greeting, unsent, Arc::clone(&under_way)));
        Link {
            thread,
            node: node.id,
            outbox,
            under_way,
        }
    }
}

impl Link {
    fn ask(&self, epoch: u64, read: Read) -> Result<(), Read> {
        if !self.under_way.is_up.load(Ordering::Acquire) {
            return Err(read);
        }
        let say = Say::Read(read.key.clone());
        let id = self.under_way.lock().begin(read);
        if self.outbox.put(Frame { epoch, id, say }) {
            return Ok(());
        }
        let left = self.under_way.lock().take(id);
        left.map_or(Ok(()), Err)
    }
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the node says, or that it says nothing.
    fn hear(&self, id: u64, say: Result<Say, Lost>) {
        if id == PING_ID {
            return self.is_up.store(true, Ordering::Release);
        }
        let Some(read) = self.lock().take(id) else {
            return;
        };
        match say {
            Ok(Say::Found(cell)) => self.answer(read, Answer::Found(cell)),
            // It has waited long enough.
            Err(Lost::Silent) => self.answer(read, Answer::TooFew),
            _ => self.leave_to_hub(read),
        }
    }

    fn answer(&self, read: Read, answer: Answer) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        if let Some((replier, answer)) = read.client.told(answer) {
            replier.answer(answer);
        }
    }

    fn leave_to_hub(&self, read: Read) {
        let Read { key, client } = read;
        // If the thread is gone, so is the replier: the client gets a 500.
        let _ = self.hub.send(Event::Ask(Asked {
            operation: Operation::Get,
            key,
            quorum: Quorum { ack: 1, from: 1 },
            client,
            is_in_order: false,
            until_ms: None,
        }));
    }

    /// Whoever has waited for too long is told so, again and again.
    async fn give_up_late(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            let now = Instant::now();
            let late = self.lock().forget(|until, _| until <= now);
            for read in late {
                self.answer(read, Answer::TooFew);
            }
        }
    }

    /// Nothing is asked here any more.
    fn end(&self) {
        self.is_up.store(false, Ordering::Release);
        let reads = self.lock().forget(|_, _| true);
        for read in reads {
            self.leave_to_hub(read);
        }
    }
}

/// What this node says of itself, and where.
struct Greeting {
    own: Box<str>,
    secret: Arc<str>,
    cluster: u64,
    to: Box<str>,
}

/// The end of a connection, also where its thread ends before.
struct Ends(Arc<UnderWay>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
        self.0.is_over.store(true, Ordering::Release);
    }
}

/// The life of a connection.
async fn converse(greeting: Greeting, mut unsent: Unsent, under_way: Arc<UnderWay>) {
    let ends = Ends(Arc::clone(&under_way));
    let own = hello::Own {
        address: &greeting.own,
        secret: &greeting.secret,
        cluster: greeting.cluster,
    };
    let connecting = peer::connect(own, &greeting.to);
    if let Ok(Ok(stream)) = tokio::time::timeout(peer::CONNECT, connecting).await {
        let hear = |id, said: Result<Frame, Lost>| {
            under_way.hear(id, said.map(|frame| frame.say));
        };
        tokio::select! {
            _ = unsent.converse(stream, hear) => {}
            () = under_way.give_up_late() => {}
        }
    }
    under_way.end();
    tokio::time::sleep(PAUSE).await;
    drop(ends);
}

#[cfg(test)]
mod tests;
