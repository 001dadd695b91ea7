//! What this node does for the others: it reads and writes its own cells.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::Shared;
use super::hello;
use crate::engine::EngineError;
use crate::frame::{Frame, Say, Why};

/// Connections whose other end has not proved yet that it is a node.
const STRANGERS_MAX: usize = 64;
/// How long a node may take to say who it is.
const HELLO: Duration = Duration::from_secs(1);
/// A node pings several times a second. One that has said nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(5);
/// Bytes that are sent at once, about.
const PIECE_BYTES: usize = 256 << 10;
/// Requests of a connection that are under way.
const UNDER_WAY_MAX: usize = 1024;
const BATCH_MAX: usize = 512;
const READ_BYTES: usize = 64 << 10;
/// How long to wait after an accept has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts other nodes.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, secret: Arc<str>) {
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // With too many strangers, one more is turned away. A node tries again.
        if let Ok(permit) = Arc::clone(&strangers).try_acquire_owned() {
            let (shared, secret) = (Arc::clone(&shared), Arc::clone(&secret));
            tokio::spawn(serve(stream, shared, secret, permit));
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    shared: Arc<Shared>,
    secret: Arc<str>,
    stranger: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let is_known = |address: &str| shared.map.node(address).is_some();
    let greeting = hello::answer(&mut stream, shared.own(&secret), is_known);
    if !matches!(tokio::time::timeout(HELLO, greeting).await, Ok(Ok(()))) {
        return;
    }
    drop(stranger);
    let (reader, writer) = stream.into_split();
    let (answers, given) = mpsc::unbounded_channel();
    let under_way = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let writing = write(writer, given, Arc::clone(&under_way));
    tokio::select! {
        () = read(reader, &shared, &answers, &under_way) => {}
        () = writing => {}
    }
}

async fn read(
    mut reader: OwnedReadHalf,
    shared: &Shared,
    answers: &mpsc::UnboundedSender<Frame>,
    under_way: &Semaphore,
) {
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
                    let Ok(permit) = under_way.acquire().await else {
                        return;
                    };
                    // It is given back when the answer is sent.
                    permit.forget();
                    carry_out(frame, shared, answers);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

fn carry_out(frame: Frame, shared: &Shared, answers: &mpsc::UnboundedSender<Frame>) {
    let (id, epoch) = (frame.id, shared.map.epoch());
    let sender = answers.clone();
    let answer = move |say| {
        let _ = sender.send(Frame { epoch, id, say });
    };
    if matches!(frame.say, Say::Ping) {
        return answer(Say::Pong);
    }
    if frame.epoch != epoch {
        let text = format!("the epoch here is {epoch}");
        return answer(Say::Refused(Why::Epoch, text));
    }
    match frame.say {
        Say::Read(key) => {
            if let Some(cell) = shared.engine.at_hand(&key) {
                return answer(Say::Found(Some(cell)));
            }
            let then = move |found| {
                answer(match found {
                    Ok(cell) => Say::Found(cell),
                    Err(error) => refused(&error),
                });
                None
            };
            shared.engine.read(key, Box::new(then));
        }
        Say::Write(key, cell) => {
            let version = cell.version;
            if !shared.see(version) {
                let text = "the version is too far ahead of the clock here".to_owned();
                return answer(Say::Refused(Why::Clock, text));
            }
            let then = move |written| {
                answer(match written {
                    Ok(newer) => Say::Written { version, newer },
                    Err(error) => refused(&error),
                });
                None
            };
            shared.engine.write(key, cell, Box::new(then));
        }
        _ => answer(Say::Refused(Why::Failed, "that is no request".to_owned())),
    }
}

fn refused(error: &EngineError) -> Say {
    let why = match error {
        EngineError::Busy => Why::Busy,
        EngineError::Failed(_) | EngineError::Refused(_) | EngineError::NoRanges => Why::Failed,
    };
    Say::Refused(why, error.to_string())
}

async fn write(
    mut writer: OwnedWriteHalf,
    mut given: mpsc::UnboundedReceiver<Frame>,
    under_way: Arc<Semaphore>,
) {
    let (mut frames, mut bytes) = (Vec::with_capacity(BATCH_MAX), Vec::new());
    loop {
        if given.recv_many(&mut frames, BATCH_MAX).await == 0 {
            return;
        }
        let mut frames = frames.drain(..).peekable();
        let mut count = 0;
        while let Some(frame) = frames.next() {
            frame.encode(&mut bytes);
            count += 1;
            if bytes.len() < PIECE_BYTES && frames.peek().is_some() {
                continue;
            }
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
            bytes.clear();
            bytes.shrink_to(2 * PIECE_BYTES);
            under_way.add_permits(std::mem::take(&mut count));
        }
    }
}
