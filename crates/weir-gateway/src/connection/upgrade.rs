//! A tunnel: after an upgrade, bytes go both ways until one side ends it or nothing moves for too long.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_socket::Stream;

use crate::buffers::{Buffers, Input};
use crate::connection::Client;
use crate::connection::link::Link;
use crate::wire::{Wire, h1};

/// Bytes moved through a tunnel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moved {
    pub(crate) from_client: u64,
    pub(crate) to_client: u64,
}

/// Moves bytes between the client and the upstream until both have finished sending, one of them breaks, or nothing
/// moved for `idle`. What was already read from either goes first. Only HTTP/1.1 is upgraded (RFC 9113 §8.6).
pub(crate) async fn tunnel(
    client: &mut Client,
    wire: &mut Wire,
    from_upstream: &mut Input,
    buffers: &Buffers,
    idle: Duration,
) -> Moved {
    let (mut up, mut down) = (Pipe::default(), Pipe::default());
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
    timer.set(idle);
    poll_fn(|cx| {
        let before = (up.moved, down.moved);
        let sides = (
            up.poll(&mut link.stream, &mut link.input, upstream, buffers, cx),
            down.poll(upstream, from_upstream, &link.stream, buffers, cx),
        );
        if before != (up.moved, down.moved) {
            timer.set(idle);
        }
        match sides {
            (Side::Broken, _) | (_, Side::Broken) | (Side::Finished, Side::Finished) => {
                Poll::Ready(())
            }
            _ => timer.poll(cx),
        }
    })
    .await;
    Moved {
        from_client: up.moved,
        to_client: down.moved,
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Pipe {
    moved: u64,
    is_finished: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Side {
    Open,
    Finished,
    Broken,
}

impl Pipe {
    fn poll(
        &mut self,
        from: &mut Stream,
        waiting: &mut Input,
        to: &Stream,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Side {
        while !self.is_finished {
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
                match to.poll_write(cx, waiting.unread(), &[]) {
                    Poll::Pending => return Side::Open,
                    Poll::Ready(Err(_)) => return Side::Broken,
                    Poll::Ready(Ok(count)) => {
                        waiting.consume(count);
                        self.moved += count as u64;
                    }
                }
            }
        }
        Side::Finished
    }
}
