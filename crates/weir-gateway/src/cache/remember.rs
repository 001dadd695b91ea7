//! What becomes of an answer that was asked for: stored and sent, a confirmation of what is stored, or passed on.
//!
//! Whoever asks holds a [`Lead`]. Whichever way it ends, those who wait are told; dropped, it releases them.

use std::sync::Arc;

use bytes::Bytes;
use weir_cache::fate::{self, Fate, Refused};
use weir_cache::freshness::Exchanged;
use weir_cache::store::Object;
use weir_cache::store_rule::{self, Answered, Lasting, NotStored};
use weir_cache::stored_head::Arrived;
use weir_cache::{Meta, StoredHead};
use weir_http::body::Framing;
use weir_http::{FieldName, Fields};

use crate::cache::lead::{Ask, Lead, how_failed};
use crate::cache::pump::{self, Arriving, Limits};
use crate::cache::stream::{self, Streamed};
use crate::cache::{confirm, invalidate, lookup, sent, stored};
use crate::connection::After;
use crate::deadline::Due;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::serving::Cached;
use crate::state::fill::{Outcome, Reader};
use crate::time;
use crate::upstream::hedge::Asked;
use crate::upstream::{ahead, passing};

/// How the exchange goes on.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and what is passed on must not allocate"
)]
pub(crate) enum Next {
    /// The client has its answer.
    Answered(After),
    /// The answer is passed on.
    Respond(Asked),
    /// The origin is asked again, as the client asked.
    AskAgain(Ask),
}

/// Takes what the origin said, or why it said nothing.
pub(crate) async fn remember(
    x: &mut Exchange,
    on: Cached<'_>,
    ask: Ask,
    asked: Result<Asked, Failure>,
) -> Result<Next, Failure> {
    let lead = match ask {
        Ask::Pass(stored) => {
            let asked = asked?;
            note_answer(x, on);
            if let Some(stored) = stored {
                confirm::by_head(x, on, stored).await;
            }
            invalidate::after(x, on.view, on.cache).await;
            return Ok(Next::Respond(asked));
        }
        Ask::Lead(lead) => lead,
    };
    match asked {
        Ok(answered) => with_answer(x, on, lead, answered).await,
        Err(failure) => without_answer(x, on, lead, failure).await,
    }
}

/// The head of an answer is here.
async fn with_answer(
    x: &mut Exchange,
    on: Cached<'_>,
    mut lead: Box<Lead>,
    asked: Asked,
) -> Result<Next, Failure> {
    note_answer(x, on);
    let exchanged = Exchanged {
        request_time: lead.request_time,
        response_time: on.time(),
    };
    let answer = fate::Answer {
        status: x.response.status,
        has_conditions: !x.recall.conditions.is_empty(),
        is_more_than_wanted: x.recall.replaces_conditions
            && x.request.view(&x.head).has(FieldName::Range),
    };
    let usable_stale = |how| lead.usable_stale(x, on, how);
    match fate::of(answer, usable_stale, || decide(x, on, &lead, exchanged)) {
        Fate::Stale(stale, how) => {
            lead.end(Outcome::Stale(Arc::clone(&stale), how, None));
            x.incoming.consume(x.incoming.unread().len());
            let sent = stored::stale(x, on, &stale, None).await;
            sent.map(Next::Answered)
        }
        Fate::Confirms => confirm::by_304(x, on, lead, asked, exchanged).await,
        Fate::Stored(meta) => {
            if on.sends_cookies(x) {
                on.cache.unshared_with_cookies.forget(&lead.key);
            }
            arrives(x, on, lead, asked, meta).await
        }
        Fate::Refused(refused) => {
            release(x, on, &mut lead, refused);
            if refused.is_asked_again {
                x.recall.replaces_conditions = false;
                x.incoming.consume(x.incoming.unread().len());
                return Ok(Next::AskAgain(Ask::Pass(None)));
            }
            Ok(Next::Respond(asked))
        }
    }
}

/// The answer is not stored: those who wait for it go on by themselves.
fn release(x: &mut Exchange, on: Cached<'_>, lead: &mut Lead, refused: Refused) {
    on.metrics().not_stored(refused.why);
    if let Some(said) = &mut x.recall.status {
        said.detail = Some(refused.why.name());
    }
    match refused.lasting {
        Lasting::ForAll => {
            on.cache.unshared.note(&lead.key, on.time());
            let fills = &on.cache.fills;
            fills.take_over(&mut lead.lent, &Outcome::Unshared);
        }
        Lasting::WithCookies => {
            let unshared = &on.cache.unshared_with_cookies;
            unshared.note(&lead.key, on.time());
        }
        Lasting::Passing => {}
    }
    lead.end(if refused.is_error {
        Outcome::Erred
    } else {
        Outcome::Unshared
    });
}

/// The origin gave no answer: there may be something stale that is allowed now.
async fn without_answer(
    x: &mut Exchange,
    on: Cached<'_>,
    mut lead: Box<Lead>,
    failure: Failure,
) -> Result<Next, Failure> {
    let Some(stale) = lead.stale_after(x, on, failure) else {
        lead.end(Outcome::Failed(failure));
        return Err(failure);
    };
    let how = how_failed(failure);
    lead.end(Outcome::Stale(Arc::clone(&stale), how, Some(failure)));
    let sent = stored::stale(x, on, &stale, Some(failure)).await;
    sent.map(Next::Answered)
}

/// The route has learnt how long an answer takes, which is how long requests wait for each other.
fn note_answer(x: &Exchange, on: Cached<'_>) {
    let answers = on.route.answers.as_ref();
    if let Some((answers, latency)) = answers.zip(x.facts.upstream_latency) {
        answers.on_answer(time::now(), latency);
    }
}

/// What is here of a response, for storing it or what it confirms: `stored`, if it is a confirmation.
pub(super) fn arrived<'x>(
    x: &'x mut Exchange,
    on: Cached<'_>,
    stored: Option<&StoredHead>,
) -> Arrived<'x> {
    let named = response_of(x).elements(FieldName::Vary);
    let known = stored.map_or(Fields::NONE, StoredHead::fields);
    let differs = sent::differs(on, named.chain(known.elements(FieldName::Vary)));
    sent::prepare(x, on, differs);
    Arrived {
        status_text: x.response.status_text.of(x.incoming.unread()),
        version: x.response.version,
        response: response_of(x),
        request: x.request.view(&x.head),
        has_cookies: on.sends_cookies(x),
        selecting: sent::fields(x, differs),
    }
}

/// The fields of the response that is here.
pub(super) fn response_of(x: &Exchange) -> Fields<'_> {
    x.response
        .view(&x.incoming.unread()[..x.response.head_bytes])
}

fn length_of(framing: Framing) -> Option<u64> {
    match framing {
        Framing::Empty => Some(0),
        Framing::Length(length) => Some(length),
        Framing::Chunked | Framing::UntilClose => None,
    }
}

fn decide(
    x: &Exchange,
    on: Cached<'_>,
    lead: &Lead,
    exchanged: Exchanged,
) -> Result<Meta, NotStored> {
    let body_bytes = length_of(x.response.framing);
    let meta = store_rule::decide(
        &Answered {
            method: x.request.method,
            is_keyed_by_body: x.recall.is_keyed_by_body(),
            target: &lookup::target(x),
            authority: x.request.authority.map_or(b"", |span| span.of(&x.head)),
            request: x.request.view(&x.head),
            has_cookies: on.sends_cookies(x),
            status: x.response.status,
            response: response_of(x),
            body_bytes,
            exchanged,
        },
        on.policy,
    )?;
    let bytes_max = on.cache.tiers.object_bytes_max();
    if body_bytes.is_some_and(|bytes| bytes > bytes_max) {
        return Err(NotStored::TooLarge);
    }
    if lead.may_store {
        Ok(meta)
    } else {
        Err(NotStored::MinUses)
    }
}

/// The answer is to be stored. What has come of its body is taken.
async fn arrives(
    x: &mut Exchange,
    on: Cached<'_>,
    mut lead: Box<Lead>,
    Asked {
        chosen,
        mut upstream,
    }: Asked,
    meta: Meta,
) -> Result<Next, Failure> {
    let mut head = StoredHead::new(&arrived(x, on, None), meta, on.policy);
    x.incoming.consume(x.response.head_bytes);
    x.upload.answered();
    upstream.wire.begin_body(x.response.framing);
    let piece = match pump::take(&mut x.incoming, &mut upstream.wire) {
        Ok(piece) => piece,
        Err(failure) => {
            lead.end(Outcome::Failed(failure));
            return Err(failure);
        }
    };
    let bytes_max = on
        .policy
        .body_bytes_max
        .min(on.cache.tiers.object_bytes_max());
    // A body of unknown length may have come whole and be too large all the same.
    let is_too_large = piece.len() as u64 > bytes_max;
    if let Some(said) = &mut x.recall.status {
        said.stored = !is_too_large;
        said.detail = is_too_large.then(|| NotStored::TooLarge.name());
    }
    if !upstream.wire.is_over() {
        // What has no end of its own is not stored.
        let stream_at = ahead::stream_at(x, &mut upstream, false)?;
        let begun = Begun {
            head,
            piece,
            stream_at,
        };
        return goes_on(x, on, lead, Asked { chosen, upstream }, begun).await;
    }
    head.complete(piece.len() as u64);
    let object = Arc::new(Object::of_head(Arc::new(head), lead.ticket, vec![piece]));
    if is_too_large {
        on.metrics().not_stored(NotStored::TooLarge);
        lead.end(Outcome::Whole(Arc::clone(&object)));
    } else {
        lead.store(&object);
    }
    passing::put_back(x, on.worker, &chosen, upstream);
    let sent = stored::object(x, on, &object, on.time()).await?;
    Ok(Next::Answered(sent))
}

/// An answer that has not come whole.
struct Begun {
    head: StoredHead,
    piece: Bytes,
    stream_at: Due,
}

/// A pump takes the rest of the answer, whoever still reads along, as this client does.
async fn goes_on(
    x: &mut Exchange,
    on: Cached<'_>,
    lead: Box<Lead>,
    Asked { chosen, upstream }: Asked,
    begun: Begun,
) -> Result<Next, Failure> {
    let mut head = begun.head;
    let length = length_of(x.response.framing);
    if let Some(length) = length {
        head.complete(length);
    }
    let head = Arc::new(head);
    let fill = Arc::clone(&lead.lent.fill);
    let reader = Reader::new(&fill);
    let mut arriving = Arriving {
        lead,
        head: Arc::clone(&head),
        incoming: std::mem::take(&mut x.incoming),
        keeps_upstream: x.response.keep_alive && upstream.wire.is_sent() && x.upload.is_complete(),
        chosen,
        upstream,
        idle: on.rule.timeouts.idle,
        stream_at: begun.stream_at,
        limits: Limits::of(on),
        large: None,
    };
    arriving.begin(length, begun.piece);
    pump::spawn(on.worker, arriving);
    if x.client.is_nobody() {
        // Nobody need read along, unless there is nothing to store after all.
        fill.keep_for_later();
        return Ok(Next::Answered(After::Abort));
    }
    match stream::respond(x, on, reader, (&head, length), true).await? {
        Streamed::Answered(after) => Ok(Next::Answered(after)),
        Streamed::Elsewhere => Ok(ask_for_itself(x)),
    }
}

/// The client gets its answer from the origin, past the cache.
pub(super) fn ask_for_itself(x: &mut Exchange) -> Next {
    x.recall.replaces_conditions = false;
    if let Some(said) = &mut x.recall.status {
        said.stored = false;
    }
    Next::AskAgain(Ask::Pass(None))
}
