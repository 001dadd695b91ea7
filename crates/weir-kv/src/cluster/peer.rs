//! This node's connection to another one: requests go out in batches, answers come back in any order.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::Shared;
use super::hello;
use super::hub::Event;
use crate::frame::{Frame, Say};
use crate::placement::Node;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(1);
/// How long to wait before the next attempt: so little that a node that is back is soon used again.
const AGAIN: Duration = Duration::from_millis(100);
/// A node that owes answers and says nothing for so long is taken for down.
const SILENCE: Duration = Duration::from_secs(1);
/// Frames that wait to be sent. More requests fail at once.
const WAITING_MAX: usize = 8192;
/// Frames that are sent at once.
const BATCH_MAX: usize = 512;
const READ_BYTES: usize = 64 << 10;

/// Another node.
#[derive(Debug)]
pub(super) struct Peer {
    frames: mpsc::Sender<(u64, Say)>,
    is_up: Arc<AtomicBool>,
}

/// What the two halves of a connection share.
struct Connected {
    node: u16,
    /// Requests that are not answered.
    awaited: Mutex<HashSet<u64>>,
    events: mpsc::UnboundedSender<Event>,
}

impl Peer {
    /// Connects to `node`, again and again.
    pub(super) fn start(
        node: Node,
        shared: &Arc<Shared>,
        secret: &Arc<str>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (frames, waiting) = mpsc::channel(WAITING_MAX);
        let is_up = Arc::new(AtomicBool::new(false));
        let peer = Self {
            frames,
            is_up: Arc::clone(&is_up),
        };
        let (shared, secret) = (Arc::clone(shared), Arc::clone(secret));
        tokio::spawn(async move { keep(node, &shared, &secret, events, waiting, &is_up).await });
        peer
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// Sends a request, unless the node is down or too much waits; whether it does.
    pub(super) fn send(&self, id: u64, say: Say) -> bool {
        self.is_up() && self.frames.try_send((id, say)).is_ok()
    }
}

async fn keep(
    node: Node,
    shared: &Shared,
    secret: &str,
    events: mpsc::UnboundedSender<Event>,
    mut waiting: mpsc::Receiver<(u64, Say)>,
    is_up: &AtomicBool,
) {
    loop {
        let connecting = connect(&node, shared, secret);
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT, connecting).await {
            let connected = Connected {
                node: node.id,
                awaited: Mutex::default(),
                events: events.clone(),
            };
            is_up.store(true, Ordering::Release);
            let (reader, writer) = stream.into_split();
            tokio::select! {
                () = connected.read(reader) => {}
                is_over = connected.write(writer, &mut waiting, shared.map.epoch()) => {
                    if is_over {
                        return;
                    }
                }
            }
            is_up.store(false, Ordering::Release);
            connected.fail_all();
        }
        // What was sent before it was seen that the node is down.
        while let Ok((id, _)) = waiting.try_recv() {
            let _ = events.send(Event::Failed(id, node.id));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn connect(node: &Node, shared: &Shared, secret: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(&*node.address).await?;
    stream.set_nodelay(true)?;
    let own = shared.map.nodes().iter().find(|own| own.id == shared.me);
    let own = own.map_or("", |own| &own.address);
    hello::ask(&mut stream, own, &node.address, secret).await?;
    Ok(stream)
}

impl Connected {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers to these are awaited from now on.
    fn note(&self, frames: &[(u64, Say)]) {
        self.lock().extend(frames.iter().map(|(id, _)| *id));
    }

    /// Sends what waits, until that fails; or until nothing more will come, which is true.
    async fn write(
        &self,
        mut writer: OwnedWriteHalf,
        waiting: &mut mpsc::Receiver<(u64, Say)>,
        epoch: u64,
    ) -> bool {
        let (mut frames, mut bytes) = (Vec::with_capacity(BATCH_MAX), Vec::new());
        loop {
            if waiting.recv_many(&mut frames, BATCH_MAX).await == 0 {
                return true;
            }
            bytes.clear();
            self.note(&frames);
            for (id, say) in frames.drain(..) {
                Frame { epoch, id, say }.encode(&mut bytes);
            }
            if writer.write_all(&bytes).await.is_err() {
                return false;
            }
        }
    }

    /// Takes answers until the connection ends, or the node is silent that owes some.
    async fn read(&self, mut reader: OwnedReadHalf) {
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        loop {
            bytes.reserve(READ_BYTES);
            match tokio::time::timeout(SILENCE, reader.read_buf(&mut bytes)).await {
                Err(_) if self.lock().is_empty() => continue,
                Ok(Ok(1..)) => {}
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
        if !self.lock().remove(&id) {
            return;
        }
        let event = match say {
            Say::Found(cell) => Event::Found(id, self.node, cell),
            Say::Written { version, newer } => Event::Written(id, self.node, version, newer),
            _ => Event::Failed(id, self.node),
        };
        let _ = self.events.send(event);
    }

    fn fail_all(&self) {
        for id in self.lock().drain() {
            let _ = self.events.send(Event::Failed(id, self.node));
        }
    }
}
