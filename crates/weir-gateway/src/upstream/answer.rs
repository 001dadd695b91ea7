//! A response on its way to the client: the head rewritten, the body streamed behind it.
//!
//! The body's bytes go out as they came in, and no faster than the client takes them: nothing is read from the
//! upstream while something waits for the client, but where that would keep a place in it (`ahead.rs`). Meanwhile what is
//! left of the request body goes the other way.

use std::future::poll_fn;
use std::sync::Arc;

use weir_http::body::Framing;
use weir_http::chunk::write_chunk;
use weir_http::forward::{self, ClientFraming, ResponseRewrite};
use weir_http::{Body, Content, Version};

use crate::buffers::{BUFFER_BYTES, Input};
use crate::care::rate;
use crate::compress;
use crate::connection::{After, upgrade};
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::serving::Forwarding;
use crate::slow::Slow;
use crate::state::encoder::Encoder;
use crate::state::slow::Holding;
use crate::state::worker::Worker;
use crate::upstream::choose::Chosen;
use crate::upstream::relay::{Upstream, edits, receive};
use crate::upstream::{ahead, linger};

/// Body bytes up to this go into the buffer of the head: copying them is cheaper than telling the kernel of two pieces.
const COPIED_BODY_BYTES_MAX: usize = 4 << 10;

/// Sends the response, whose head was read, to the client, and keeps the upstream connection if it can serve again.
pub(crate) async fn respond(
    x: &mut Exchange,
    by: Forwarding<'_>,
    chosen: &Chosen,
    mut upstream: Upstream,
) -> Result<After, Failure> {
    if upstream.pass.has_place() {
        ahead::begin(x, by, &mut upstream)?;
    }
    let compress::Passing { content, encoder } = compress::passing(x, by);
    let framing = match &encoder {
        Some(_) => ClientFraming::of_unknown_length(x.request.version),
        None => ClientFraming::of(&x.response, x.request.version),
    };
    let ends_by_closing = framing == ClientFraming::RemoveChunks
        || (framing == ClientFraming::AsIs && x.response.framing == Framing::UntilClose);
    // Of a request that is not whole yet the rest may never come: a client that waits for a 100 need not send it.
    let keep_alive = x.client_keeps_alive(by.worker) && !ends_by_closing && x.upload.is_complete();
    x.upload.answered();
    let mut body = Body::new(x.response.framing);
    let before = x.facts.said();
    write_head(x, by, (framing, content), keep_alive);
    x.facts.status = x.response.status;
    x.facts.head_bytes_sent += x.outgoing.len() as u64;
    if x.response.status == 101 {
        // A tunnel may last for days, and says nothing of how fast the upstream is.
        upstream.pass.hold_up();
        upstream.pass.finish();
        return Box::pin(tunnel(x, by, &mut upstream)).await;
    }
    let streamed = match encoder {
        Some(encoder) => {
            let to = (encoder, framing);
            let stream = stream_encoded(x, by, &mut upstream, &mut body, to);
            Box::pin(stream).await
        }
        None => stream_body(x, by, &mut upstream, &mut body, framing).await,
    };
    if let Err(failure) = streamed {
        if x.facts.took_back(before) {
            return Err(failure);
        }
        chosen.broke_off(failure);
        if failure == Failure::ClientGone {
            linger::after_head(x, by.worker, upstream);
        }
        // The head is out, so a status is of no use; only the connection can say that this is not the end.
        x.facts.failure = Some(by.worker.meaning_of(failure));
        return Ok(After::Abort);
    }
    put_back(x, by.worker, chosen, upstream, body.is_done());
    Ok(After::keep_alive(keep_alive))
}

/// Keeps the connection of a response that has been read, if it can serve again.
pub(crate) fn put_back(
    x: &Exchange,
    worker: &Worker,
    chosen: &Chosen,
    mut upstream: Upstream,
    is_done: bool,
) {
    if is_done {
        upstream.pass.finish();
    }
    let is_whole = upstream.is_sent && x.upload.is_complete() && is_done;
    if is_whole && x.response.keep_alive && x.incoming.is_empty() {
        let pool = chosen.pool();
        pool.put(upstream.stream, worker.deadlines.now_ms());
    }
}

/// Moves the body behind the head in `x.outgoing`, until its end.
async fn stream_body(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    body: &mut Body,
    framing: ClientFraming,
) -> Result<(), Failure> {
    loop {
        let taken = take_body(x, body, framing)?;
        if body.is_done() {
            upstream.pass.finish();
        }
        send(x, by, upstream, taken).await?;
        x.incoming.consume(taken);
        if body.is_done() {
            break;
        }
        if !x.incoming.is_empty() {
            // It was read ahead.
            continue;
        }
        if more(x, by, upstream).await? == 0 {
            if !body.may_end_here() {
                return Err(Failure::ResponseCut);
            }
            break;
        }
    }
    if framing == ClientFraming::AddChunks {
        x.outgoing.extend_from_slice(b"0\r\n\r\n");
        send(x, by, upstream, 0).await?;
    }
    Ok(())
}

/// The same for a body that goes through an encoder. Whatever has come is on its way before more is waited for.
async fn stream_encoded(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    body: &mut Body,
    (mut encoder, framing): (Box<Encoder>, ClientFraming),
) -> Result<(), Failure> {
    let mut slow = Slow::new(by.worker);
    let grant = Arc::clone(encoder.grant());
    loop {
        let taken = body.decode(next_of(&x.incoming), |content| encoder.write(content));
        x.incoming.consume(taken.map_err(Failure::Response)?);
        if body.is_done() {
            upstream.pass.finish();
            break;
        }
        let is_all_for_now = x.incoming.is_empty() && upstream.stream.is_quiet();
        if is_all_for_now {
            encoder.flush(|made| append(made, framing, &mut x.outgoing));
        } else {
            encoder.take(|made| append(made, framing, &mut x.outgoing));
        }
        let bytes = x.outgoing.len();
        let sending = send(x, by, upstream, 0);
        let sent = slow
            .unless_cut(bytes, || Holding::of(&grant), sending)
            .await;
        sent.unwrap_or(Err(Failure::ClientGone))?;
        if !x.incoming.is_empty() {
            continue;
        }
        if more(x, by, upstream).await? == 0 {
            if !body.may_end_here() {
                return Err(Failure::ResponseCut);
            }
            break;
        }
    }
    encoder.finish(|made| append(made, framing, &mut x.outgoing));
    if framing == ClientFraming::AddChunks {
        x.outgoing.extend_from_slice(b"0\r\n\r\n");
    }
    send(x, by, upstream, 0).await
}

/// Reads more of the body, all of which that came before has been sent.
async fn more(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<usize, Failure> {
    x.incoming.release(&by.worker.buffers);
    x.client.timer.set(by.rule.timeouts.idle);
    let received = if upstream.pass.ahead().is_some() {
        Box::pin(ahead::receive(x, by, upstream)).await
    } else {
        receive(x, by, upstream).await
    };
    received.map_err(cut_off)
}

/// As much of what was read as goes to the client in one piece: of what was read ahead there may be more.
fn next_of(incoming: &Input) -> &[u8] {
    let unread = incoming.unread();
    &unread[..unread.len().min(BUFFER_BYTES)]
}

/// Appends content in the framing that its client gets.
fn append(content: &[u8], framing: ClientFraming, out: &mut Vec<u8>) {
    if framing == ClientFraming::AddChunks {
        write_chunk(content, out);
    } else {
        out.extend_from_slice(content);
    }
}

/// Claims what is here of the body and readies it for sending: the bytes that stay in `x.incoming` are counted, the
/// others are in `x.outgoing`.
fn take_body(x: &mut Exchange, body: &mut Body, framing: ClientFraming) -> Result<usize, Failure> {
    let unread = next_of(&x.incoming);
    let outgoing = &mut x.outgoing;
    let copied = match framing {
        ClientFraming::AsIs => {
            let taken = body.take(unread).map_err(Failure::Response)?;
            if outgoing.is_empty() || taken > COPIED_BODY_BYTES_MAX {
                return Ok(taken);
            }
            outgoing.extend_from_slice(&unread[..taken]);
            taken
        }
        ClientFraming::AddChunks => {
            let taken = body.take(unread).map_err(Failure::Response)?;
            append(&unread[..taken], framing, outgoing);
            taken
        }
        ClientFraming::RemoveChunks => body
            .decode(unread, |content| outgoing.extend_from_slice(content))
            .map_err(Failure::Response)?,
    };
    x.incoming.consume(copied);
    Ok(0)
}

/// Writes `x.outgoing` and behind it the first `body_bytes` of what was read, all of both, and clears the former.
async fn send(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    body_bytes: usize,
) -> Result<(), Failure> {
    let mut sent = 0;
    let (patience, pace) = (x.timeouts.send, x.pace(by.rule));
    x.client.timer.set(patience);
    let result = poll_fn(|cx| {
        let pieces = (&x.outgoing[..], &x.incoming.unread()[..body_bytes]);
        let progress = x.client.poll_send(&mut sent, pieces, patience, cx);
        if progress.is_pending() {
            ahead::poll(x, by, upstream, cx)?;
            x.upload.poll(
                &mut x.client,
                &upstream.stream,
                &by.worker.buffers,
                pace,
                cx,
            )?;
        }
        progress
    })
    .await;
    x.facts.bytes_sent += sent as u64;
    x.outgoing.clear();
    result
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
        // The request is kept for as long as it may be sent again; after a byte of response it may not.
        let unchanged = (ClientFraming::AsIs, Content::AsIs);
        write_head(x, by, unchanged, true);
        x.facts.head_bytes_sent += x.outgoing.len() as u64;
        x.facts.says_interim = true;
        let sent = send(x, by, upstream, 0).await;
        // Half an interim response leaves no way to say anything else.
        sent.map_err(|_| Failure::ClientGone)?;
        x.facts.says_interim = false;
    } else {
        x.incoming.consume(bytes);
    }
    Ok(())
}

/// Writes the response head for the client to `x.outgoing` and takes the upstream's off the input.
fn write_head(
    x: &mut Exchange,
    by: Forwarding<'_>,
    (framing, content): (ClientFraming, Content<'_>),
    keep_alive: bool,
) {
    let texts = by.worker.clock.texts();
    let rewrite = ResponseRewrite {
        client_version: x.request.version,
        framing,
        content,
        keep_alive,
        date: &texts.imf_fixdate,
        edits: edits(&by.rule.response_headers),
    };
    x.outgoing.clear();
    let head_bytes = x.response.head_bytes;
    forward::write_response(
        &x.response,
        &x.incoming.unread()[..head_bytes],
        &rewrite,
        &mut x.outgoing,
    );
    if !x.response.is_interim() && (x.recall.status.is_some() || x.rate.is_some()) {
        // Before the empty line.
        x.outgoing.truncate(x.outgoing.len() - 2);
        if let Some(said) = &x.recall.status {
            said.write(&mut x.outgoing);
        }
        if let Some(decision) = &x.rate {
            rate::write_fields(decision, &mut x.outgoing);
        }
        x.outgoing.extend_from_slice(b"\r\n");
    }
    x.incoming.consume(head_bytes);
}

async fn tunnel(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<After, Failure> {
    let timeouts = x.timeouts;
    send(x, by, upstream, 0).await?;
    let moved = upgrade::tunnel(
        &mut x.client,
        &mut upstream.stream,
        &mut x.incoming,
        &by.worker.buffers,
        timeouts.tunnel,
    )
    .await;
    x.facts.bytes_sent += moved.to_client;
    x.facts.tunnel_bytes_received = moved.from_client;
    Ok(After::Leave)
}

/// Late or broken, a response that has begun is cut off.
fn cut_off(failure: Failure) -> Failure {
    match failure {
        Failure::ResponseTimeout | Failure::UpstreamClosed => Failure::ResponseCut,
        other => other,
    }
}
