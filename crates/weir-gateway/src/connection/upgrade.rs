//! A tunnel: after an upgrade, bytes go both ways until one side ends it or nothing moves for too long.
//!
//! A WebSocket is told when the gateway ends, see [`goodbye`].

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_socket::Stream;

use crate::buffers::{Buffers, Input};
use crate::connection::Client;
use crate::connection::link::Link;
use crate::connection::upgrade::goodbye::{Goodbye, Parting};
use crate::state::worker::Worker;
use crate::wire::{Wire, h1};

mod goodbye;

/// What kind of a tunnel it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// Whether both sides speak RFC 6455.
    pub(crate) is_websocket: bool,
    /// It ends when nothing moves for so long.
    pub(crate) idle: Duration,
}

/// Bytes moved through a tunnel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moved {
    pub(crate) from_client: u64,
    pub(crate) to_client: u64,
    /// It was open when the time for draining was over.
    pub(crate) is_cut_off: bool,
}

/// Moves bytes between the client and the upstream until both have finished sending, one of them breaks, or nothing
/// moved for too long. What was already read from either goes first. Only HTTP/1.1 is upgraded (RFC 9113 §8.6).
pub(crate) async fn tunnel(
    client: &mut Client,
    wire: &mut Wire,
    from_upstream: &mut Input,
    worker: &Worker,
    kind: Kind,
) -> Moved {
    let (mut up, mut down) = (Pipe::new(kind), Pipe::new(kind));
    let mut parting = Parting::default();
    let Client {
        link: Link::H1(link),
        timer,
        ..
    } = client
    else {
        return Moved::default();
    };
    let Wire::H1(h1::Wire {
        stream: upstream, ..
    }) = wire;
    let buffers = &worker.buffers;
    timer.set(kind.idle);
    let is_cut_off = poll_fn(|cx| {
        loop {
            if worker.is_draining() {
                parting.begin(&mut down.goodbye);
            }
            let before = (up.moved, down.moved);
            let sides = (
                up.poll(&mut link.stream, &mut link.input, upstream, buffers, cx),
                down.poll(upstream, from_upstream, &link.stream, buffers, cx),
            );
            if let (Side::Broken, _) | (_, Side::Broken) | (Side::Finished, Side::Finished) = sides
            {
                return Poll::Ready(false);
            }
            let has_moved = before != (up.moved, down.moved);
            if let Some(wait) = parting.follow(&up.goodbye, &down.goodbye) {
                timer.set(wait);
            } else if has_moved && !parting.has_deadline() {
                timer.set(kind.idle);
            }
            if timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            if worker.is_cut_off() {
                return Poll::Ready(true);
            }
            let mut key = || worker.random.borrow_mut().u32(..).to_ne_bytes();
            match parting.is_late(&mut up.goodbye, &mut key) {
                Some(wait) => timer.set(wait),
                None => return Poll::Ready(false),
            }
        }
    })
    .await;
    Moved {
        from_client: up.moved,
        to_client: down.moved,
        is_cut_off,
    }
}

/// One direction.
#[derive(Debug)]
struct Pipe {
    moved: u64,
    is_finished: bool,
    goodbye: Goodbye,
}

#[derive(Debug, PartialEq, Eq)]
enum Side {
    Open,
    Finished,
    Broken,
}

impl Pipe {
    fn new(kind: Kind) -> Self {
        Self {
            moved: 0,
            is_finished: false,
            goodbye: Goodbye::new(kind.is_websocket),
        }
    }

    fn poll(
        &mut self,
        from: &mut Stream,
        waiting: &mut Input,
        to: &Stream,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Side {
        while !self.is_finished {
            let own = self.goodbye.to_send();
            if !own.is_empty() {
                match to.poll_write(cx, own, &[]) {
                    Poll::Pending => return Side::Open,
                    Poll::Ready(Err(_)) => return Side::Broken,
                    Poll::Ready(Ok(count)) => {
                        self.goodbye.sent(count);
                        self.moved += count as u64;
                    }
                }
                continue;
            }
            if self.goodbye.is_said() {
                // Nothing may follow it: the rest is read and dropped.
                waiting.consume(waiting.unread().len());
            }
            if waiting.is_empty() {
                waiting.release(buffers);
                match waiting.poll_fill(from, buffers, cx) {
                    Poll::Pending => return Side::Open,
                    Poll::Ready(Err(_)) => return Side::Broken,
                    Poll::Ready(Ok(0)) => {
                        waiting.release(buffers);
                        to.finish_sending();
                        self.is_finished = true;
                    }
                    Poll::Ready(Ok(_)) => {}
                }
            } else {
                let bytes = waiting.unread();
                let bytes = &bytes[..self.goodbye.allows(bytes)];
                match to.poll_write(cx, bytes, &[]) {
                    Poll::Pending => return Side::Open,
                    Poll::Ready(Err(_)) => return Side::Broken,
                    Poll::Ready(Ok(count)) => {
                        self.goodbye.pass(&bytes[..count]);
                        waiting.consume(count);
                        self.moved += count as u64;
                    }
                }
            }
        }
        Side::Finished
    }
}
