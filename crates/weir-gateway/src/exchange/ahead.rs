//! How far a response was read ahead of its client.
//!
//! What is read ahead lies behind what is being sent, in the exchange's input, as it came. Whether it is all of the response
//! is found by going through its framing a second time.

use std::task::{Context, Poll, ready};

use weir_http::Body;

use crate::buffers::{BUFFER_BYTES, Buffers, GROWTH, Input, ROOM_BYTES_MIN};
use crate::deadline::Due;
use crate::failure::Failure;
use crate::held_bodies::Claim;
use crate::wire::Wire;

/// How far a response was read.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// The framing of all that has come, whether it was sent or not.
    pub(crate) seen: Body,
    pub(crate) bytes_max: usize,
    pub(crate) claim: Claim,
    /// Whether nothing is read before half of what is held was sent.
    pub(crate) is_full: bool,
    /// How the upstream's side ended before all was sent.
    pub(crate) ended: Option<Result<(), Failure>>,
    pub(crate) stream_at: Due,
}

/// What came of reading on.
pub(crate) enum Read {
    /// There may be more.
    Some,
    /// That was all.
    Whole,
    /// The upstream says nothing more, although that was not all.
    Broken,
    /// No more may be held. Said once, until there is room again.
    Full,
}

impl Ahead {
    pub(crate) fn poll_read(
        &mut self,
        incoming: &mut Input,
        wire: &mut Wire,
        buffers: &Buffers,
        cx: &mut Context<'_>,
    ) -> Poll<Read> {
        let held = incoming.unread().len();
        let waits = self.is_full && held > self.bytes_max / 2;
        if waits || self.ended.is_some() || self.seen.is_done() {
            return Poll::Pending;
        }
        // What fits into the buffer that there is takes no room.
        let more = (held + held / GROWTH).saturating_sub(BUFFER_BYTES - ROOM_BYTES_MIN);
        let is_full = held >= self.bytes_max || !self.claim.make_room(more);
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        if is_full {
            return if was_full {
                Poll::Pending
            } else {
                Poll::Ready(Read::Full)
            };
        }
        match ready!(wire.poll_read(incoming, buffers, cx)) {
            Ok(0) => self.ended = Some(Ok(())),
            Err(_) => self.ended = Some(Err(Failure::UpstreamClosed)),
            Ok(count) => self.see(incoming, count),
        }
        Poll::Ready(match self.ended {
            Some(Ok(())) if self.seen.may_end_here() => Read::Whole,
            Some(_) => Read::Broken,
            None if self.seen.is_done() => Read::Whole,
            None => Read::Some,
        })
    }

    /// Goes through the last `count` bytes that came. Broken framing is found again when they are sent.
    pub(crate) fn see(&mut self, incoming: &Input, count: usize) {
        let unread = incoming.unread();
        if self.seen.take(&unread[unread.len() - count..]).is_err() {
            self.ended = Some(Ok(()));
        }
    }
}
