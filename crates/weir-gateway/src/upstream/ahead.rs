//! Reading a response ahead of its client, where the request has a place in an upstream with a limit.
//!
//! The place is the upstream's work, so it is given back as soon as all of the response has been read, however slowly the
//! client takes it from here. A response is set apart, and counted among the streams, once it is no work any more:
//!
//! - it is an event stream (`text/event-stream`),
//! - it is not over a second after its head came: a long download, or a stream of another kind,
//! - its client reads so slowly that what may be held of it is full.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_http::{Body, FieldName, media};

use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::exchange::ahead::{Ahead, Read};
use crate::exchange::pass::set_apart;
use crate::failure::Failure;
use crate::serving::Forwarding;
use crate::time;
use crate::upstream::relay::{Upstream, poll_receive};

/// A response that is not over so long after its head is a stream.
pub(crate) const STREAM_AFTER: Duration = Duration::from_secs(1);

/// Begins to read ahead, unless all of the response is here. Its head is in `x`.
pub(crate) fn begin(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<(), Failure> {
    let mut seen = Body::new(x.response.framing);
    let here = &x.incoming.unread()[x.response.head_bytes..];
    seen.take(here).map_err(Failure::Response)?;
    if seen.is_done() || x.response.status == 101 {
        return Ok(());
    }
    let is_event_stream = is_event_stream(x);
    let stream_at = stream_at(x, upstream, is_event_stream)?;
    upstream.pass.read_ahead(Ahead {
        seen,
        bytes_max: usize::try_from(by.rule.response_buffer).unwrap_or(usize::MAX),
        claim: by.worker.claim(),
        is_full: false,
        ended: None,
        stream_at,
    });
    Ok(())
}

/// When a response whose head came in `x` is no work for its upstream any more, if it has a place there: an event stream at once.
pub(crate) fn stream_at(
    x: &mut Exchange,
    upstream: &mut Upstream,
    is_event_stream: bool,
) -> Result<Due, Failure> {
    if !upstream.pass.has_place() {
        return Ok(Due::never());
    }
    if is_event_stream {
        set_apart(x, &mut upstream.pass)?;
        return Ok(Due::never());
    }
    let answered_at = x.facts.answered_at.unwrap_or_else(time::now);
    Ok(Due::at(answered_at + STREAM_AFTER))
}

pub(crate) fn is_event_stream(x: &Exchange) -> bool {
    let head = x.incoming.unread();
    let media_type = x.response.known_field(FieldName::ContentType);
    media_type.is_some_and(|value| media::is_event_stream(value.of(head)))
}

/// Reads on while the client is waited for. Each turn of the loop fills some of a bounded buffer, or is the last but one.
pub(crate) fn poll(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
    cx: &mut Context<'_>,
) -> Result<(), Failure> {
    poll_stream(x, upstream, cx)?;
    loop {
        let Upstream { wire, pass, .. } = &mut *upstream;
        let Some(ahead) = pass.ahead() else {
            pass.hold_up();
            return Ok(());
        };
        let read = ahead.poll_read(&mut x.incoming, wire, &by.worker.buffers, cx);
        match read {
            Poll::Pending => return Ok(()),
            Poll::Ready(Read::Some) => {}
            Poll::Ready(Read::Whole) => pass.finish(),
            Poll::Ready(Read::Broken) => drop(pass.give_place_back()),
            Poll::Ready(Read::Full) => set_apart(x, pass)?,
        }
    }
}

/// Reads once, when everything that was read ahead has been sent.
pub(crate) async fn receive(
    x: &mut Exchange,
    by: Forwarding<'_>,
    upstream: &mut Upstream,
) -> Result<usize, Failure> {
    if let Some(ahead) = upstream.pass.ahead() {
        ahead.claim.clear();
    }
    poll_fn(|cx| {
        poll_stream(x, upstream, cx)?;
        if let Some(ended) = upstream.pass.ahead().and_then(|ahead| ahead.ended) {
            return Poll::Ready(ended.map(|()| 0));
        }
        let count = ready!(poll_receive(x, by, upstream, cx))?;
        if let Some(ahead) = upstream.pass.ahead() {
            ahead.see(&x.incoming, count);
            if ahead.seen.is_done() {
                upstream.pass.finish();
            }
        }
        Poll::Ready(Ok(count))
    })
    .await
}

/// A response that takes long is a stream.
fn poll_stream(
    x: &mut Exchange,
    upstream: &mut Upstream,
    cx: &mut Context<'_>,
) -> Result<(), Failure> {
    let Some(ahead) = upstream.pass.ahead() else {
        return Ok(());
    };
    if ahead.stream_at.poll(cx).is_pending() {
        return Ok(());
    }
    ahead.stream_at = Due::never();
    set_apart(x, &mut upstream.pass)
}
