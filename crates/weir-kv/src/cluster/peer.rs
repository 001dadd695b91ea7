//! This node's connection to another one, which is made again and again.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_gateway::settings::Level;
use weir_gateway::tell::tell;

use super::Shared;
use super::hello;
use super::hub::Event;
use super::line::{Lost, Outbox, Unsent, outbox};
use super::reach::Reach;
use crate::frame::{Frame, Presence, Say};
use crate::layout::{self, Maps};
use crate::placement::Node;
use crate::seldom::Seldom;

/// How long a connection may take to come about.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// How long to wait before the next attempt: so little that a node that is back is soon used again.
const AGAIN: Duration = Duration::from_millis(100);

/// Another node.
#[derive(Debug)]
pub(super) struct Peer {
    outbox: Outbox,
    reach: Arc<Reach>,
    shared: Arc<Shared>,
}

impl Peer {
    /// Connects to `node`, again and again.
    pub(super) fn start(
        (node, reach): (Node, Arc<Reach>),
        shared: &Arc<Shared>,
        secret: &Arc<str>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (outbox, unsent) = outbox();
        let peer = Self {
            outbox,
            reach: Arc::clone(&reach),
            shared: Arc::clone(shared),
        };
        let keeper = Keeper {
            node,
            shared: Arc::clone(shared),
            secret: Arc::clone(secret),
            events,
            reach,
            strange: AtomicU32::new(0),
            told: Seldom::default(),
        };
        tokio::spawn(keeper.run(unsent));
        peer
    }

    pub(super) fn is_up(&self) -> bool {
        self.reach.is_up()
    }

    /// Sends a request, unless the node is down or too much waits; whether it does.
    pub(super) fn send(&self, id: u64, say: Say) -> bool {
        let epoch = self.shared.layout().epoch();
        self.is_up() && self.outbox.put(Frame { epoch, id, say })
    }
}

/// Keeps a connection to a node.
struct Keeper {
    node: Node,
    shared: Arc<Shared>,
    secret: Arc<str>,
    events: mpsc::UnboundedSender<Event>,
    reach: Arc<Reach>,
    /// How often in a row it has said that it has another map.
    strange: AtomicU32,
    told: Seldom,
}

impl Keeper {
    async fn run(self, mut unsent: Unsent) {
        let told = Seldom::default();
        loop {
            let own = self.shared.own(&self.secret);
            let connecting = connect(own, &self.node.address);
            let connected = tokio::time::timeout(CONNECT, connecting).await;
            let is_over = match connected {
                Ok(Ok(stream)) => {
                    let hear = |id, said| self.hear(id, said);
                    let is_over = unsent.converse(stream, hear).await;
                    self.reach.lose();
                    self.strange.store(0, Ordering::Relaxed);
                    let _ = self.events.send(Event::Clock(self.node.id, None));
                    is_over
                }
                // That it is away is nothing to tell of; that it does not know this node is.
                Ok(Err(error)) if error.kind() == ErrorKind::PermissionDenied => {
                    let address = &self.node.address;
                    told.tell(format_args!("kv: the node {address} is not asked: {error}"));
                    self.reach.part(error.to_string());
                    false
                }
                _ => {
                    self.reach.lose();
                    false
                }
            };
            if is_over {
                return;
            }
            // What was sent before it was seen that the node is down.
            unsent.give_up(|id| self.hear(id, Err(Lost::Closed)));
            if unsent.is_closed() {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// It answers a request, or has not.
    fn hear(&self, id: u64, said: Result<Frame, Lost>) {
        let node = self.node.id;
        let epoch = said.as_ref().map_or(0, |frame| frame.epoch);
        let event = match said.map(|frame| frame.say) {
            Ok(Say::Pong(presence)) => return self.meet(epoch, presence),
            Ok(Say::Found(cell)) => Event::Found(id, node, cell),
            Ok(Say::Written { version, newer }) => Event::Written(id, node, version, newer),
            Ok(Say::Told(answer)) => Event::Told(id, answer),
            Ok(Say::Refused(why, text)) => {
                self.told.tell(format_args!(
                    "kv: node number {node} refuses ({why:?}): {text}"
                ));
                Event::Refused(id, node, why, text)
            }
            Ok(say @ (Say::Page(_) | Say::Digested(..))) => Event::Replied(id, say),
            Err(Lost::Silent) => Event::Silent(id, node),
            _ => Event::Failed(id, node),
        };
        let _ = self.events.send(event);
    }

    /// It is there. Whether it does what it is asked to goes by its map.
    fn meet(&self, epoch: u64, presence: Presence) {
        let node = self.node.id;
        let heard = Some((presence.clocks, Instant::now()));
        let _ = self.events.send(Event::Clock(node, heard));
        let own = self.shared.layout().epoch();
        let [own_now, its_now] = [own, epoch].map(|epoch| epoch & u64::from(u32::MAX));
        let maps = layout::maps(own, epoch);
        let has_fallen_behind = self
            .shared
            .note_newer(node, (maps == Maps::Newer).then_some(its_now));
        if maps == Maps::InCommon {
            self.strange.store(0, Ordering::Relaxed);
            // Not before: whether it may write, and until when it may begin, goes by its clocks.
            return self.reach.work(presence.is_draining);
        }
        let address = &self.node.address;
        let said_before = self.strange.fetch_add(1, Ordering::Relaxed);
        // What was on its way for long may be of before a change, so the second time counts. That it has a newer map is never so.
        if maps != Maps::Newer && said_before == 0 && self.reach.is_up() {
            return;
        }
        self.reach.part(format!(
            "it has the map of epoch {its_now}, and this node that of epoch {own_now}"
        ));
        if has_fallen_behind {
            let remedy = remedy(self.shared.address());
            tell(
                Level::Warning,
                format_args!(
                    "kv: this node has the map of epoch {own_now}, and {address} that of epoch {its_now}; so it does nothing for clients: {remedy}"
                ),
            );
        }
        if maps == Maps::Older && said_before == 1 {
            let remedy = remedy(address);
            tell(
                Level::Warning,
                format_args!(
                    "kv: {address} has the map of epoch {its_now}, and this node that of epoch {own_now}; so it counts as down: {remedy}"
                ),
            );
        }
    }
}

/// What to do about a node with an old map. Its data is missing what was written since, so it is as good as lost.
fn remedy(address: &str) -> String {
    format!(
        "it was started with an old copy of its data, or without it: take it out with `weir kv leave {address} --gone`, empty its directory, and let it join"
    )
}

/// Connects to the node at this address, and says hello.
pub(super) async fn connect(own: hello::Own<'_>, to: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    hello::ask(&mut stream, own, to).await?;
    Ok(stream)
}
