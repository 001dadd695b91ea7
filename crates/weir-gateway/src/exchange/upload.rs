//! The request body on its way to the upstream, moved whenever the exchange waits for anything.
//!
//! A response may begin before the request has ended, and its end may wait for the request's: so the body is not sent
//! first and the response read after, but [`Upload::poll`] is called from every wait of the exchange. Bytes stay in
//! the client's input until the upstream has taken them, so a fast client is held back by a slow upstream.

mod collected;
mod hold;
mod recorded;

use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::body::Framing;

use crate::buffers::Buffers;
use crate::connection::Client;
use crate::exchange::upload::collected::Collected;
use crate::exchange::upload::hold::Hold;
use crate::exchange::upload::recorded::Recorded;
use crate::failure::Failure;
use crate::wire::Wire;

pub(crate) use crate::exchange::upload::collected::{collect, take_whole};

/// A request body in transit. The default is a body that there is not.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    /// What of it has not come yet.
    rest: Rest,
    /// Bytes of the body that are here and were not sent yet: of what was collected, or at the front of the client's link.
    ready: usize,
    kept: Kept,
    /// What was collected before anybody was asked.
    collected: Option<Box<Collected>>,
    /// A copy of what has come, if one is kept.
    recorded: Option<Box<Recorded>>,
    /// What the request holds of a limit while the rest of its body comes.
    hold: Hold,
    received: u64,
    /// Milliseconds spent waiting for the client, and since when it is waited for now.
    waited_ms: u64,
    /// The part of it that was before anybody was asked.
    waited_before_ms: u64,
    waits_since_ms: Option<u64>,
    sent: u64,
    bytes_max: u64,
    rate_min: u64,
    /// The upstream takes no more of it.
    is_refused: bool,
    /// The response has begun, and its own deadlines count from then on.
    is_answered: bool,
}

/// What of a body has yet to come from its client.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Rest {
    #[default]
    Nothing,
    Comes,
    /// Something, which the client sends once the upstream has said that it may (`Expect: 100-continue`).
    AwaitsContinue,
}

/// Where the part of a body is that has arrived, as long as nothing of it was sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// In the client's link.
    #[default]
    InInput,
    /// So many bytes behind the head in `Exchange::forwarded`, which is all of it.
    BehindHead(usize),
    /// No longer here.
    Nowhere,
}

/// Deadlines that apply while a body moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Between two reads from the client.
    pub(crate) client: Duration,
    /// Between two writes to the upstream.
    pub(crate) upstream: Duration,
    /// From the end of the request to the response head.
    pub(crate) response: Duration,
}

impl Pace {
    /// For a body that goes to no upstream.
    fn of_client(patience: Duration) -> Self {
        Self {
            client: patience,
            upstream: Duration::MAX,
            response: Duration::MAX,
        }
    }
}

impl Upload {
    pub(crate) fn new(framing: Framing, awaits_continue: bool) -> Self {
        Self {
            rest: match (framing, awaits_continue) {
                (Framing::Empty, _) => Rest::Nothing,
                (_, true) => Rest::AwaitsContinue,
                (_, false) => Rest::Comes,
            },
            bytes_max: u64::MAX,
            ..Self::default()
        }
    }

    /// Sets the limits, and refuses a body that says it is larger. `rate_min` is in bytes a second.
    pub(crate) fn admit(
        &mut self,
        framing: Framing,
        bytes_max: u64,
        rate_min: u64,
    ) -> Result<(), Failure> {
        self.bytes_max = bytes_max;
        self.rate_min = rate_min;
        match framing {
            Framing::Length(length) if length > bytes_max => Err(Failure::BodyTooLarge),
            _ => Ok(()),
        }
    }

    /// The same with another limit besides.
    pub(crate) fn admit_no_more_than(
        &mut self,
        framing: Framing,
        bytes_max: u64,
    ) -> Result<(), Failure> {
        self.admit(framing, bytes_max.min(self.bytes_max), self.rate_min)
    }

    /// Takes what has already arrived of the body. A body that is here whole goes along with the head, into
    /// `forwarded`, and can be sent again with it.
    pub(crate) fn begin(
        &mut self,
        client: &mut Client,
        forwarded: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if self.is_complete() {
            return Ok(());
        }
        if self.collected.is_some() {
            self.put_collected_behind(forwarded);
            return Ok(());
        }
        self.take(client)?;
        if self.rest == Rest::Nothing {
            forwarded.extend_from_slice(client.link.body(self.ready).bytes());
            client.link.consume(self.ready);
            self.kept = Kept::BehindHead(self.ready);
            self.ready = 0;
        }
        Ok(())
    }

    /// Takes the part that lies behind an earlier head out of `forwarded`, to be put behind another one.
    pub(crate) fn take_back(&self, forwarded: &mut Vec<u8>) -> Option<Vec<u8>> {
        let Kept::BehindHead(bytes) = self.kept else {
            return None;
        };
        let head_bytes = forwarded.len().checked_sub(bytes)?;
        Some(forwarded.split_off(head_bytes))
    }

    /// Ready with the whole body as it came once it is here, where it stays; whoever calls knows that it is small. It may
    /// take as long as a body that is sent on.
    pub(crate) fn poll_whole<'c>(
        &mut self,
        client: &'c mut Client,
        buffers: &Buffers,
        pace: Pace,
        cx: &mut Context<'_>,
    ) -> Poll<Result<&'c [u8], Failure>> {
        loop {
            self.take(client)?;
            if self.rest == Rest::Nothing {
                return Poll::Ready(Ok(client.link.body(self.ready).bytes()));
            }
            match client.link.poll_read(buffers, cx) {
                Poll::Pending => {
                    self.waits_since_ms.get_or_insert(client.timer.now_ms());
                    return client.timer.poll(cx).map(|()| Err(Failure::BodyTimeout));
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Failure::ClientGone)),
                Poll::Ready(Ok(_)) => self.count_wait(client),
            }
            client.timer.set(self.patience_with_client(pace));
        }
    }

    /// Moves as much as can be moved now. The task is woken when more can be.
    pub(crate) fn poll(
        &mut self,
        client: &mut Client,
        to: &Wire,
        buffers: &Buffers,
        pace: Pace,
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        while self.is_running() {
            if self.ready == 0 {
                match client.link.poll_read(buffers, cx) {
                    Poll::Pending => {
                        if self.rest != Rest::AwaitsContinue {
                            self.waits_since_ms.get_or_insert(client.timer.now_ms());
                        }
                        break;
                    }
                    Poll::Ready(Ok(0) | Err(_)) => return Err(Failure::ClientGone),
                    Poll::Ready(Ok(_)) => self.take(client)?,
                }
                self.count_wait(client);
                self.expect_no_more();
                self.arm(client, pace);
                continue;
            }
            let piece = match &self.collected {
                Some(collected) => collected.unsent(),
                None => client.link.body(self.ready),
            };
            match to.poll_send(piece, cx) {
                Poll::Pending => break,
                // It may have answered before it closed, so what it sent is still read.
                Poll::Ready(Err(_)) => self.is_refused = true,
                Poll::Ready(Ok(count)) => {
                    if self.collected.is_some() {
                        self.sent_collected(count);
                    } else {
                        client.link.consume(count);
                        self.ready -= count;
                        self.sent += count as u64;
                    }
                    self.arm(client, pace);
                }
            }
        }
        Ok(())
    }

    fn count_wait(&mut self, client: &Client) {
        if let Some(since) = self.waits_since_ms.take() {
            self.waited_ms += client.timer.now_ms() - since;
        }
    }

    fn arm(&self, client: &Client, pace: Pace) {
        if !self.is_answered {
            client.timer.set(self.patience(pace));
        }
    }

    /// The deadline for whatever the exchange waits for now.
    pub(crate) fn patience(&self, pace: Pace) -> Duration {
        match (self.is_running(), self.ready) {
            (true, 0) if self.rest != Rest::AwaitsContinue => self.patience_with_client(pace),
            (true, 1..) => pace.upstream,
            (true, 0) | (false, _) => pace.response,
        }
    }

    /// A client that sends a byte now and then would hold an upstream connection for ever, so the time it may take in
    /// all grows with what it has sent and with nothing else.
    fn patience_with_client(&self, pace: Pace) -> Duration {
        if self.hold == Hold::Place {
            // Which is a tick: a place is not for waiting.
            return Duration::ZERO;
        }
        let Some(earned_ms) = (1000 * self.received).checked_div(self.rate_min) else {
            return pace.client;
        };
        let allowed = pace.client + Duration::from_millis(earned_ms);
        allowed
            .saturating_sub(Duration::from_millis(self.waited_ms))
            .min(pace.client)
    }

    /// The client waits for no 100 any more.
    fn expect_no_more(&mut self) {
        if self.rest == Rest::AwaitsContinue {
            self.rest = Rest::Comes;
        }
    }

    /// The body is to be sent once more, from its first byte, which is still here.
    pub(crate) fn restart(&mut self) {
        self.is_refused = false;
        self.is_answered = false;
        self.waits_since_ms = None;
    }

    /// The upstream takes nothing more of it; its answer may still come.
    pub(crate) fn refused(&mut self) {
        self.is_refused = true;
    }

    /// The upstream has said something before its response: the client may send.
    pub(crate) fn continued(&mut self) {
        self.expect_no_more();
        self.forget_kept();
    }

    /// The response has begun, and its own deadlines count from then on.
    pub(crate) fn answered(&mut self) {
        self.is_answered = true;
        self.hold = Hold::Nothing;
        self.forget_kept();
        if self.ready == 0 {
            self.drop_collected();
        }
    }

    /// The upstream has said something, so the request goes to no other one.
    fn forget_kept(&mut self) {
        if matches!(self.kept, Kept::BehindHead(_)) {
            self.kept = Kept::Nowhere;
        }
    }

    /// Whether there is more to move.
    pub(crate) fn is_running(&self) -> bool {
        !self.is_refused && !self.is_complete()
    }

    /// Whether the whole body was sent, or is in the hands of whoever called [`Upload::begin`].
    pub(crate) fn is_complete(&self) -> bool {
        self.ready == 0 && self.rest == Rest::Nothing
    }

    /// Whether every byte of the body is still here.
    pub(crate) fn is_unsent(&self) -> bool {
        self.sent == 0
    }

    /// Whether the client was waited for so long that a tick of the deadlines went by, after somebody was asked.
    pub(crate) fn was_waited_for(&self) -> bool {
        self.waited_ms > self.waited_before_ms
    }

    /// Whether the whole body can be sent to another upstream.
    pub(crate) fn may_go_elsewhere(&self) -> bool {
        self.is_unsent() && self.kept != Kept::Nowhere
    }

    /// Bytes of the body received so far, framing included.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// What a deadline that passes now means.
    pub(crate) fn late(&self) -> Failure {
        let waits_for_client = self.is_running() && self.ready == 0;
        if waits_for_client && self.rest != Rest::AwaitsContinue && !self.is_answered {
            Failure::BodyTimeout
        } else {
            Failure::ResponseTimeout
        }
    }

    /// Drops a body that is here and that nobody wants. Says whether all of it was, so that the next request can be read
    /// after it.
    pub(crate) fn discard_rest(&mut self, client: &mut Client) -> bool {
        self.is_complete() || self.discard(client).is_ok() && self.is_complete()
    }

    /// Reads and drops what has arrived of a body that nobody wants, so that the next request can be read after it.
    pub(crate) fn discard(&mut self, client: &mut Client) -> Result<(), Failure> {
        self.drop_ready(client);
        self.take(client)?;
        self.drop_ready(client);
        Ok(())
    }

    fn drop_ready(&mut self, client: &mut Client) {
        self.drop_collected();
        if self.ready > 0 {
            self.kept = Kept::Nowhere;
        }
        client.link.consume(self.ready);
        self.ready = 0;
    }

    /// Claims what has come of the body.
    fn take(&mut self, client: &mut Client) -> Result<(), Failure> {
        if self.rest == Rest::Nothing {
            return Ok(());
        }
        let claimed = client.link.claim(self.ready).map_err(Failure::Request)?;
        let before = self.ready;
        self.ready += claimed.bytes;
        if let Some(recorded) = &mut self.recorded {
            recorded.append(&client.link.body(self.ready).bytes()[before..]);
        }
        if claimed.is_all {
            self.rest = Rest::Nothing;
        }
        self.received += claimed.bytes as u64;
        if self.received > self.bytes_max {
            Err(Failure::BodyTooLarge)
        } else {
            Ok(())
        }
    }
}
