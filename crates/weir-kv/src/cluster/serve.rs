//! What this node does for the others, whose own cells it reads and writes; and for clients that know the map.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::Shared;
use super::hello;
use super::hub::{Client, Event, Order};
use super::members::Members;
use super::pages;
use crate::cell::Cell;
use crate::engine::EngineError;
use crate::frame::{Ask, Change, Frame, Page, Say, What, Why};
use crate::layout::{self, Layout, Placement};
use crate::tally::{Ended, Kind};
use crate::version::Version;
use crate::wall::unix_ms;

/// Connections whose other end has not proved yet that it is a node.
const STRANGERS_MAX: usize = 64;
/// How long a node may take to say who it is.
const HELLO: Duration = Duration::from_secs(1);
/// A node pings several times a second. One that has said nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(5);
/// Bytes that are sent at once, about.
const PIECE_BYTES: usize = 256 << 10;
/// Requests of a connection that are under way: those that concern this node's own cells, and those that may wait for other nodes,
/// which must not hold up the former.
const UNDER_WAY_MAX: usize = 1024;
pub(crate) const ASKS_MAX: usize = 1024;
/// Bytes of answers that wait for a node to take them. It is heard no further with more.
const OWED_BYTES_MAX: usize = 64 << 20;
const OWED_PAUSE: Duration = Duration::from_millis(2);
const BATCH_MAX: usize = 512;
const READ_BYTES: usize = 64 << 10;
/// How long to wait after an accept has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An answer that waits to be sent, and what it takes until then.
type Owed = (Frame, Option<OwnedSemaphorePermit>);
type Answers = mpsc::UnboundedSender<Owed>;

/// Who is at the other end of a connection.
struct Caller {
    /// The number of a node; none for a client.
    node: Option<u16>,
    answers: Answers,
    under_way: Arc<Semaphore>,
    asks: Arc<Semaphore>,
    owed_bytes: Arc<AtomicUsize>,
}

/// What answers need.
pub(super) struct Server {
    pub(super) shared: Arc<Shared>,
    pub(super) secret: Arc<str>,
    /// Those of the hub.
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) members: Arc<Members>,
}

/// Accepts other nodes.
pub(super) async fn accept(listener: TcpListener, server: Server) {
    let server = Arc::new(server);
    let strangers = [STRANGERS_MAX; 2].map(|most| Arc::new(Semaphore::new(most)));
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // With too many strangers, one more is turned away. A node tries again. Machines that have nodes are counted apart, so that
        // nobody else keeps them out.
        let is_from_node = server.shared.others().any(|node| {
            let address: Option<SocketAddr> = node.address.parse().ok();
            address.is_some_and(|address| address.ip() == from.ip())
        });
        let strangers = Arc::clone(&strangers[usize::from(is_from_node)]);
        if let Ok(permit) = strangers.try_acquire_owned() {
            tokio::spawn(serve(stream, Arc::clone(&server), permit));
        }
    }
}

async fn serve(mut stream: TcpStream, server: Arc<Server>, stranger: OwnedSemaphorePermit) {
    let _ = stream.set_nodelay(true);
    let node = |address: &str| {
        let is_member = server.shared.is_member();
        let node = server.shared.layout().node_at(address);
        node.filter(|_| is_member)
    };
    let is_known = |address: &str| node(address).is_some();
    let own = server.shared.own(&server.secret);
    let greeting = hello::answer(&mut stream, own, is_known);
    let Ok(Ok(caller)) = tokio::time::timeout(HELLO, greeting).await else {
        return;
    };
    let node = match caller {
        hello::Caller::Client => None,
        hello::Caller::Node(address) => match node(&address) {
            Some(node) => Some(node.id),
            // It has gone in this moment.
            None => return,
        },
    };
    drop(stranger);
    let (reader, writer) = stream.into_split();
    let (answers, given) = mpsc::unbounded_channel();
    let caller = Caller {
        node,
        answers,
        under_way: Arc::new(Semaphore::new(UNDER_WAY_MAX)),
        asks: Arc::new(Semaphore::new(ASKS_MAX)),
        owed_bytes: Arc::default(),
    };
    tokio::select! {
        () = read(reader, &server, &caller) => {}
        () = write(writer, given, &caller.owed_bytes) => {}
    }
}

async fn read(mut reader: OwnedReadHalf, server: &Server, caller: &Caller) {
    let mut bytes = BytesMut::with_capacity(READ_BYTES);
    loop {
        bytes.reserve(READ_BYTES);
        match tokio::time::timeout(SILENCE, reader.read_buf(&mut bytes)).await {
            Ok(Ok(1..)) => {}
            _ => return,
        }
        loop {
            match Frame::decode(&mut bytes) {
                Ok(Some(frame)) => {
                    while caller.owed_bytes.load(Ordering::Acquire) > OWED_BYTES_MAX {
                        tokio::time::sleep(OWED_PAUSE).await;
                    }
                    let under_way = Arc::clone(&caller.under_way);
                    let permit = match &frame.say {
                        // Whatever else waits, a node that is there says so.
                        Say::Ping | Say::Which | Say::Standing => None,
                        Say::Ask(_) => Arc::clone(&caller.asks).try_acquire_owned().ok(),
                        _ => under_way.acquire_owned().await.ok(),
                    };
                    carry_out(frame, server, caller, permit);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// Does what a frame asks for.
fn carry_out(frame: Frame, server: &Server, caller: &Caller, permit: Option<OwnedSemaphorePermit>) {
    if caller.node.is_some() {
        server.shared.hear_epoch(frame.epoch);
    }
    let layout = server.shared.layout();
    let (id, epoch) = (frame.id, layout.epoch());
    let has_room = permit.is_some();
    let (sender, owed_bytes) = (caller.answers.clone(), Arc::clone(&caller.owed_bytes));
    let answer = move |say: Say| {
        owed_bytes.fetch_add(say.bytes(), Ordering::AcqRel);
        let _ = sender.send((Frame { epoch, id, say }, permit));
    };
    match frame.say {
        Say::Ping => answer(Say::Pong(server.shared.presence())),
        Say::Standing => answer(Say::Membership(server.members.standing())),
        Say::Change(change) => follow(Arc::clone(&server.members), change, answer),
        _ if caller.node.is_none() && !server.shared.is_member() => {
            let text = "this node has not joined its cluster yet, or has left it".to_owned();
            answer(Say::Refused(Why::Stranger, text));
        }
        Say::Which => answer(Say::Map(layout.now.replicas as u8, layout.now.map.encode())),
        _ if server.shared.is_behind() => {
            let text = "the map here is an old one".to_owned();
            answer(Say::Refused(Why::Epoch, text));
        }
        _ if !layout::have_common(frame.epoch, epoch) || is_stranger(server, caller) => {
            let text = format!(
                "the map here has the epoch {}, and the one that was asked by {}",
                layout.now.map.epoch(),
                frame.epoch & u64::from(u32::MAX)
            );
            answer(Say::Refused(Why::Epoch, text));
        }
        // What is forgotten has to be forgotten by all, and all have to go by the same map for that.
        Say::Drop(..) if frame.epoch != epoch => {
            let text = "nodes come or go".to_owned();
            answer(Say::Refused(Why::Epoch, text));
        }
        Say::Ask(_) if !has_room => {
            let text = "too many requests of this node are under way here".to_owned();
            answer(Say::Refused(Why::Busy, text));
        }
        Say::Ask(ask) => {
            // Another node has looked already, maybe by a map that this one does not have.
            let unfit = unfit(&layout, &ask).filter(|_| caller.node.is_none());
            match unfit {
                Some(why) => answer(Say::Refused(Why::Failed, why)),
                None => begin(ask, server, caller.node.is_some(), answer),
            }
        }
        say => match (caller.node, say) {
            (Some(node), say) => own(&server.shared, node, say, answer),
            (None, Say::Scan(has_values, span)) => {
                let live = |page: Page| Say::Page(page.live_at(unix_ms()));
                let then = move |page: Result<_, _>| answer(told(page.map(live)));
                pages::page(&*server.shared.engine, span, has_values, then);
            }
            (None, _) => answer(Say::Refused(
                Why::Failed,
                "a client may not do that".to_owned(),
            )),
        },
    }
}

/// Does what is asked for a key, or has it done.
fn begin(ask: Ask, server: &Server, is_node: bool, answer: impl FnOnce(Say) + Send + 'static) {
    // What another node forwards is counted there.
    let begun = (!is_node).then(|| server.shared.tally.begin(Kind::of(&ask.what)));
    // The clocks of clients may be anything: this one says what has expired.
    let client = Client::Node(Box::new(move |came| {
        if let Some(begun) = begun {
            begun.end(came.as_ref().map_or(Ended::Busy, Ended::of_answer));
        }
        answer(match came {
            Ok(told) => Say::Told(told.live_at(unix_ms())),
            Err(why) => Say::Refused(why, why.of_ask().to_owned()),
        });
    }));
    let order = Order {
        ask,
        client,
        // A client may find a node down that the others do not, and two nodes must not order the writes of a key.
        is_for_me: is_node,
    };
    // If the hub is gone, so is this connection soon.
    let _ = server.events.send(Event::Order(order));
}

/// Why a client may not ask for so many replicas, or not with its condition: what is refused over HTTP is not taken here. While nodes come
/// or go, either map will do, since it knows one of them.
fn unfit(layout: &Layout, ask: &Ask) -> Option<String> {
    let quorum = ask.quorum;
    let is_conditional = ask.what != What::Get && !ask.condition.is_none();
    let why = |placement: &Placement| {
        let nodes = placement.map.nodes().len();
        if quorum.from > nodes {
            return Some(format!(
                "from is {}, and there are {nodes} nodes",
                quorum.from
            ));
        }
        let is_weak = is_conditional && !quorum.may_decide(placement.replicas);
        is_weak.then(|| quorum.indecision(placement.replicas))
    };
    let next = layout.next.as_ref().map(|next| &next.placement);
    let is_fit = next.is_some_and(|next| why(next).is_none());
    why(&layout.now).filter(|_| !is_fit)
}

/// Does what a change of nodes asks for. It waits for the disk, and other nodes are not to wait for that.
fn follow(members: Arc<Members>, change: Change, answer: impl FnOnce(Say) + Send + 'static) {
    tokio::task::spawn_blocking(move || {
        answer(match members.change(&change) {
            Ok(()) => Say::Membership(members.standing()),
            Err(why) => Say::Refused(Why::Failed, why),
        });
    });
}

/// Whether the caller is a node that is none any more, whatever it knows of that: nobody waits for what it has under way.
fn is_stranger(server: &Server, caller: &Caller) -> bool {
    caller
        .node
        .is_some_and(|node| !server.shared.is_heard(node))
}

/// Does with this node's own cells what `node` asks for.
pub(super) fn own(
    shared: &Arc<Shared>,
    node: u16,
    say: Say,
    answer: impl FnOnce(Say) + Send + 'static,
) {
    match say {
        Say::Read(key) => read_own(shared, key, answer),
        Say::Write(key, cell) => write_own(shared, key, cell, None, answer),
        Say::WriteOver(over, key, cell) => write_own(shared, key, cell, Some(over), answer),
        Say::Scan(has_values, span) => {
            let then = |page: Result<_, _>| answer(told(page.map(Say::Page)));
            pages::page(&*shared.engine, span, has_values, then);
        }
        Say::Digest(before, span) => {
            let then = |digest: Result<_, _>| {
                answer(told(
                    digest.map(|(digest, next)| Say::Digested(digest, next)),
                ));
            };
            pages::digest(shared, node, before, span, then);
        }
        Say::Drop(version, key) => {
            let then = move |dropped: Result<Option<Version>, EngineError>| {
                answer(told(dropped.map(|newer| Say::Written { version, newer })));
                None
            };
            shared.engine.forget(key, version, Box::new(then));
        }
        _ => answer(Say::Refused(Why::Failed, "that is no request".to_owned())),
    }
}

fn told(result: Result<Say, EngineError>) -> Say {
    result.unwrap_or_else(|error| refused(&error))
}

fn read_own(shared: &Shared, key: Bytes, answer: impl FnOnce(Say) + Send + 'static) {
    if let Some(cell) = shared.engine.at_hand(&key) {
        return answer(Say::Found(Some(cell)));
    }
    let then = move |found: Result<_, _>| {
        answer(told(found.map(Say::Found)));
        None
    };
    shared.engine.read(key, Box::new(then));
}

fn write_own(
    shared: &Shared,
    key: Bytes,
    cell: Cell,
    over: Option<Version>,
    answer: impl FnOnce(Say) + Send + 'static,
) {
    let version = cell.version;
    if !shared.see(version) {
        let text = "the version is too far ahead of the clock here".to_owned();
        return answer(Say::Refused(Why::Clock, text));
    }
    let then = move |written: Result<_, _>| {
        answer(told(written.map(|newer| Say::Written { version, newer })));
        None
    };
    shared.engine.write(key, cell, over, Box::new(then));
}

fn refused(error: &EngineError) -> Say {
    let why = match error {
        EngineError::Busy => Why::Busy,
        EngineError::Failed(_) | EngineError::Refused(_) => Why::Failed,
        EngineError::NoRanges | EngineError::NoConditions => Why::Unable,
    };
    Say::Refused(why, error.to_string())
}

async fn write(
    mut writer: OwnedWriteHalf,
    mut given: mpsc::UnboundedReceiver<Owed>,
    owed_bytes: &AtomicUsize,
) {
    let (mut answers, mut bytes) = (Vec::with_capacity(BATCH_MAX), Vec::new());
    let (mut permits, mut sent_bytes) = (Vec::new(), 0);
    loop {
        if given.recv_many(&mut answers, BATCH_MAX).await == 0 {
            return;
        }
        let mut answers = answers.drain(..).peekable();
        while let Some((frame, permit)) = answers.next() {
            sent_bytes += frame.say.bytes();
            frame.encode(&mut bytes);
            permits.extend(permit);
            if bytes.len() < PIECE_BYTES && answers.peek().is_some() {
                continue;
            }
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
            bytes.clear();
            bytes.shrink_to(2 * PIECE_BYTES);
            permits.clear();
            owed_bytes.fetch_sub(std::mem::take(&mut sent_bytes), Ordering::AcqRel);
        }
    }
}
