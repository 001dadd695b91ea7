//! The answer to an errand or a copy: read to its end, and kept as far as it may be. There is nobody to send it to.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use weir_http::body::Piece;

use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::serving::Forwarding;
use crate::upstream::hedge::Asked;
use crate::upstream::passing::put_back;
use crate::upstream::relay::{Upstream, poll_receive};

/// How much of an answer is kept, and until when it is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes_max: usize,
    /// Whether the body is of use to anybody.
    pub(crate) is_kept: bool,
    pub(crate) until: Instant,
}

/// The answer to a request that nobody waits for.
#[derive(Debug)]
pub(crate) struct Brought {
    pub(crate) status: u16,
    /// Of the head, without the status line and the empty one.
    pub(crate) lines: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// Whether that is all of the body.
    pub(crate) is_whole: bool,
}

/// Takes the answer whose head is in `x`.
pub(crate) async fn answer(
    x: &mut Exchange,
    by: Forwarding<'_>,
    Asked {
        chosen,
        mut upstream,
    }: Asked,
    bounds: Bounds,
) -> Brought {
    let head = &x.incoming.unread()[..x.response.head_bytes];
    let first_line = head.iter().position(|&byte| byte == b'\n');
    let lines = &head[first_line.map_or(0, |at| at + 1)..head.len() - b"\r\n".len()];
    let mut brought = Brought {
        status: x.response.status,
        lines: lines.to_vec(),
        body: Vec::new(),
        is_whole: false,
    };
    x.incoming.consume(x.response.head_bytes);
    x.upload.answered();
    upstream.wire.begin_body(x.response.framing);
    match brought.take_body(x, by, &mut upstream, bounds).await {
        Ok(()) => put_back(x, by.worker, &chosen, upstream),
        Err(failure) => chosen.broke_off(failure),
    }
    brought
}

impl Brought {
    async fn take_body(
        &mut self,
        x: &mut Exchange,
        by: Forwarding<'_>,
        upstream: &mut Upstream,
        bounds: Bounds,
    ) -> Result<(), Failure> {
        let mut due = Due::at(bounds.until);
        let mut room = bounds.bytes_max;
        loop {
            let mut is_too_long = false;
            let taken = upstream.wire.read_body(x.incoming.unread(), |piece| {
                if let Piece::Content(content) = piece {
                    is_too_long |= content.len() > room;
                    let fits = content.len().min(room);
                    room -= fits;
                    if bounds.is_kept {
                        self.body.extend_from_slice(&content[..fits]);
                    }
                }
            });
            x.incoming.consume(taken.map_err(Failure::Response)?);
            x.incoming.release(&by.worker.buffers);
            if is_too_long {
                // Nobody wants the rest, which may have no end: the connection is dropped.
                return Ok(());
            }
            if upstream.wire.is_over() {
                self.is_whole = true;
                return Ok(());
            }
            x.client.timer.set(by.rule.timeouts.idle);
            let count = poll_fn(|cx| match due.poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(Failure::ResponseTimeout)),
                Poll::Pending => poll_receive(x, by, upstream, cx),
            })
            .await?;
            if count == 0 {
                self.is_whole = upstream.wire.may_end_here();
                return if self.is_whole {
                    Ok(())
                } else {
                    Err(Failure::ResponseCut)
                };
            }
        }
    }
}
