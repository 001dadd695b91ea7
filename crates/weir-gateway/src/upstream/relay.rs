//! One request on one upstream connection, up to the head of its response.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use weir_http::body::Framing;
use weir_http::forward::{self, RequestRewrite, write_field};
use weir_http::request::Progress;
use weir_http::{FieldName, Reject, host, target};

use crate::compress;
use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::exchange::pass::{self, Pass};
use crate::exchange::upload::Pace;
use crate::exchange::variables::Place;
use crate::failure::Failure;
use crate::serving::Forwarding;
use crate::settings::template::{Part, Template, Variable};
use crate::settings::{EndpointAddress, Forward, Server, ServerAddress};
use crate::upstream::chosen::Chosen;
use crate::upstream::connect::Unproven;
use crate::upstream::passing::pass_interim;
use crate::wire::Wire;

/// A connection to an endpoint, with one request on it.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) wire: Wire,
    /// Whether it came from the pool.
    pub(crate) is_reused: bool,
    /// Whether a byte of response has come.
    pub(crate) has_answered: bool,
    /// Whether its response is a stream of events, which goes on for as long as somebody listens.
    pub(crate) sends_events: bool,
    /// A new connection, until a byte of response has come.
    unproven: Option<Unproven>,
    /// What the request holds until all of its response is here.
    pub(crate) pass: Pass,
}

impl Upstream {
    /// Whether `failure` means that the connection ended before a byte of response.
    pub(super) fn has_closed_silently(&self, failure: Failure) -> bool {
        failure == Failure::UpstreamClosed && !self.has_answered
    }

    /// Whether it means that a connection from the pool did, which has most likely died of old age.
    pub(super) fn has_died_of_age(&self, failure: Failure) -> bool {
        self.is_reused && self.has_closed_silently(failure)
    }
}

/// Writes the head to send, and the body behind it when all of it is here.
pub(crate) fn prepare(x: &mut Exchange, by: Forwarding<'_>) -> Result<(), Failure> {
    fill(x, by);
    let mut forwarded = std::mem::take(&mut x.forwarded);
    let body = x.upload.take_back(&mut forwarded);
    forwarded.clear();
    let address = x.client.address.as_bytes();
    let path = asked_path(x, by);
    let rewrite = rewrite(x, by, (&path, address), x.recall.conditions());
    forward::write_request(&x.request, &x.head, &rewrite, &mut forwarded);
    if let Some(body) = body {
        forwarded.extend_from_slice(&body);
    }
    x.forwarded = forwarded;
    x.upload.begin(&mut x.client, &mut x.forwarded)
}

/// What the forwarded head depends on besides the request, once it was [filled](fill), whose [`asked_path`] is `path`; with
/// `conditions` in the place of the client's own.
pub(crate) fn rewrite<'x>(
    x: &'x Exchange,
    by: Forwarding<'x>,
    (path, client_address): (&'x [u8], &'x [u8]),
    conditions: Option<&'x [u8]>,
) -> RequestRewrite<'x> {
    let upstream = by.upstream();
    RequestRewrite {
        path,
        client_address,
        scheme: x.scheme(),
        default_host: default_host(&upstream.settings.servers[0]),
        upgrade: passes_upgrade(x, by.rule),
        conditions,
        wants_whole: compress::part_may_be_of_another_form(x, by.rule),
        via: &by.worker.shared.via,
        edits: by.asks.edits(&x.filled),
        named: &by.view.snapshot.named_fields,
    }
}

/// A connection to the chosen endpoint: an idle one, unless a `fresh` one is wanted, or else the first that comes.
pub(crate) async fn connect(
    x: &Exchange,
    by: Forwarding<'_>,
    chosen: &Chosen,
    fresh: bool,
) -> Result<Upstream, Failure> {
    // An endpoint on trial proves itself by accepting a connection, not by one that it accepted long ago.
    let may_reuse = !fresh && !chosen.is_trial();
    let pooled = if may_reuse {
        chosen.pool().take(x.request.method.is_idempotent())
    } else {
        None
    };
    let (stream, is_reused, unproven) = if let Some(stream) = pooled {
        (stream, true, None)
    } else {
        let connector = chosen.connector(by.rule.timeouts.connect, &x.client.timer);
        if may_reuse {
            let (stream, unproven) = Box::pin(connector.wait(x)).await?;
            (stream, unproven.is_none(), unproven)
        } else {
            let connecting = connector.connect(chosen.leave(), &x.client.timer);
            let stream = Box::pin(connecting).await?;
            chosen.pool().line.stood();
            (stream, false, None)
        }
    };
    if is_reused {
        chosen.metrics().pool_hits.add(1);
    }
    Ok(Upstream {
        wire: Wire::h1(stream),
        is_reused,
        has_answered: false,
        sends_events: false,
        unproven,
        pass: Pass::default(),
    })
}

/// How far the wait for a response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// Its head is here.
    Complete,
    /// That of an interim response is, of so many bytes.
    Interim(usize),
    /// It is not, at the moment that it was waited for. The wait can go on as if nothing had been.
    Late,
}

/// Sends the request, with as much of its body as lies behind the head.
pub(crate) async fn send(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<(), Failure> {
    let pace = x.pace(by.rule);
    x.upload.rewind();
    x.client.timer.set(pace.upstream);
    poll_fn(|cx| match upstream.wire.poll_request(&x.forwarded, cx) {
        Poll::Ready(sent) => Poll::Ready(sent.map_err(|_| Failure::UpstreamClosed)),
        Poll::Pending => x
            .client
            .timer
            .poll(cx)
            .map(|()| Err(Failure::ResponseTimeout)),
    })
    .await?;
    if !upstream.wire.is_sent() {
        // What can be read from a kept connection that took nothing is no answer to this request.
        if upstream.is_reused && upstream.wire.bytes_sent() == 0 {
            return Err(Failure::UpstreamClosed);
        }
        x.upload.refused();
    }
    x.client.timer.set(x.upload.patience(pace));
    Ok(())
}

/// Reads up to the end of the response head or until `due`, passing interim responses on.
pub(crate) async fn head(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    due: &mut Due,
) -> Result<Head, Failure> {
    loop {
        match read_head(x, by, upstream, due).await? {
            Head::Interim(bytes) => interim(x, by, upstream, bytes).await?,
            head => return Ok(head),
        }
    }
}

/// Passes an interim response of `bytes` on. The wait for the next head begins anew.
pub(super) async fn interim(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    bytes: usize,
) -> Result<(), Failure> {
    pass_interim(x, by, upstream, bytes).await?;
    x.client.timer.set(x.upload.patience(x.pace(by.rule)));
    Ok(())
}

/// Reads up to the end of the next head or until `due`, and sends the client nothing.
pub(crate) async fn read_head(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    due: &mut Due,
) -> Result<Head, Failure> {
    loop {
        let method = x.request.method;
        let progress = upstream.wire.head(&x.incoming, &mut x.response, method);
        match progress.map_err(Failure::Response)? {
            Progress::Complete(bytes) if x.response.is_interim() => {
                return Ok(Head::Interim(bytes));
            }
            Progress::Complete(_) if x.response.status == 101 && !is_asked_upgrade(x, by.rule) => {
                return Err(Failure::Response(Reject::UnaskedUpgrade));
            }
            Progress::Complete(_) => return Ok(Head::Complete),
            Progress::Incomplete => {}
        }
        let received = poll_fn(|cx| match poll_receive(x, by, upstream, cx) {
            Poll::Pending => due.poll(cx).map(|()| Ok(None)),
            Poll::Ready(received) => Poll::Ready(received.map(Some)),
        });
        match received.await? {
            None => return Ok(Head::Late),
            Some(0) => return Err(Failure::UpstreamClosed),
            Some(_) => {
                upstream.has_answered = true;
                upstream.unproven = None;
            }
        }
    }
}

/// Reads from the upstream, while the request body goes the other way.
pub(crate) async fn receive(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<usize, Failure> {
    poll_fn(|cx| poll_receive(x, by, upstream, cx)).await
}

pub(crate) fn poll_receive(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    cx: &mut Context<'_>,
) -> Poll<Result<usize, Failure>> {
    let pace = x.pace(by.rule);
    x.upload
        .poll(&mut x.client, &upstream.wire, &by.worker.buffers, pace, cx)?;
    if x.upload.holds() {
        keep_hold(x, pace)?;
    }
    match upstream
        .wire
        .poll_read(&mut x.incoming, &by.worker.buffers, cx)
    {
        Poll::Ready(Ok(count)) => Poll::Ready(Ok(count)),
        Poll::Ready(Err(_)) => Poll::Ready(Err(Failure::UpstreamClosed)),
        // There is no use in a response that nobody waits for, and the endpoint has others to serve.
        Poll::Pending if !x.upload.is_running() && x.client.has_left(cx) => {
            Poll::Ready(Err(Failure::ClientGone))
        }
        Poll::Pending => {
            ready!(x.client.timer.poll(cx));
            if x.upload.give_way() {
                set_apart(x, pace)?;
                ready!(x.client.timer.poll(cx));
            }
            Poll::Ready(Err(x.upload.late()))
        }
    }
}

/// Gives the place up of a request whose client is waited for, and takes it again once all of the body was sent.
fn keep_hold(x: &mut Exchange, pace: Pace) -> Result<(), Failure> {
    if x.upload.become_work() {
        x.pass.bring_back();
    } else if x.upload.has_dawdled() && x.upload.give_way() {
        set_apart(x, pace)?;
    }
    Ok(())
}

fn set_apart(x: &mut Exchange, pace: Pace) -> Result<(), Failure> {
    let mut held = std::mem::take(&mut x.pass);
    let set_apart = pass::set_apart(x, &mut held);
    x.pass = held;
    x.client.timer.set(x.upload.patience(pace));
    set_apart
}

/// Fills the fields that the route adds to requests, where there are variables in them. What they say may come from anybody: a `Host`
/// that is no host stays what it would have been.
pub(crate) fn fill(x: &mut Exchange, by: Forwarding<'_>) {
    let Some(fields) = by.asks.to_fill() else {
        return;
    };
    let mut filled = std::mem::take(&mut x.filled);
    filled.clear();
    let place = Place::new(x, by.worker, by.view);
    for field in fields {
        let start = filled.len();
        place.write_fields(std::slice::from_ref(field), &mut filled);
        if field.0 == "host" && !is_host_line(&filled[start..]) {
            filled.truncate(start);
            let sent = x.request.authority.map(|span| span.of(&x.head));
            let server = &by.upstream().settings.servers[0];
            let host = sent.unwrap_or_else(|| default_host(server));
            write_field(&mut filled, b"Host", host);
        }
    }
    x.filled = filled;
}

/// Whether a line has what a `Host` may say (RFC 9110 §7.2).
fn is_host_line(line: &[u8]) -> bool {
    let value = line.strip_prefix(b"host: ");
    let value = value.and_then(|value| value.strip_suffix(b"\r\n"));
    value.is_some_and(|value| host::name(value).is_ok())
}

/// The `Host` of a request that came without one.
pub(super) fn default_host(server: &Server) -> &[u8] {
    match &server.address {
        ServerAddress::Known(EndpointAddress::Unix(_)) => b"localhost",
        ServerAddress::Known(EndpointAddress::Tcp(_)) | ServerAddress::Name(..) => {
            server.label.as_bytes()
        }
    }
}

/// The path to ask for: as it came, without the prefix that the route cuts off, or as the route says.
pub(crate) fn asked_path<'x>(x: &'x Exchange, by: Forwarding<'_>) -> Cow<'x, [u8]> {
    if let Some(template) = &by.rule.rewrite {
        return rewritten(x, by, template).into();
    }
    let Some(prefix) = &by.rule.strip_prefix else {
        return x.forwarded_path().into();
    };
    let sent = x.request.target.path.of(&x.head);
    target::strip_prefix(prefix, sent, x.path().as_bytes()).into()
}

/// The path that a route makes of its parameters, as they stand in the normal form that was matched: it has neither dot
/// segments nor empty ones, and no `?`, and what servers read in several ways was refused where it mattered.
fn rewritten(x: &Exchange, by: Forwarding<'_>, template: &Template) -> Vec<u8> {
    let route = x.facts.route.unwrap_or_default();
    let mut path = Vec::new();
    for part in &template.parts {
        let piece = match part {
            Part::Text(text) => text.as_str(),
            Part::Variable(Variable::Parameter(name)) => {
                let router = &by.view.snapshot.router;
                router.parameter(x.path(), route, name).unwrap_or_default()
            }
            Part::Variable(_) => "",
        };
        // A rest that is empty, or ends with a slash, would leave an empty segment.
        let piece = match piece.strip_prefix('/') {
            Some(piece) if path.ends_with(b"/") => piece,
            _ => piece,
        };
        path.extend_from_slice(piece.as_bytes());
    }
    path
}

/// Whether a 101 agrees to what was asked for (RFC 9110 §7.8).
fn is_asked_upgrade(x: &Exchange, rule: &Forward) -> bool {
    let head = x.incoming.unread();
    let agreed = x.response.known_field(FieldName::Upgrade);
    let asked = x.request.upgrade.map(|span| span.of(&x.head));
    let is_same = agreed
        .zip(asked)
        .is_some_and(|(agreed, asked)| agreed.of(head).eq_ignore_ascii_case(asked));
    is_same && passes_upgrade(x, rule)
}

/// Whether the client asks for an upgrade that the route lets through. Others are left out of the request, so the
/// upstream answers as if nothing had been asked: an `h2c` tunnel would lead past every rule of the gateway.
pub(crate) fn passes_upgrade(x: &Exchange, rule: &Forward) -> bool {
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
