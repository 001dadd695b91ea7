//! What becomes of an answer that was asked for: stored and sent, a confirmation of what is stored, or passed on.
//!
//! Whoever asks holds a [`Lead`]. Whichever way it ends, those who wait are told; dropped, it releases them.

use std::sync::Arc;

use weir_cache::freshness::Exchanged;
use weir_cache::reuse::OriginFailure;
use weir_cache::store::purge::{Ticket, Verdict};
use weir_cache::store::{Object, Pin, Share};
use weir_cache::store_rule::{self, Answered, NotStored};
use weir_cache::stored_head::Arrived;
use weir_cache::{Meta, RequestControl, StoredHead, Timestamp};
use weir_http::body::Framing;
use weir_http::{Body, FieldName, Fields};

use super::bound::Slot;
use super::fill::{Outcome, Reader};
use super::fills::Lent;
use super::pump::{self, Arriving, Limits};
use super::relief::Others;
use super::stream::Streamed;
use super::{Cache, Cached, answer, confirm, invalidate, lookup, sent, stream, write_conditions};
use crate::connection::Client;
use crate::connection::h1::After;
use crate::exchange::Exchange;
use crate::failure::{Failure, Fault};
use crate::time;
use crate::upstream::answer as passing;
use crate::upstream::choose::Chosen;
use crate::upstream::relay::Upstream;

/// What the origin is asked for.
#[derive(Debug)]
pub(crate) enum Ask {
    /// An answer that is passed on. What is stored is confirmed or ended by the answer to HEAD; the ticket is from before
    /// it was found.
    Pass(Option<(Arc<Object>, Ticket)>),
    /// An answer that may be stored.
    Lead(Box<Lead>),
}

impl Ask {
    /// The others who ask for the same, where one of them may answer it first. Of a request with a body nothing is left to ask
    /// again with.
    pub(crate) fn others(&self, x: &Exchange) -> Option<Others> {
        match self {
            Self::Lead(lead) if !x.recall.is_keyed_by_body() => {
                Some(Others::new(&lead.lent, &lead.key))
            }
            Self::Lead(_) | Self::Pass(_) => None,
        }
    }

    /// Whether there is something stale for a request whose origin failed like this.
    pub(super) fn has_stale(&self, x: &Exchange, on: Cached<'_>, failure: Failure) -> bool {
        let Self::Lead(lead) = self else { return false };
        usable_stale(x, on, lead, failure.is_of_service(), how_failed(failure)).is_some()
    }
}

/// How the exchange goes on.
pub(crate) enum Next {
    /// The client has its answer.
    Answered(After),
    /// The answer is passed on.
    Respond(Chosen, Upstream),
    /// The origin is asked again, as the client asked.
    AskAgain(Ask),
}

/// The right to ask for a key, and the duty to tell those who wait.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(super) cache: Arc<Cache>,
    pub(super) key: Box<[u8]>,
    pub(super) lent: Lent,
    pub(super) ticket: Ticket,
    pub(super) share: Option<Arc<Share>>,
    /// What may be used on a failure.
    pub(super) stale: Option<Arc<Object>>,
    /// What the conditions are about.
    pub(super) validated: Vec<Arc<Object>>,
    /// They count as held when they are stored no longer.
    _pins: Vec<Pin>,
    /// Its place among the refreshes, if it is one.
    pub(super) refreshes: Option<Slot>,
    request_time: Timestamp,
    may_store: bool,
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.cache.fills.abandon(&mut self.lent);
    }
}

impl Lead {
    pub(super) fn new(
        x: &mut Exchange,
        on: Cached<'_>,
        lent: Lent,
        (stale, others): (Option<Arc<Object>>, Vec<Arc<Object>>),
        ticket: Ticket,
        now: Timestamp,
    ) -> Self {
        // The fill can be found by now: what was purged before must not come back through it.
        let is_purged = |object: &Arc<Object>| {
            let verdict = on.cache.tiers.verdict(ticket, &x.recall.key, &object.tags);
            verdict == Verdict::Drop
        };
        let stale = stale.filter(|stale| !is_purged(stale));
        let mut validated = stale.clone().map_or(others, |stale| vec![stale]);
        validated.retain(|object| !is_purged(object));
        // The conditions of a POST are about what it would change (RFC 9110 §13.1), so it is never sent with any of ours.
        if !x.recall.is_keyed_by_body() {
            write_conditions(x, &validated);
            x.recall.replaces_conditions = on.asks_for_all(x) || !x.recall.conditions.is_empty();
        }
        let pins = validated.iter();
        let pins = pins.filter_map(|object| object.pin(&on.cache.transient));
        let pins = pins.collect();
        let uses_min = u64::from(on.policy.uses_min);
        let may_store =
            stale.is_some() || uses_min <= 1 || on.cache.uses.count(&x.recall.key) >= uses_min;
        Self {
            cache: Arc::clone(on.cache),
            key: x.recall.key.as_slice().into(),
            lent,
            ticket,
            share: on.share(x).cloned(),
            stale,
            validated,
            _pins: pins,
            refreshes: None,
            request_time: now,
            may_store,
        }
    }

    /// Whether there is an answer now that there was not when this request looked.
    pub(super) async fn is_answered_meanwhile(
        &self,
        x: &mut Exchange,
        on: Cached<'_>,
        now: Timestamp,
    ) -> bool {
        !self.lent.is_alone && matches!(lookup::find(x, on, now).await, lookup::Found::Hit(..))
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        self.cache.fills.end(&mut self.lent, outcome);
    }

    /// Something is stored, or right still: requests of the key wait for each other, and it is refreshed when that is due.
    pub(super) fn succeeds(&self) {
        self.cache.unshared.forget(&self.key);
        if let Some(fill_key) = &self.lent.key {
            self.cache.refreshed.forget(fill_key);
        }
    }

    /// Stores a whole answer and gives it to those who wait.
    pub(super) fn store(&mut self, object: &Arc<Object>) {
        self.succeeds();
        if let Some(share) = &self.share {
            object.belongs_to(share);
        }
        drop(self.cache.tiers.insert(&self.key, object));
        self.end(Outcome::Whole(Arc::clone(object)));
    }
}

/// Takes what the origin said, or why it said nothing.
pub(crate) async fn remember(
    client: &mut Client,
    x: &mut Exchange,
    on: Cached<'_>,
    ask: Ask,
    asked: Result<(Chosen, Upstream), Failure>,
) -> Result<Next, Failure> {
    let mut lead = match ask {
        Ask::Pass(stored) => {
            let (chosen, upstream) = asked?;
            note_answer(x, on);
            if let Some(stored) = stored {
                confirm::by_head(client, x, on, stored).await;
            }
            invalidate::after(client, x, on.view, on.cache).await;
            return Ok(Next::Respond(chosen, upstream));
        }
        Ask::Lead(lead) => lead,
    };
    let (chosen, upstream) = match asked {
        Ok(answered) => answered,
        Err(failure) => return without_answer(client, x, on, lead, failure).await,
    };
    note_answer(x, on);
    let status = x.response.status;
    let failed = OriginFailure::Status(status);
    if let Some(stale) = usable_stale(x, on, &lead, status >= 500, failed) {
        lead.end(Outcome::Stale(Arc::clone(&stale), failed, None));
        x.incoming.consume(x.incoming.unread().len());
        let sent = answer::stale(client, x, on, &stale, None).await;
        return sent.map(Next::Answered);
    }
    let exchanged = Exchanged {
        request_time: lead.request_time,
        response_time: on.time(),
    };
    if status == 304 && !x.recall.conditions.is_empty() {
        return confirm::by_304(client, x, on, lead, (chosen, upstream), exchanged).await;
    }
    match decide(x, on, &lead, exchanged) {
        Ok(meta) => arrives(client, x, on, lead, (chosen, upstream), meta).await,
        Err(why) => {
            on.metrics().not_stored(why);
            if let Some(said) = &mut x.recall.status {
                said.detail = Some(why.name());
            }
            if why.is_of_every_answer(status) {
                on.cache.unshared.note(&lead.key, on.time());
                let fills = &on.cache.fills;
                fills.take_over(&mut lead.lent, &Outcome::Unshared);
            }
            lead.end(if status >= 500 {
                Outcome::Erred
            } else {
                Outcome::Unshared
            });
            // All of it was asked for to be stored; what the client wants is less.
            let asked_for_more =
                x.recall.replaces_conditions && x.request.view(&x.head).has(FieldName::Range);
            if asked_for_more && status == 200 {
                x.recall.replaces_conditions = false;
                x.incoming.consume(x.incoming.unread().len());
                return Ok(Next::AskAgain(Ask::Pass(None)));
            }
            Ok(Next::Respond(chosen, upstream))
        }
    }
}

/// The origin gave no answer: there may be something stale that is allowed now.
async fn without_answer(
    client: &mut Client,
    x: &mut Exchange,
    on: Cached<'_>,
    mut lead: Box<Lead>,
    failure: Failure,
) -> Result<Next, Failure> {
    let is_down = failure.is_of_service();
    let how = how_failed(failure);
    let Some(stale) = usable_stale(x, on, &lead, is_down, how) else {
        lead.end(Outcome::Failed(failure));
        return Err(failure);
    };
    lead.end(Outcome::Stale(Arc::clone(&stale), how, Some(failure)));
    let sent = answer::stale(client, x, on, &stale, Some(failure)).await;
    sent.map(Next::Answered)
}

/// Not to ask is an error as one of the origin is (RFC 5861 §4), but it is not cut off.
fn how_failed(failure: Failure) -> OriginFailure {
    match failure.fault() {
        Fault::Gateway => OriginFailure::Status(failure.status()),
        Fault::Upstream | Fault::Client => OriginFailure::Unreachable,
    }
}

fn usable_stale(
    x: &Exchange,
    on: Cached<'_>,
    lead: &Lead,
    has_failed: bool,
    failure: OriginFailure,
) -> Option<Arc<Object>> {
    let stale = lead.stale.as_ref().filter(|_| has_failed)?;
    on.may_be_stale(x, stale, failure)
        .then(|| Arc::clone(stale))
}

/// The route has learnt how long an answer takes, which is how long requests wait for each other.
fn note_answer(x: &Exchange, on: Cached<'_>) {
    let answers = on.route(x).and_then(|route| route.answers.as_ref());
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
            request_control: RequestControl::of(x.request.view(&x.head)),
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
        Err(NotStored::TooFewUses)
    }
}

/// The answer is to be stored. What has come of its body is taken; a pump takes the rest, whoever still reads along.
async fn arrives(
    client: &mut Client,
    x: &mut Exchange,
    on: Cached<'_>,
    mut lead: Box<Lead>,
    (chosen, upstream): (Chosen, Upstream),
    meta: Meta,
) -> Result<Next, Failure> {
    let mut head = StoredHead::new(&arrived(x, on, None), meta, on.policy);
    let length = length_of(x.response.framing);
    x.incoming.consume(x.response.head_bytes);
    x.upload.answered();
    let mut body = Body::new(x.response.framing);
    let piece = match pump::take(&mut x.incoming, &mut body) {
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
    }
    if body.is_done() {
        head.complete(piece.len() as u64);
        let object = Arc::new(Object::of_head(Arc::new(head), lead.ticket, vec![piece]));
        if is_too_large {
            on.metrics().not_stored(NotStored::TooLarge);
            lead.end(Outcome::Whole(Arc::clone(&object)));
        } else {
            lead.store(&object);
        }
        passing::put_back(x, on.worker, &chosen, upstream, true);
        let sent = answer::object(client, x, on, &object, on.time()).await?;
        return Ok(Next::Answered(sent));
    }
    if let Some(length) = length {
        head.complete(length);
    }
    let head = Arc::new(head);
    let fill = Arc::clone(&lead.lent.fill);
    let reader = Reader::new(&fill);
    let mut arriving = Arriving {
        lead,
        head: Arc::clone(&head),
        body,
        incoming: std::mem::take(&mut x.incoming),
        keeps_upstream: x.response.keep_alive && upstream.is_sent && x.upload.is_complete(),
        chosen,
        upstream,
        idle: on.rule.timeouts.idle,
        limits: Limits::of(on),
        large: None,
    };
    arriving.begin(length, piece);
    pump::spawn(on.worker, arriving);
    if client.stream.is_nobody() {
        // Nobody need read along, unless there is nothing to store after all.
        fill.is_for_later();
        return Ok(Next::Answered(After::Abort));
    }
    match stream::respond(client, x, on, reader, (&head, length), true).await? {
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
