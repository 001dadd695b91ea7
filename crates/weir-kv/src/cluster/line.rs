//! A connection to a node, at the end that asks: requests go out in batches, answers come in any order, and a ping is always under
//! way. It knows what of its requests was sent when it ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::frame::{Frame, Say};

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

/// The number of pings. Nobody else asks by it.
pub(crate) const PING_ID: u64 = 0;

/// Why nothing is said to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The other end has closed the connection, as it does when it ends: what it has not begun it does not begin any more.
    Closed,
    /// Nothing is heard of it. What was sent may still get there.
    Silent,
}

/// Where requests wait to be sent, whatever connection that will be by.
pub(crate) fn outbox() -> (Outbox, Unsent) {
    let (sender, requests) = mpsc::channel(WAITING_MAX);
    let outbox = Outbox {
        requests: sender,
        waiting: Arc::default(),
    };
    (outbox, Unsent { requests })
}

/// The end that requests are put into.
#[derive(Debug)]
pub(crate) struct Outbox {
    requests: mpsc::Sender<Request>,
    /// Bytes that wait to be sent.
    waiting: Arc<AtomicUsize>,
}

/// A request that waits to be sent. Its number is that of whoever asks.
#[derive(Debug)]
struct Request {
    frame: Frame,
    _room: Room,
}

/// Bytes of those that wait, which one takes until it is sent or given up.
#[derive(Debug)]
struct Room {
    bytes: usize,
    waiting: Arc<AtomicUsize>,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl Outbox {
    /// Has a request sent, unless too much waits; whether it is.
    pub(crate) fn put(&self, frame: Frame) -> bool {
        let bytes = frame.say.bytes();
        let before = self.waiting.fetch_add(bytes, Ordering::AcqRel);
        let waiting = Arc::clone(&self.waiting);
        let request = Request {
            frame,
            _room: Room { bytes, waiting },
        };
        let has_room = before == 0 || before + bytes <= WAITING_BYTES_MAX;
        has_room && self.requests.try_send(request).is_ok()
    }
}

/// The other end, and what is there.
#[derive(Debug)]
pub(crate) struct Unsent {
    requests: mpsc::Receiver<Request>,
}

impl Unsent {
    /// Whether nothing will be put into it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Takes out what there is: the numbers of these requests.
    pub(crate) fn give_up(&mut self, mut each: impl FnMut(u64)) {
        while let Ok(request) = self.requests.try_recv() {
            each(request.frame.id);
        }
    }

    /// Asks and hears until that fails; or until nothing more will come, which is true. `hear` gets the frame that answers each
    /// request that was sent, or why none does.
    pub(crate) async fn converse(
        &mut self,
        stream: TcpStream,
        hear: impl Fn(u64, Result<Frame, Lost>),
    ) -> bool {
        let line = Line {
            awaited: Mutex::default(),
            next_frame: AtomicU64::new(PING_ID + 1),
            moved: Mutex::new(Instant::now()),
            hear,
        };
        let (reader, writer) = stream.into_split();
        let (is_over, lost) = tokio::select! {
            () = line.read(reader) => (false, Lost::Closed),
            () = line.watch() => (false, Lost::Silent),
            is_over = line.write(writer, &mut self.requests) => (is_over, Lost::Closed),
        };
        let awaited = std::mem::take(&mut *line.lock());
        for id in awaited.into_values() {
            (line.hear)(id, Err(lost));
        }
        is_over
    }
}

/// What the two halves of a connection share.
struct Line<H> {
    /// The numbers of requests that are not answered, by those of their frames: one number may ask a node twice, and both answers
    /// count.
    awaited: Mutex<HashMap<u64, u64>>,
    next_frame: AtomicU64,
    /// When something came from it, or it made room for more.
    moved: Mutex<Instant>,
    hear: H,
}

impl<H: Fn(u64, Result<Frame, Lost>)> Line<H> {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, u64>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers to these are awaited from now on. The number of the first one's frame; the others follow.
    fn note(&self, requests: &[Request]) -> u64 {
        let count = requests.len() as u64;
        let first = self.next_frame.fetch_add(count, Ordering::Relaxed);
        let ids = requests.iter().map(|request| request.frame.id);
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
                    // It is answered whatever its epoch.
                    let (epoch, id, say) = (0, PING_ID, Say::Ping);
                    Frame { epoch, id, say }.encode(&mut bytes);
                    if writer.write_all(&bytes).await.is_err() {
                        return false;
                    }
                    bytes.clear();
                    continue;
                }
            }
            let first = self.note(&requests);
            let mut frames = (first..).zip(requests.drain(..)).peekable();
            while let Some((id, request)) = frames.next() {
                let frame = Frame {
                    id,
                    ..request.frame
                };
                frame.encode(&mut bytes);
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
                    Ok(Some(frame)) => {
                        let asked = self.lock().remove(&frame.id);
                        match (asked, &frame.say) {
                            (Some(asked), _) => (self.hear)(asked, Ok(frame)),
                            (None, Say::Pong(_)) => (self.hear)(PING_ID, Ok(frame)),
                            _ => {}
                        }
                    }
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use bytes::Bytes;
    use tokio::net::TcpListener;

    use super::*;
    use crate::cell::Cell;
    use crate::version::Version;

    fn large(id: u64) -> Frame {
        let cell = Cell {
            version: Version::default(),
            expires_ms: None,
            value: Some(Bytes::from(vec![0; 8 << 20])),
        };
        let say = Say::Write(Bytes::from_static(b"k"), cell);
        Frame { epoch: 1, id, say }
    }

    /// What was not sent when a connection ended takes no room from what comes after it, and what may have been sent is known.
    #[test]
    fn a_connection_that_ends_gives_back_what_it_had_in_hand() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let stream = TcpStream::connect(address).await.expect("it listens");
            let (outbox, mut unsent) = outbox();
            for id in 1..=4 {
                assert!(outbox.put(large(id)));
            }
            let lost = RefCell::new(Vec::new());
            let hear = |id, said: Result<Frame, Lost>| {
                assert_eq!(said, Err(Lost::Closed));
                lost.borrow_mut().push(id);
            };
            let ends = async {
                let (stream, _) = listener.accept().await.expect("it connects");
                stream.readable().await.expect("the first has begun");
            };
            let (is_over, ()) = tokio::join!(unsent.converse(stream, hear), ends);
            assert!(!is_over);
            let mut lost = lost.into_inner();
            lost.sort_unstable();
            assert_eq!(lost, [1, 2, 3, 4]);
            assert_eq!(outbox.waiting.load(Ordering::Acquire), 0);
            assert!(outbox.put(large(5)));
            let mut given_up = Vec::new();
            unsent.give_up(|id| given_up.push(id));
            assert_eq!(given_up, [5]);
            assert_eq!(outbox.waiting.load(Ordering::Acquire), 0);
        });
    }
}
