//! A response on its way to the client: the head rewritten, the body streamed behind it.
//!
//! The body's bytes go out as they came in, and no faster than the client takes them: nothing is read from the
//! upstream while something waits for the client, but where that would keep a place in it (`ahead.rs`). Meanwhile what is
//! left of the request body goes the other way.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use weir_http::body::Piece;
use weir_http::forward::{self, ResponseRewrite};
use weir_http::opening::End;
use weir_http::{Content, FieldName, Method, Version};

use crate::buffers::{BUFFER_BYTES, Input};
use crate::compress;
use crate::connection::{After, upgrade};
use crate::error_pages;
use crate::exchange::Exchange;
use crate::exchange::outgoing::{self, Behind, COPIED_BODY_BYTES_MAX, Told};
use crate::failure::Failure;
use crate::serving::Forwarding;
use crate::settings::ErrorPage;
use crate::slow::Slow;
use crate::state::encoder::Encoder;
use crate::state::slow::Holding;
use crate::state::worker::Worker;
use crate::upstream::chosen::Chosen;
use crate::upstream::hedge::Asked;
use crate::upstream::relay::{Upstream, receive};
use crate::upstream::retry::Slot;
use crate::upstream::{ahead, linger};
use crate::wire::Wire;

/// Sends the response of who is in the slot, whose head was read, to the client, and keeps the upstream connection if it can serve
/// again.
pub(crate) async fn respond(
    x: &mut Exchange,
    by: Forwarding<'_>,
    slot: &mut Slot,
) -> Result<After, Failure> {
    if let Some(page) = error_pages::of_upstream(*by, x.response.status) {
        return Box::pin(replace(x, by, slot, page)).await;
    }
    let Some(Asked { chosen, upstream }) = slot else {
        return Err(Failure::UpstreamClosed);
    };
    if upstream.pass.has_place() {
        ahead::begin(x, by, upstream)?;
    }
    let compress::Passing { content, encoder } = compress::passing(x, by);
    let end = match &encoder {
        Some(_) => End::of_unknown_length(x.request.version),
        None => End::of(x.response.framing, x.request.version),
    };
    // Of a request that is not whole yet the rest may never come: a client that waits for a 100 need not send it.
    let may_go_on = end != End::Close && x.upload.is_complete();
    let keep_alive = x.client_keeps_alive(by.worker) && may_go_on;
    x.upload.answered();
    upstream.wire.begin_body(x.response.framing);
    upstream.sends_events = end != End::InHead && ahead::is_event_stream(x);
    let told = if is_head_of_chunks(x) {
        End::Chunks
    } else {
        end
    };
    write_lines(x, by, (end, content));
    x.finish_head(by.answering(), x.response.status, told, keep_alive);
    if x.response.status == 101 {
        // A tunnel may last for days, and says nothing of how fast the upstream is.
        upstream.pass.hold_up();
        upstream.pass.finish();
        return Box::pin(tunnel(x, by, upstream)).await;
    }
    let sent = match encoder {
        Some(encoder) => {
            let stream = stream_encoded(x, by, upstream, (encoder, end, content));
            Box::pin(stream).await
        }
        None => stream_body(x, by, upstream, end).await,
    };
    let failed = sent.err();
    let after = x.after(by.worker, sent, keep_alive)?;
    if let Some(failure) = failed {
        chosen.broke_off(failure);
    }
    match (failed, slot.take()) {
        (None, Some(Asked { chosen, upstream })) => put_back(x, by.worker, &chosen, upstream),
        (Some(Failure::ClientGone), Some(asked)) => {
            linger::after_head(x, by.worker, asked.upstream);
        }
        _ => {}
    }
    Ok(after)
}

/// Sends a page in the place of the response. Its connection is kept if all of it has come.
async fn replace(
    x: &mut Exchange,
    by: Forwarding<'_>,
    slot: &mut Slot,
    page: &ErrorPage,
) -> Result<After, Failure> {
    let Some(Asked {
        chosen,
        mut upstream,
    }) = slot.take()
    else {
        return Err(Failure::UpstreamClosed);
    };
    let (status, head_bytes) = (x.response.status, x.response.head_bytes);
    let lines = error_pages::kept_lines(x.response.view(&x.incoming.unread()[..head_bytes]));
    x.incoming.consume(head_bytes);
    x.upload.answered();
    upstream.wire.begin_body(x.response.framing);
    let taken = upstream.wire.read_body(x.incoming.unread(), |_| {});
    x.incoming.consume(taken.map_err(Failure::Response)?);
    put_back(x, by.worker, &chosen, upstream);
    x.incoming.consume(x.incoming.unread().len());
    x.incoming.release(&by.worker.buffers);
    error_pages::send(x, *by, (status, page), &lines).await
}

/// Whether the response is to a HEAD, and a GET would be answered in chunks: the client is told so all the same (RFC 9110 §9.3.2).
fn is_head_of_chunks(x: &Exchange) -> bool {
    x.request.method == Method::Head
        && x.request.version == Version::Http11
        && x.response
            .known_field(FieldName::TransferEncoding)
            .is_some()
}

/// Keeps the connection of a response that has been read, if it can serve again.
pub(crate) fn put_back(x: &Exchange, worker: &Worker, chosen: &Chosen, mut upstream: Upstream) {
    let is_over = upstream.wire.is_over();
    if is_over {
        upstream.pass.finish();
    }
    let is_whole = upstream.wire.is_sent() && x.upload.is_complete() && is_over;
    if is_whole && x.response.keep_alive && x.incoming.is_empty() {
        let pool = chosen.pool();
        pool.put(upstream.wire.into_stream(), worker.deadlines.now_ms());
    }
}

/// Moves the body behind the head until its end.
async fn stream_body(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    end: End,
) -> Result<(), Failure> {
    let rest = loop {
        let taken = take_body(x, &mut upstream.wire, end)?;
        if upstream.wire.is_over() {
            upstream.pass.finish();
        }
        send(x, by, upstream, taken).await?;
        x.incoming.consume(taken);
        if upstream.wire.is_over() {
            break Rest::None;
        }
        if !x.incoming.is_empty() {
            // It was read ahead.
            continue;
        }
        match more(x, by, upstream).await? {
            Rest::Some => {}
            no_more => break no_more,
        }
    };
    if rest == Rest::Ended || !end.passes(x.response.framing) {
        end.finish(b"", &mut x.outgoing.bytes);
        send(x, by, upstream, 0).await?;
    }
    Ok(())
}

/// The same for a body that goes through an encoder. Whatever has come is on its way before more is waited for.
async fn stream_encoded(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    (mut encoder, end, content): (Box<Encoder>, End, Content<'_>),
) -> Result<(), Failure> {
    let mut slow = Slow::new(by.worker);
    let grant = Arc::clone(encoder.grant());
    let mut trailers = Vec::new();
    loop {
        let unread = next_of(&x.incoming);
        let taken = upstream.wire.read_body(unread, |piece| match piece {
            Piece::Content(content) => encoder.write(content),
            Piece::Trailers(lines) => trailers.extend_from_slice(lines),
        });
        x.incoming.consume(taken.map_err(Failure::Response)?);
        if upstream.wire.is_over() {
            upstream.pass.finish();
            break;
        }
        let is_all_for_now = x.incoming.is_empty() && upstream.wire.is_quiet();
        let out = &mut x.outgoing.bytes;
        if is_all_for_now {
            encoder.flush(|made| end.frame(made, out));
        } else {
            encoder.take(|made| end.frame(made, out));
        }
        let bytes = out.len();
        let sending = send(x, by, upstream, 0);
        let sent = slow
            .unless_cut(bytes, || Holding::of(&grant), sending)
            .await;
        sent.unwrap_or(Err(Failure::ClientGone))?;
        if !x.incoming.is_empty() {
            continue;
        }
        if more(x, by, upstream).await? != Rest::Some {
            break;
        }
    }
    let out = &mut x.outgoing.bytes;
    encoder.finish(|made| end.frame(made, out));
    let mut kept = Vec::new();
    forward::write_trailers(&trailers, content, by.drops(), &mut kept);
    end.finish(&kept, out);
    send(x, by, upstream, 0).await
}

/// What is left of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Some of it has come.
    Some,
    /// It is over.
    None,
    /// The gateway ends, and so does a stream that has no end of its own.
    Ended,
}

/// Reads more of the body, all of which that came before has been sent.
async fn more(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<Rest, Failure> {
    x.incoming.release(&by.worker.buffers);
    let idle = by.rule.timeouts.idle;
    x.client.timer.set(if upstream.sends_events {
        // It has nothing to say between two events, like a tunnel.
        idle.max(x.timeouts.tunnel)
    } else {
        idle
    });
    let received = if upstream.sends_events {
        match Box::pin(next_event(x, by, upstream)).await {
            Some(received) => received,
            None => return Ok(Rest::Ended),
        }
    } else {
        receive_any(x, by, upstream).await
    };
    match received.map_err(cut_off)? {
        0 if upstream.wire.may_end_here() => Ok(Rest::None),
        0 => Err(Failure::ResponseCut),
        _ => Ok(Rest::Some),
    }
}

async fn receive_any(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<usize, Failure> {
    if upstream.pass.ahead().is_some() {
        Box::pin(ahead::receive(x, by, upstream)).await
    } else {
        receive(x, by, upstream).await
    }
}

/// The same for a stream of events. `None` once the gateway drains: nobody has to wait for a stream without end, and who listens
/// comes back to another gateway. All timers are woken when draining begins.
async fn next_event(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Option<Result<usize, Failure>> {
    let may_be_ended = upstream.wire.may_be_ended_here();
    let mut received = pin!(receive_any(x, by, upstream));
    poll_fn(|cx| {
        if may_be_ended && by.worker.is_draining() {
            return Poll::Ready(None);
        }
        received.as_mut().poll(cx).map(Some)
    })
    .await
}

/// As much of what was read as goes to the client in one piece: of what was read ahead there may be more.
fn next_of(incoming: &Input) -> &[u8] {
    let unread = incoming.unread();
    &unread[..unread.len().min(BUFFER_BYTES)]
}

/// Claims what is here of the body and readies it for sending: the bytes that stay in `x.incoming` are counted, the
/// others are behind the head.
fn take_body(x: &mut Exchange, wire: &mut Wire, end: End) -> Result<usize, Failure> {
    let unread = next_of(&x.incoming);
    let out = &mut x.outgoing.bytes;
    let taken = if end.passes(x.response.framing) {
        let taken = wire.take_body(unread).map_err(Failure::Response)?;
        if out.is_empty() || taken > COPIED_BODY_BYTES_MAX {
            return Ok(taken);
        }
        out.extend_from_slice(&unread[..taken]);
        taken
    } else {
        let framed = wire.read_body(unread, |piece| {
            if let Piece::Content(content) = piece {
                end.frame(content, out);
            }
        });
        framed.map_err(Failure::Response)?
    };
    x.incoming.consume(taken);
    Ok(0)
}

/// Sends what is written for the client, and behind it the first `body_bytes` of what was read.
async fn send(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    body_bytes: usize,
) -> Result<(), Failure> {
    outgoing::send_while(x, Behind::Incoming(body_bytes), |x, cx| {
        ahead::poll(x, by, upstream, cx)?;
        let (pace, buffers) = (x.pace(by.rule), &by.worker.buffers);
        x.upload
            .poll(&mut x.client, &upstream.wire, buffers, pace, cx)
    })
    .await
}

/// Sends an interim response of `bytes` on, if the client can read one.
pub(super) async fn pass_interim(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    bytes: usize,
) -> Result<(), Failure> {
    x.upload.continued();
    if x.request.version == Version::Http11 {
        write_lines(x, by, (End::InHead, Content::AsIs));
        x.outgoing.finish_interim(Told::Interim);
        let sent = send(x, by, upstream, 0).await;
        // Part of an interim response leaves no way to say anything else.
        sent.map_err(|_| Failure::ClientGone)?;
    } else {
        x.incoming.consume(bytes);
    }
    Ok(())
}

/// Writes the status line and the lines of the response for the client, and takes the upstream's head off the input.
fn write_lines(x: &mut Exchange, by: Forwarding<'_>, (end, content): (End, Content<'_>)) {
    let texts = by.worker.clock.texts();
    let rewrite = ResponseRewrite {
        end,
        content,
        date_line: &texts.date_line,
        edits: by.drops(),
    };
    let head_bytes = x.response.head_bytes;
    let head = &x.incoming.unread()[..head_bytes];
    x.outgoing.begin(x.response.status_text.of(head));
    forward::write_response(&x.response, head, &rewrite, &mut x.outgoing.bytes);
    x.incoming.consume(head_bytes);
}

async fn tunnel(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<After, Failure> {
    let protocol = x.request.upgrade.map(|span| span.of(&x.head));
    let kind = upgrade::Kind {
        is_websocket: protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket")),
        idle: x.timeouts.tunnel,
    };
    x.facts.tunnel_bytes_received = Some(0);
    send(x, by, upstream, 0).await?;
    let (client, incoming) = (&mut x.client, &mut x.incoming);
    let moved = upgrade::tunnel(client, &mut upstream.wire, incoming, by.worker, kind).await;
    if moved.is_cut_off {
        by.worker.shared.cut_off.tunnel();
    }
    x.facts.bytes_sent += moved.to_client;
    x.facts.tunnel_bytes_received = Some(moved.from_client);
    Ok(After::Leave)
}

/// Late or broken, a response that has begun is cut off.
fn cut_off(failure: Failure) -> Failure {
    match failure {
        Failure::ResponseTimeout | Failure::UpstreamClosed => Failure::ResponseCut,
        other => other,
    }
}
