//! This node's connection to another one, which is made again and again.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Shared;
use super::hello;
use super::hub::Event;
use super::line::{Lost, Outbox, Unsent, outbox};
use super::reach::Reach;
use crate::frame::{Frame, Say};
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
                    let hear = |id, say| self.hear(id, say);
                    let is_over = unsent.converse(stream, hear).await;
                    self.reach.lose();
                    let _ = self.events.send(Event::Clock(self.node.id, None));
                    is_over
                }
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
            unsent.give_up(|id| self.hear(id, Err(Lost::Closed)));
            if unsent.is_closed() {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// It answers a request, or has not.
    fn hear(&self, id: u64, say: Result<Say, Lost>) {
        let node = self.node.id;
        let event = match say {
            Ok(Say::Found(cell)) => Event::Found(id, node, cell),
            Ok(Say::Written { version, newer }) => Event::Written(id, node, version, newer),
            Ok(Say::Told(answer)) => Event::Told(id, answer),
            Ok(Say::Pong(presence)) => {
                let heard = Some((presence.clocks, Instant::now()));
                let _ = self.events.send(Event::Clock(node, heard));
                // Not before: whether it may write, and until when it may begin, goes by its clocks.
                self.reach.work(presence.is_draining);
                return;
            }
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
}

/// Connects to the node at this address, and says hello.
pub(super) async fn connect(own: hello::Own<'_>, to: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    hello::ask(&mut stream, own, to).await?;
    Ok(stream)
}
