//! One request to one upstream connection, and its response back to the client.
//!
//! One read and one write per direction where the messages are small: the head is rewritten while it is copied, the
//! body goes along with it untouched.

use std::future::poll_fn;
use std::task::{Context, Poll};

use weir_http::body::Framing;
use weir_http::forward::{self, ClientFraming, Edits, RequestRewrite, ResponseRewrite};
use weir_http::head::HeadScan;
use weir_http::request::Progress;
use weir_http::{Body, HeadLimits, Reject};

use crate::connection::h1::After;
use crate::connection::{Client, upgrade};
use crate::deadline::Timer;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::io::Stream;
use crate::settings::{Forward, HeaderEdits};
use crate::upstream::choose::Chosen;
use crate::upstream::connect;
use crate::upstream::upload::Pace;
use crate::worker::{View, Worker};

/// Bounds on a response head. Upstreams are configured by the operator, so this guards memory, not manners.
const RESPONSE_HEAD_LIMITS: HeadLimits = HeadLimits {
    bytes: 128 << 10,
    fields: HeadLimits::FIELDS_CEILING,
};
/// Body bytes up to this go into the buffer of the head: copying them is cheaper than telling the kernel of two pieces.
const COPIED_BODY_BYTES_MAX: usize = 4 << 10;

/// A connection to an endpoint, with one request on it.
#[derive(Debug)]
pub(crate) struct Upstream {
    stream: Stream,
    /// Whether it came from the pool.
    pub(crate) is_reused: bool,
    /// Of the request.
    pub(crate) bytes_sent: usize,
    /// Whether a byte of response has come.
    pub(crate) has_answered: bool,
}

/// Writes the head to send, and the body behind it when all of it is here.
pub(crate) fn prepare(
    client: &mut Client,
    x: &mut Exchange,
    view: &View,
    rule: &Forward,
) -> Result<(), Failure> {
    let upstream = &view.snapshot.upstreams[rule.upstream];
    let mut outgoing = std::mem::take(&mut x.outgoing);
    outgoing.clear();
    let rewrite = RequestRewrite {
        path: stripped_path(x, rule),
        client_address: client.address.as_bytes(),
        scheme: b"http",
        default_host: upstream.endpoints[0].label.as_bytes(),
        upgrade: passes_upgrade(x, rule),
        edits: edits(&rule.request_headers),
    };
    forward::write_request(&x.request, &x.head, &rewrite, &mut outgoing);
    x.outgoing = outgoing;
    x.upload.begin(client, &mut x.outgoing)
}

/// A connection to the chosen endpoint: an idle one, unless a `fresh` one is wanted.
pub(crate) async fn connect(
    client: &Client,
    rule: &Forward,
    chosen: &Chosen,
    fresh: bool,
) -> Result<Upstream, Failure> {
    // An endpoint on trial proves itself by accepting a connection, not by one that it accepted long ago.
    let may_reuse = !fresh && !chosen.is_trial();
    let pooled = if may_reuse {
        chosen.pool().take()
    } else {
        None
    };
    let is_reused = pooled.is_some();
    let stream = if let Some(stream) = pooled {
        chosen.metrics().pool_hits.add(1);
        stream
    } else {
        let stream = connect::connect(
            &chosen.endpoint().address,
            rule.timeouts.connect,
            &client.timer,
        )
        .await?;
        chosen.metrics().connects.add(1);
        chosen.endpoint().health.connected();
        stream
    };
    Ok(Upstream {
        stream,
        is_reused,
        bytes_sent: 0,
        has_answered: false,
    })
}

/// Sends the request and reads up to the end of the response head, passing interim responses on.
pub(crate) async fn ask(
    client: &mut Client,
    x: &mut Exchange,
    worker: &Worker,
    rule: &Forward,
    upstream: &mut Upstream,
) -> Result<(), Failure> {
    let pace = pace(worker, rule);
    client.timer.set(pace.upstream);
    poll_fn(|cx| poll_send(upstream, &x.outgoing, &client.timer, cx)).await?;
    client.timer.set(x.upload.patience(pace));
    let mut scan = HeadScan::default();
    loop {
        let head = x.incoming.unread();
        let progress = x
            .response
            .parse(head, &mut scan, RESPONSE_HEAD_LIMITS, x.request.method);
        match progress.map_err(Failure::Response)? {
            Progress::Complete(bytes) if x.response.is_interim() => {
                pass_interim(client, x, worker, rule, upstream, bytes).await?;
                scan = HeadScan::default();
                client.timer.set(x.upload.patience(pace));
            }
            Progress::Complete(_) if x.response.status == 101 && !passes_upgrade(x, rule) => {
                return Err(Failure::Response(Reject::UnaskedUpgrade));
            }
            Progress::Complete(_) => return Ok(()),
            Progress::Incomplete => {
                if receive(client, x, worker, upstream, pace).await? == 0 {
                    return Err(Failure::UpstreamClosed);
                }
                upstream.has_answered = true;
            }
        }
    }
}

/// Sends the response, whose head was read, to the client, and keeps the upstream connection if it can serve again.
pub(crate) async fn respond(
    client: &mut Client,
    x: &mut Exchange,
    worker: &Worker,
    rule: &Forward,
    chosen: &Chosen,
    mut upstream: Upstream,
) -> Result<After, Failure> {
    let framing = ClientFraming::of(&x.response, x.request.version);
    let ends_by_closing = framing == ClientFraming::RemoveChunks
        || (framing == ClientFraming::AsIs && x.response.framing == Framing::UntilClose);
    // Of a request that is not whole yet the rest may never come: a client that waits for a 100 need not send it.
    let keep_alive = x.client_keeps_alive(worker) && !ends_by_closing && x.upload.is_complete();
    let mut body = Body::new(x.response.framing);
    write_head(x, worker, rule, framing, keep_alive);
    x.facts.status = x.response.status;
    x.facts.head_bytes_sent += x.outgoing.len() as u64;
    if x.response.status == 101 {
        return tunnel(client, x, worker, &mut upstream).await;
    }
    let pace = pace(worker, rule);
    if let Err(failure) =
        stream_body(client, x, worker, &mut upstream, &mut body, framing, pace).await
    {
        // The head is out, so a status is of no use; only the connection can say that this is not the end.
        x.facts.failure = Some(failure);
        return Ok(After::Abort);
    }
    let is_whole = x.upload.is_complete();
    if is_whole && x.response.keep_alive && x.incoming.is_empty() && body.is_done() {
        chosen
            .pool()
            .put(upstream.stream, worker.deadlines.now_ms());
    }
    Ok(After::keep_alive(keep_alive))
}

/// Moves the body behind the head in `x.outgoing`, until its end.
async fn stream_body(
    client: &mut Client,
    x: &mut Exchange,
    worker: &Worker,
    upstream: &mut Upstream,
    body: &mut Body,
    framing: ClientFraming,
    pace: Pace,
) -> Result<(), Failure> {
    loop {
        let taken = take_body(x, body, framing)?;
        send(client, x, worker, upstream, taken, pace).await?;
        x.incoming.consume(taken);
        if body.is_done() {
            break;
        }
        x.incoming.release(&worker.buffers);
        client.timer.set(pace.upstream);
        if receive(client, x, worker, upstream, pace)
            .await
            .map_err(cut_off)?
            == 0
        {
            if !body.may_end_here() {
                return Err(Failure::ResponseCut);
            }
            break;
        }
    }
    if framing == ClientFraming::AddChunks {
        x.outgoing.extend_from_slice(b"0\r\n\r\n");
        send(client, x, worker, upstream, 0, pace).await?;
    }
    Ok(())
}

/// Claims what is here of the body and readies it for sending: the bytes that stay in `x.incoming` are counted, the
/// others are in `x.outgoing`.
fn take_body(x: &mut Exchange, body: &mut Body, framing: ClientFraming) -> Result<usize, Failure> {
    let unread = x.incoming.unread();
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
            if taken > 0 {
                outgoing.extend_from_slice(format!("{taken:x}\r\n").as_bytes());
                outgoing.extend_from_slice(&unread[..taken]);
                outgoing.extend_from_slice(b"\r\n");
            }
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
    client: &mut Client,
    x: &mut Exchange,
    worker: &Worker,
    upstream: &Upstream,
    body_bytes: usize,
    pace: Pace,
) -> Result<(), Failure> {
    let total = x.outgoing.len() + body_bytes;
    let mut sent = 0;
    let patience = worker.view().snapshot.timeouts.send;
    client.timer.set(patience);
    let result = poll_fn(|cx| {
        while sent < total {
            let head = x.outgoing.get(sent..).unwrap_or_default();
            let body_start = sent.saturating_sub(x.outgoing.len());
            let body = &x.incoming.unread()[body_start..body_bytes];
            match client.stream.poll_write(cx, head, body) {
                Poll::Ready(Ok(count)) => {
                    sent += count;
                    client.timer.set(patience);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Failure::ClientGone)),
                Poll::Pending => {
                    x.upload
                        .poll(client, &upstream.stream, &worker.buffers, pace, cx)?;
                    return client.timer.poll(cx).map(|()| Err(Failure::ClientGone));
                }
            }
        }
        Poll::Ready(Ok(()))
    })
    .await;
    x.facts.bytes_sent += sent as u64;
    x.outgoing.clear();
    result
}

/// Reads from the upstream, while the request body goes the other way.
async fn receive(
    client: &mut Client,
    x: &mut Exchange,
    worker: &Worker,
    upstream: &mut Upstream,
    pace: Pace,
) -> Result<usize, Failure> {
    poll_fn(|cx| {
        x.upload
            .poll(client, &upstream.stream, &worker.buffers, pace, cx)?;
        match x
            .incoming
            .poll_fill(&mut upstream.stream, &worker.buffers, cx)
        {
            Poll::Ready(Ok(count)) => Poll::Ready(Ok(count)),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Failure::UpstreamClosed)),
            Poll::Pending => client.timer.poll(cx).map(|()| Err(x.upload.late())),
        }
    })
    .await
}

/// Sends an interim response of `bytes` on, if the client can read one.
async fn pass_interim(
    client: &mut Client,
    x: &mut Exchange,
    worker: &Worker,
    rule: &Forward,
    upstream: &Upstream,
    bytes: usize,
) -> Result<(), Failure> {
    if x.request.version == weir_http::Version::Http11 {
        // The request is kept for as long as it may be sent again; after a byte of response it may not.
        write_head(x, worker, rule, ClientFraming::AsIs, true);
        x.facts.head_bytes_sent += x.outgoing.len() as u64;
        let sent = send(client, x, worker, upstream, 0, pace(worker, rule)).await;
        // Half an interim response leaves no way to say anything else.
        sent.map_err(|_| Failure::ClientGone)?;
    } else {
        x.incoming.consume(bytes);
    }
    Ok(())
}

/// Writes the response head for the client to `x.outgoing` and takes the upstream's off the input.
fn write_head(
    x: &mut Exchange,
    worker: &Worker,
    rule: &Forward,
    framing: ClientFraming,
    keep_alive: bool,
) {
    let texts = worker.clock.texts();
    let rewrite = ResponseRewrite {
        method: x.request.method,
        client_version: x.request.version,
        framing,
        keep_alive,
        date: &texts.imf_fixdate,
        edits: edits(&rule.response_headers),
    };
    x.outgoing.clear();
    let head_bytes = x.response.head_bytes;
    forward::write_response(
        &x.response,
        &x.incoming.unread()[..head_bytes],
        &rewrite,
        &mut x.outgoing,
    );
    x.incoming.consume(head_bytes);
}

async fn tunnel(
    client: &mut Client,
    x: &mut Exchange,
    worker: &Worker,
    upstream: &mut Upstream,
) -> Result<After, Failure> {
    let timeouts = &worker.view().snapshot.timeouts;
    let pace = Pace {
        client: timeouts.send,
        upstream: timeouts.send,
        response: timeouts.send,
    };
    send(client, x, worker, upstream, 0, pace).await?;
    let moved = upgrade::tunnel(
        client,
        &mut upstream.stream,
        &mut x.incoming,
        &worker.buffers,
        timeouts.tunnel,
    )
    .await;
    x.facts.bytes_sent += moved.to_client;
    x.facts.tunnel_bytes_received = moved.from_client;
    Ok(After::Leave)
}

fn poll_send(
    upstream: &mut Upstream,
    bytes: &[u8],
    timer: &Timer,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Failure>> {
    while upstream.bytes_sent < bytes.len() {
        match upstream
            .stream
            .poll_write(cx, &bytes[upstream.bytes_sent..], &[])
        {
            Poll::Ready(Ok(count)) => upstream.bytes_sent += count,
            Poll::Ready(Err(_)) => return Poll::Ready(Err(Failure::UpstreamClosed)),
            Poll::Pending => return timer.poll(cx).map(|()| Err(Failure::ResponseTimeout)),
        }
    }
    Poll::Ready(Ok(()))
}

/// Late or broken, a response that has begun is cut off.
fn cut_off(failure: Failure) -> Failure {
    match failure {
        Failure::ResponseTimeout | Failure::UpstreamClosed => Failure::ResponseCut,
        other => other,
    }
}

fn pace(worker: &Worker, rule: &Forward) -> Pace {
    Pace {
        client: worker.view().snapshot.timeouts.body,
        upstream: rule.timeouts.idle,
        response: rule.timeouts.response,
    }
}

fn edits(edits: &HeaderEdits) -> Edits<'_> {
    Edits {
        set: &edits.set,
        remove: &edits.remove,
    }
}

/// The path to ask for: as it was sent, or what remains of its normal form, which is the one that the route matched.
fn stripped_path<'x>(x: &'x Exchange, rule: &Forward) -> &'x [u8] {
    let Some(prefix) = &rule.strip_prefix else {
        return x.request.target.path.of(&x.head);
    };
    let path = x.path().as_bytes();
    match path.strip_prefix(prefix.trim_end_matches('/').as_bytes()) {
        Some([]) => b"/",
        Some(rest @ [b'/', ..]) => rest,
        _ => path,
    }
}

/// Whether the client asks for an upgrade that the route lets through. Others are left out of the request, so the
/// upstream answers as if nothing had been asked: an `h2c` tunnel would lead past every rule of the gateway.
fn passes_upgrade(x: &Exchange, rule: &Forward) -> bool {
    let Some(upgrade) = x.request.upgrade else {
        return false;
    };
    let asked = upgrade.of(&x.head);
    x.request.framing == Framing::Empty
        && rule
            .upgrade
            .iter()
            .any(|protocol| asked.eq_ignore_ascii_case(protocol.as_bytes()))
}
