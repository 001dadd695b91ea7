//! Remembering: what a route with a cache answers from what was asked before, and who asks when it cannot.
//!
//! The story of a request goes through two calls here: [`recall`] before anything is forwarded, [`remember::remember`] with
//! what came of it. What may be stored or used is decided by weir-cache; this module looks up, waits, sends and counts.
//!
//! - [`lookup`]: what is there for a request; [`body_key`]: the part of its key that a body makes; [`sent`]: its fields as the
//!   origin is sent them
//! - [`mod@join`]: one request asks, the others of its key wait for it and read along
//! - [`relief`]: asking in the place of a request that takes too long
//! - [`lead`]: the right to ask the origin, and what it is asked for
//! - [`remember`]: what becomes of an answer: stored, a confirmation of what is stored, or passed on
//! - [`confirm`]: what a 304, or an answer to HEAD, makes of what is stored
//! - [`pump`]: a body on its way into a fill, whoever still reads along
//! - [`stored`], [`stream`]: answers from what is stored, and from what is arriving
//! - [`on_disk`]: bodies that are read from disk while they are sent
//! - [`refresh`]: asking again in the background
//! - [`fallback`]: what is stored, when nothing better is to be had
//! - [`invalidate`]: what a request that changes something ends
//! - [`scope`], [`inspect`]: for operators: what a purge is to cover, and what is stored
//!
//! What all workers remember and share of it is in `state`: `storage`, `fill`, `fills`, `bound`.

use std::sync::Arc;

use weir_cache::cache_status::Forwarded;
use weir_cache::collapse::{Collapse, Next, Nothing};
use weir_cache::reuse::OriginFailure;
use weir_cache::store::Object;
use weir_cache::store::purge::Ticket;
use weir_cache::{RequestControl, Timestamp, validate};

use crate::cache::join::{Joined, join};
use crate::cache::lead::{Ask, Lead};
use crate::cache::lookup::{Found, Miss};
use crate::cache::refresh::Refresh;
use crate::connection::After;
use crate::exchange::Exchange;
use crate::exchange::recall::Disk;
use crate::failure::Failure;
use crate::serving::Cached;
use crate::state::fills::{Late, Role};

mod body_key;
mod confirm;
pub(crate) mod fallback;
pub(crate) mod inspect;
pub(crate) mod invalidate;
pub(crate) mod join;
pub(crate) mod lead;
pub(crate) mod lookup;
mod on_disk;
mod pump;
pub(crate) mod refresh;
pub(crate) mod relief;
pub(crate) mod remember;
pub(crate) mod scope;
pub(crate) mod sent;
mod stored;
mod stream;

/// How a route with a cache goes about a request.
#[derive(Debug)]
pub(crate) enum Recalled {
    /// It was answered.
    Answered(After),
    /// The origin is to be asked, and this is what for.
    Ask(Ask),
}

/// Answers from what is stored or arriving, or says what is to be asked.
pub(crate) async fn recall(
    x: &mut Exchange,
    on: Cached<'_>,
    refresh: fn(Box<Refresh>),
) -> Result<Recalled, Failure> {
    let (mut collapse, mut late) = (Collapse::default(), None);
    let (mut stale, mut missed) = (None, Forwarded::Miss);
    let digest = body_key::digest(x, on).await?;
    lookup::begin(x, on, digest);
    loop {
        let now = on.now(x);
        // From before anything is found, so that a purge which comes later also meets what is made of it.
        let ticket = on.cache.tiers.ticket();
        let came = match lookup::find(x, on, now).await {
            Found::Pass(forwarded, stored) => {
                x.recall.says("pass", forwarded);
                on.metrics().passed.add(1);
                return Ok(Recalled::Ask(Ask::Pass(stored.map(|it| (it, ticket)))));
            }
            Found::OnlyIfCached => return Err(Failure::OnlyIfCached),
            Found::Hit(object, reuse) => {
                let due = refresh::if_due(x, on, &object, reuse);
                due.into_iter().for_each(refresh);
                match stored::hit(x, on, &object, reuse, now).await {
                    Err(Failure::StoreFailed) => Came::unread(x),
                    sent => return sent.map(Recalled::Answered),
                }
            }
            Found::Miss(miss) => {
                (stale, missed) = (miss.stale.clone(), miss.forwarded);
                let place = place(x, on, &miss, collapse, late.take());
                seek(x, on, (miss, place), (ticket, now), &mut collapse).await?
            }
        };
        let (why, failure) = match came {
            Came::Done(recalled) => return Ok(recalled),
            Came::Nothing(why, failure) => (why, failure),
            Came::Late(fill) => {
                late = Some(fill);
                (Nothing::LeaderLate, Failure::ResponseTimeout)
            }
        };
        match collapse.next(why) {
            Next::Look => {}
            Next::Fail => return Box::pin(fail(x, on, stale.as_ref(), failure)).await,
            Next::Pass => return Ok(pass(x, missed)),
        }
    }
}

/// What others ask for is of no use to the request, so it asks as its client does.
fn pass(x: &mut Exchange, missed: Forwarded) -> Recalled {
    x.recall.asks_as_client();
    x.recall.says("miss", missed);
    Recalled::Ask(Ask::Pass(None))
}

/// What a look came to.
enum Came {
    Done(Recalled),
    Nothing(Nothing, Failure),
    /// The leader is late, and this request is the one that asks in its place.
    Late(Late),
}

impl Came {
    /// What was found could not be read, and nothing of it was sent.
    fn unread(x: &mut Exchange) -> Self {
        x.recall.disk = Disk::HasFailed;
        Self::Nothing(Nothing::StoreFailed, Failure::StoreFailed)
    }
}

/// Where a request stands among those who ask for the same.
fn place(
    x: &mut Exchange,
    on: Cached<'_>,
    miss: &Miss,
    collapse: Collapse,
    late: Option<Late>,
) -> Role {
    let outcome = miss.stale.as_ref().map_or("miss", |_| "revalidated");
    x.recall.says(outcome, miss.forwarded);
    let control = RequestControl::of(x.request.view(&x.head));
    on.place(x, &control, miss.forwarded, collapse, late)
}

/// Asks for what is missing, or waits for another one that does.
async fn seek(
    x: &mut Exchange,
    on: Cached<'_>,
    (miss, place): (Miss, Role),
    (ticket, now): (Ticket, Timestamp),
    collapse: &mut Collapse,
) -> Result<Came, Failure> {
    let forwarded = miss.forwarded;
    let reader = match place {
        Role::Joins(reader) => reader,
        Role::Leads(fill) => {
            let lead = Lead::new(x, on, fill, (miss.stale, miss.others), ticket, now);
            let ask = ask_by(lead, x, on, (forwarded, now)).await;
            return Ok(match ask {
                Some(ask) => Came::Done(Recalled::Ask(ask)),
                None => Came::Nothing(Nothing::StoredMeanwhile, Failure::ClientGone),
            });
        }
    };
    on.metrics().waits.add(1);
    collapse.joins();
    let patience = Some(on.patience());
    let joined = Box::pin(join(x, on, reader, (forwarded, patience))).await?;
    Ok(match joined {
        Joined::Answered(after) => Came::Done(Recalled::Answered(after)),
        Joined::Nothing(why, failure) => Came::Nothing(why, failure),
        Joined::Late(fill) => Came::Late(fill),
    })
}

/// The same for a request that has asked, or begun to, and got nothing.
pub(crate) async fn recall_again(
    x: &mut Exchange,
    on: Cached<'_>,
    refresh: fn(Box<Refresh>),
) -> Result<Recalled, Failure> {
    x.recall.asks_as_client();
    Box::pin(recall(x, on, refresh)).await
}

/// What the holder of a lead asks for; `None` where there is an answer meanwhile.
async fn ask_by(
    lead: Lead,
    x: &mut Exchange,
    on: Cached<'_>,
    (forwarded, now): (Forwarded, Timestamp),
) -> Option<Ask> {
    // Whoever had the lead before may have ended between the look-up and now.
    if Box::pin(lead.is_answered_meanwhile(x, on, now)).await {
        return None;
    }
    on.metrics().fills.add(1);
    on.metrics().missed(forwarded);
    Some(Ask::Lead(Box::new(lead)))
}

/// What is left when the origin cannot be asked: something stale where that is allowed, or the failure.
async fn fail(
    x: &mut Exchange,
    on: Cached<'_>,
    stale: Option<&Arc<Object>>,
    failure: Failure,
) -> Result<Recalled, Failure> {
    match stale.filter(|stale| on.may_be_stale(x, stale, OriginFailure::Unreachable)) {
        Some(stale) => stored::stale(x, on, stale, Some(failure))
            .await
            .map(Recalled::Answered),
        None => Err(failure),
    }
}

/// The conditions that validate `stored`; none when there is nothing to validate by.
fn write_conditions(x: &mut Exchange, stored: &[Arc<Object>]) {
    let heads: Vec<_> = stored
        .iter()
        .filter_map(|object| object.stored_head().map(|head| &**head))
        .collect();
    x.recall.conditions.clear();
    validate::write_conditional(&heads, &mut x.recall.conditions);
}
