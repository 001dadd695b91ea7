//! A request body that is collected before anybody is asked.
//!
//! For an upstream, so that a client that sends slowly holds nothing of it: it is kept as it came, framing and trailers
//! included. All of it can be sent again; of one that is larger than the room for it, what is here is sent first and the
//! rest as it comes. For a service inside the process, which is given the whole content and nothing else.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::Body;
use weir_http::body::Framing;

use crate::buffers::{BUFFER_BYTES, Buffers};
use crate::connection::Client;
use crate::connection::link::Piece;
use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::exchange::outgoing::{Behind, Told, send};
use crate::exchange::upload::hold::DAWDLED_MS;
use crate::exchange::upload::{Kept, Pace, Rest, Upload};
use crate::failure::Failure;
use crate::held_bodies::Claim;
use crate::settings::Forward;
use crate::state::worker::Worker;
use crate::time;

/// How long a client that may be talking pauses before what it has said is sent on.
const PAUSE: Duration = Duration::from_millis(200);
/// What is collected takes memory in steps: twice as much each time up to a buffer, then a buffer more. A body that says that it is
/// smaller than the first step takes no more than it has.
const ROOM_BYTES_MIN: usize = 4 << 10;

/// The part of a body that was collected.
#[derive(Debug)]
pub(super) struct Collected {
    bytes: Vec<u8>,
    /// What the first of them take, if they need no more.
    room_bytes_min: usize,
    /// Whether they have the framing that they came in.
    is_framed: bool,
    /// So many of them were sent.
    sent: usize,
    /// Whether they are all of the body.
    is_whole: bool,
    /// Whether the client was waited for.
    is_slow: bool,
    claim: Claim,
}

/// How much is collected, and how fast it has to come.
#[derive(Debug)]
struct Bounds {
    bytes_max: usize,
    pace: Pace,
    /// Whether the client may wait for an answer to what it has sent so far: it has not said how long its body is.
    talks: bool,
    /// Since such a client pauses: when what is here is sent on.
    pause: Option<Due>,
}

/// Waits until the body of a request is here, or as much of it as the route collects. Some of it is missing.
pub(crate) async fn collect(
    x: &mut Exchange,
    worker: &Worker,
    rule: &Forward,
) -> Result<(), Failure> {
    let bytes_max = usize::try_from(rule.request_buffer).unwrap_or(usize::MAX);
    if bytes_max == 0 {
        return Ok(());
    }
    let waited_ms = x.upload.waited_ms;
    let bounds = Bounds {
        bytes_max,
        pace: x.pace(rule),
        talks: x.request.framing == Framing::Chunked,
        pause: None,
    };
    fill(x, worker, bounds).await?;
    let is_slow = x.upload.waited_ms - waited_ms >= DAWDLED_MS;
    if let Some(collected) = &mut x.upload.collected {
        collected.is_slow = is_slow;
    }
    x.upload.waited_before_ms = x.upload.waited_ms;
    Ok(())
}

/// Waits until all of the body is here, and takes its content out of the framing. Trailers are left out. The claim is for the
/// memory of it.
pub(crate) async fn take_whole(
    x: &mut Exchange,
    worker: &Worker,
) -> Result<(Vec<u8>, Claim), Failure> {
    let bounds = Bounds {
        // The limit of the route has been set before, and holds.
        bytes_max: usize::MAX,
        pace: Pace::of_client(x.timeouts.body),
        talks: false,
        pause: None,
    };
    fill(x, worker, bounds).await?;
    // None of it is to be sent to anybody.
    x.upload.ready = 0;
    x.upload.kept = Kept::Nowhere;
    let collected = x.upload.collected.take();
    let collected = collected.filter(|collected| collected.is_whole);
    let collected = *collected.ok_or(Failure::NoRoom)?;
    let Collected { bytes, claim, .. } = collected;
    if !collected.is_framed || x.request.framing != Framing::Chunked {
        return Ok((bytes, claim));
    }
    let mut content = Vec::with_capacity(bytes.len());
    let mut body = Body::new(x.request.framing);
    body.decode(&bytes, |piece| content.extend_from_slice(piece))
        .map_err(Failure::Request)?;
    Ok((content, claim))
}

/// Collects within `bounds`.
async fn fill(x: &mut Exchange, worker: &Worker, mut bounds: Bounds) -> Result<(), Failure> {
    if x.request.expects_continue {
        // Whoever is asked has the body, so it is asked without the expectation.
        x.request.expects_continue = false;
        if x.upload.meet_expectation() {
            send_continue(x).await?;
        }
    }
    x.upload.collected = Some(Box::new(Collected {
        bytes: Vec::new(),
        room_bytes_min: match x.request.framing {
            Framing::Length(bytes) => bytes.min(ROOM_BYTES_MIN as u64) as usize,
            _ => ROOM_BYTES_MIN,
        },
        is_framed: false,
        sent: 0,
        is_whole: false,
        is_slow: false,
        claim: worker.claim(),
    }));
    x.client
        .timer
        .set(x.upload.patience_with_client(bounds.pace));
    poll_fn(|cx| {
        let upload = &mut x.upload;
        upload.poll_collect(&mut x.client, &worker.buffers, &mut bounds, cx)
    })
    .await?;
    x.client.link.release(&worker.buffers);
    Ok(())
}

/// Tells a client that waits with its body that it may send it (RFC 9110 §10.1.1). That says nothing of the answer.
async fn send_continue(x: &mut Exchange) -> Result<(), Failure> {
    x.outgoing.begin(b"100 Continue");
    x.outgoing.finish_interim(Told::Nothing);
    send(x, Behind::Nothing).await
}

impl Upload {
    /// A body of nobody, who has all of it.
    pub(crate) fn of_nobody(content: Vec<u8>, claim: Claim) -> Self {
        let ready = content.len();
        let collected = Collected {
            bytes: content,
            room_bytes_min: ROOM_BYTES_MIN,
            is_framed: false,
            sent: 0,
            is_whole: true,
            is_slow: false,
            claim,
        };
        Self {
            ready,
            collected: (ready > 0).then(|| Box::new(collected)),
            bytes_max: u64::MAX,
            ..Self::default()
        }
    }

    /// Whether nothing is to be collected: the rest of the body is in the client's link, or it was collected before, for
    /// another upstream.
    pub(crate) fn claim_arrived(&mut self, client: &mut Client) -> Result<bool, Failure> {
        if self.collected.is_some() {
            return Ok(true);
        }
        self.take(client)?;
        Ok(self.rest == Rest::Nothing)
    }

    /// Whether the body was collected, which may have taken any time.
    pub(crate) fn was_collected(&self) -> bool {
        self.collected.is_some()
    }

    /// Whether the client was waited for while the body was collected.
    pub(super) fn comes_slowly(&self) -> bool {
        let collected = self.collected.as_ref();
        collected.is_some_and(|collected| collected.is_slow)
    }

    /// The client may send. Says whether it waits to be told so: one that sends already knows.
    fn meet_expectation(&mut self) -> bool {
        let awaited = self.rest == Rest::AwaitsContinue;
        self.expect_no_more();
        awaited && self.received == 0
    }

    fn poll_collect(
        &mut self,
        client: &mut Client,
        buffers: &Buffers,
        bounds: &mut Bounds,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure>> {
        loop {
            // Also what was too much has left the link: it is no part of a next request.
            let taken = self.take(client);
            let collected = self.collected.as_mut().expect("it is being collected");
            collected.append(client.link.body(self.ready));
            client.link.consume(self.ready);
            self.ready = 0;
            taken?;
            let held = collected.bytes.len();
            collected.is_whole = self.rest == Rest::Nothing;
            let more = held.saturating_sub(BUFFER_BYTES);
            let is_full = held >= bounds.bytes_max || !collected.claim.make_room(more);
            if collected.is_whole || is_full {
                self.ready = held;
                return Poll::Ready(Ok(()));
            }
            match client.link.poll_read(buffers, cx) {
                Poll::Pending => {
                    self.waits_since_ms.get_or_insert(client.timer.now_ms());
                    if held > 0 && bounds.poll_pause(cx) {
                        self.ready = held;
                        return Poll::Ready(Ok(()));
                    }
                    return client.timer.poll(cx).map(|()| Err(Failure::BodyTimeout));
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Failure::ClientGone)),
                Poll::Ready(Ok(_)) => self.count_wait(client),
            }
            bounds.pause = None;
            client.timer.set(self.patience_with_client(bounds.pace));
        }
    }

    /// What was collected goes along with the head, if it is all of the body and no more than a buffer.
    pub(super) fn put_collected_behind(&mut self, forwarded: &mut Vec<u8>) {
        let is_small = |collected: &mut Box<Collected>| {
            collected.is_whole && collected.bytes.len() <= BUFFER_BYTES
        };
        if let Some(collected) = self.collected.take_if(is_small) {
            forwarded.extend_from_slice(&collected.bytes);
            self.kept = Kept::BehindHead(collected.bytes.len());
            self.ready = 0;
        }
    }

    /// A body that is here whole is sent from its first byte, whoever was sent it before.
    pub(crate) fn rewind(&mut self) {
        if let Some(collected) = &mut self.collected
            && collected.is_whole
        {
            collected.sent = 0;
            self.ready = collected.bytes.len();
        }
    }

    /// So many bytes that were collected have been sent on.
    pub(super) fn sent_collected(&mut self, count: usize) {
        self.ready -= count;
        let Some(collected) = &mut self.collected else {
            return;
        };
        collected.sent += count;
        if !collected.is_whole {
            self.sent += count as u64;
            if self.ready == 0 {
                self.collected = None;
            }
        }
    }

    /// Nobody is sent it any more.
    pub(super) fn drop_collected(&mut self) {
        if self.collected.take().is_some() {
            self.ready = 0;
            self.kept = Kept::Nowhere;
        }
    }
}

impl Bounds {
    /// Nothing more is here for now, behind what came last, be that with the head.
    fn poll_pause(&mut self, cx: &mut Context<'_>) -> bool {
        let begin = || Due::at(time::now() + PAUSE);
        self.talks && self.pause.get_or_insert_with(begin).poll(cx).is_ready()
    }
}

impl Collected {
    pub(super) fn unsent(&self) -> Piece<'_> {
        let bytes = &self.bytes[self.sent..];
        if self.is_framed {
            Piece::Framed(bytes)
        } else {
            Piece::Content(bytes)
        }
    }

    fn append(&mut self, piece: Piece<'_>) {
        self.is_framed = matches!(piece, Piece::Framed(_));
        let more = piece.bytes();
        let wanted = self.bytes.len() + more.len();
        if wanted > self.bytes.capacity() {
            let step = self.bytes.capacity();
            let step = step.clamp(self.room_bytes_min, BUFFER_BYTES);
            let capacity = wanted.max(self.bytes.capacity() + step);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
    }
}
