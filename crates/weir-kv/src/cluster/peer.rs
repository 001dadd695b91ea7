//! This node's connection to another one: requests go out in batches, answers come back in any order.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Shared;
use super::hello;
use super::hub::Event;
use crate::frame::{Frame, Say};
use crate::placement::Node;
use crate::seldom::Seldom;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(1);
/// How long to wait before the next attempt: so little that a node that is back is soon used again.
const AGAIN: Duration = Duration::from_millis(100);
/// How often a node is asked whether it is there, which it answers at once whatever else it does.
const PING: Duration = Duration::from_millis(250);
/// A node that neither says anything for so long, nor makes room for what it is sent, is taken for down.
const SILENCE: Duration = Duration::from_secs(1);
/// What is sent in less has found room in the buffers of this machine: the other node has done nothing for it.
const WAITED: Duration = Duration::from_millis(1);
/// Frames that wait to be sent. More requests fail at once.
const WAITING_MAX: usize = 8192;
/// Frames that are sent at once.
const BATCH_MAX: usize = 512;
/// Bytes of requests that wait for a node. More fail at once.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes that are sent at once, about.
const PIECE_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 64 << 10;

/// Another node.
#[derive(Debug)]
pub(super) struct Peer {
    requests: mpsc::Sender<Request>,
    is_up: Arc<AtomicBool>,
    /// Bytes that wait to be sent.
    waiting: Arc<AtomicUsize>,
}

/// A request that waits to be sent, for an operation of this number.
struct Request {
    id: u64,
    say: Say,
    _room: Room,
}

/// Bytes of those that wait, which one takes until it is sent or given up.
struct Room {
    bytes: usize,
    waiting: Arc<AtomicUsize>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// What the two halves of a connection share.
struct Connected {
    node: u16,
    /// The operations of requests that are not answered, by the numbers of their frames: an operation may ask a node twice, and
    /// both answers count.
    awaited: Mutex<HashMap<u64, u64>>,
    next_frame: AtomicU64,
    events: mpsc::UnboundedSender<Event>,
    /// When something came from it, or it made room for more.
    moved: Mutex<Instant>,
    told: Seldom,
}

impl Peer {
    /// Connects to `node`, again and again.
    pub(super) fn start(
        (node, is_up): (Node, Arc<AtomicBool>),
        shared: &Arc<Shared>,
        secret: &Arc<str>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (requests, received) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        let peer = Self {
            requests,
            is_up: Arc::clone(&is_up),
            waiting,
        };
        let keeper = Keeper {
            node,
            shared: Arc::clone(shared),
            secret: Arc::clone(secret),
            events,
            is_up,
        };
        tokio::spawn(keeper.run(received));
        peer
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// Sends a request, unless the node is down or too much waits; whether it does.
    pub(super) fn send(&self, id: u64, say: Say) -> bool {
        let bytes = say.bytes();
        let before = self.waiting.fetch_add(bytes, Ordering::AcqRel);
        let waiting = Arc::clone(&self.waiting);
        let request = Request {
            id,
            say,
            _room: Room { bytes, waiting },
        };
        let has_room = before == 0 || before + bytes <= WAITING_BYTES_MAX;
        has_room && self.is_up() && self.requests.try_send(request).is_ok()
    }
}

/// Keeps a connection to a node.
struct Keeper {
    node: Node,
    shared: Arc<Shared>,
    secret: Arc<str>,
    events: mpsc::UnboundedSender<Event>,
    is_up: Arc<AtomicBool>,
}

impl Keeper {
    async fn run(self, mut received: mpsc::Receiver<Request>) {
        let told = Seldom::default();
        loop {
            let connecting = connect(&self.node, &self.shared, &self.secret);
            let connected = tokio::time::timeout(CONNECT, connecting).await;
            let is_over = match connected {
                Ok(Ok(stream)) => self.converse(stream, &mut received).await,
                // That it is away is nothing to tell of; that it does not know this node is.
                Ok(Err(error)) if error.kind() == ErrorKind::PermissionDenied => {
                    let address = &self.node.address;
                    told.tell(format_args!("kv: the node {address} is not asked: {error}"));
                    false
                }
                _ => false,
            };
            if is_over {
                return;
            }
            // What was sent before it was seen that the node is down.
            while let Ok(request) = received.try_recv() {
                let _ = self.events.send(Event::Failed(request.id, self.node.id));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Asks and hears until that fails; or until nothing more will come, which is true.
    async fn converse(&self, stream: TcpStream, received: &mut mpsc::Receiver<Request>) -> bool {
        let connected = Connected {
            node: self.node.id,
            awaited: Mutex::default(),
            // Pings have no answer that counts, and the number 0.
            next_frame: AtomicU64::new(1),
            events: self.events.clone(),
            moved: Mutex::new(Instant::now()),
            told: Seldom::default(),
        };
        self.is_up.store(true, Ordering::Release);
        let (reader, writer) = stream.into_split();
        let is_over = tokio::select! {
            () = connected.read(reader) => false,
            () = connected.watch() => false,
            is_over = connected.write(writer, received, self.shared.map.epoch()) => is_over,
        };
        self.is_up.store(false, Ordering::Release);
        connected.fail_all();
        is_over
    }
}

async fn connect(node: &Node, shared: &Shared, secret: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(&*node.address).await?;
    stream.set_nodelay(true)?;
    let own = shared.own(secret);
    hello::ask(&mut stream, own, &node.address).await?;
    Ok(stream)
}

impl Connected {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, u64>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers to these are awaited from now on. The number of the first one's frame; the others follow.
    fn note(&self, requests: &[Request]) -> u64 {
        let count = requests.len() as u64;
        let first = self.next_frame.fetch_add(count, Ordering::Relaxed);
        let ids = requests.iter().map(|request| request.id);
        self.lock().extend((first..).zip(ids));
        first
    }

    /// Something came, or there is room for more.
    fn move_on(&self) {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        *moved = Instant::now();
    }

    /// Ends when nothing has moved for too long. There is always a ping under way, so something is to come.
    async fn watch(&self) {
        loop {
            let moved = *self.moved.lock().unwrap_or_else(PoisonError::into_inner);
            if moved.elapsed() > SILENCE {
                return;
            }
            tokio::time::sleep(PING).await;
        }
    }

    /// Sends what waits, and pings, until that fails; or until nothing more will come, which is true.
    async fn write(
        &self,
        mut writer: OwnedWriteHalf,
        received: &mut mpsc::Receiver<Request>,
        epoch: u64,
    ) -> bool {
        let (mut requests, mut bytes) = (Vec::with_capacity(BATCH_MAX), Vec::new());
        let mut ping = tokio::time::interval(PING);
        loop {
            tokio::select! {
                count = received.recv_many(&mut requests, BATCH_MAX) => {
                    if count == 0 {
                        return true;
                    }
                }
                _ = ping.tick() => {
                    let say = Say::Ping;
                    Frame { epoch, id: 0, say }.encode(&mut bytes);
                    if writer.write_all(&bytes).await.is_err() {
                        return false;
                    }
                    bytes.clear();
                    continue;
                }
            }
            let first = self.note(&requests);
            let mut frames = (first..).zip(requests.drain(..)).peekable();
            while let Some((id, Request { say, .. })) = frames.next() {
                Frame { epoch, id, say }.encode(&mut bytes);
                if bytes.len() < PIECE_BYTES && frames.peek().is_some() {
                    continue;
                }
                for piece in bytes.chunks(PIECE_BYTES) {
                    let began = Instant::now();
                    if writer.write_all(piece).await.is_err() {
                        return false;
                    }
                    if began.elapsed() > WAITED {
                        self.move_on();
                    }
                }
                bytes.clear();
                bytes.shrink_to(2 * PIECE_BYTES);
            }
        }
    }

    /// Takes answers until the connection ends.
    async fn read(&self, mut reader: OwnedReadHalf) {
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        loop {
            bytes.reserve(READ_BYTES);
            match reader.read_buf(&mut bytes).await {
                Ok(1..) => self.move_on(),
                _ => return,
            }
            loop {
                match Frame::decode(&mut bytes) {
                    Ok(Some(frame)) => self.take(frame),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }

    fn take(&self, Frame { id, say, .. }: Frame) {
        let Some(id) = self.lock().remove(&id) else {
            return;
        };
        let event = match say {
            Say::Found(cell) => Event::Found(id, self.node, cell),
            Say::Written { version, newer } => Event::Written(id, self.node, version, newer),
            Say::Told(answer) => Event::Told(id, answer),
            Say::Refused(why, text) => {
                let node = self.node;
                self.told.tell(format_args!(
                    "kv: node number {node} refuses ({why:?}): {text}"
                ));
                Event::Failed(id, node)
            }
            say @ (Say::Page(_) | Say::Digested(..)) => Event::Replied(id, say),
            _ => Event::Failed(id, self.node),
        };
        let _ = self.events.send(event);
    }

    fn fail_all(&self) {
        for (_, id) in self.lock().drain() {
            let _ = self.events.send(Event::Failed(id, self.node));
        }
    }
}
