//! Remembering: what a route with a cache answers from what was asked before, and who asks when it cannot.
//!
//! The story of a request goes through two calls here: [`recall`] before anything is forwarded, [`remember::remember`] with
//! what came of it. What may be stored or used is decided by weir-cache; this module looks up, waits, sends and counts.
//!
//! - [`storage`]: what all workers remember; it is purged there
//! - [`lookup`]: what is there for a request; [`body_key`]: the part of its key that a body makes; [`sent`]: its fields as the
//!   origin is sent them
//! - [`fill`], [`fills`], [`mod@join`]: one request asks, the others of its key wait for it and read along
//! - [`relief`]: asking in the place of a request that takes too long
//! - [`lead`]: the right to ask the origin, and what it is asked for
//! - [`remember`]: what becomes of an answer: stored, a confirmation of what is stored, or passed on
//! - [`confirm`]: what a 304, or an answer to HEAD, makes of what is stored
//! - [`pump`]: a body on its way into a fill, whoever still reads along
//! - [`answer`], [`stream`]: answers from what is stored, and from what is arriving
//! - [`on_disk`]: bodies that are read from disk while they are sent
//! - [`refresh`]: asking again in the background
//! - [`bound`]: how many of a kind there may be at once
//! - [`fallback`]: what is stored, when nothing better is to be had
//! - [`invalidate`]: what a request that changes something ends
//! - [`scope`], [`inspect`]: for operators: what a purge is to cover, and what is stored

use std::rc::Rc;
use std::sync::Arc;

use weir_cache::cache_status::{CacheStatus, Forwarded};
use weir_cache::collapse::{Collapse, Next, Nothing};
use weir_cache::reuse::{self, OriginFailure};
use weir_cache::store::{Object, Share};
use weir_cache::{CachePolicy, RequestControl, Timestamp, validate};

use crate::connection::Client;
use crate::connection::h1::After;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::settings::Forward;
use crate::snapshot::RouteState;
use crate::time;
use crate::view::View;
use crate::worker::Worker;

use self::fills::{Late, Place, UNSHARED_FOR};
use self::join::{Joined, join};
use self::lead::{Ask, Lead};
use self::lookup::Found;
use self::sent::Sent;

mod answer;
mod body_key;
mod bound;
mod confirm;
pub(crate) mod fallback;
mod fill;
mod fills;
pub(crate) mod inspect;
pub(crate) mod invalidate;
pub(crate) mod join;
pub(crate) mod lead;
mod lookup;
mod on_disk;
mod pump;
mod refresh;
pub(crate) mod relief;
pub(crate) mod remember;
pub(crate) mod scope;
mod sent;
mod storage;
mod stream;

pub(crate) use self::storage::{Cache, TierCounts, share};

/// What a request and the cache have to do with each other; memory that the next request uses again.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    key: Vec<u8>,
    /// The key, and behind it what tells variants apart whose fills are under way at once.
    fill_key: Vec<u8>,
    scratch: Vec<u8>,
    sent: Sent,
    /// Conditions that are sent in the place of the client's, if they are.
    conditions: Vec<u8>,
    replaces_conditions: bool,
    is_conditional: bool,
    /// The part of the key that the request body makes.
    body_digest: Option<u128>,
    disk: Disk,
    /// To be said in the response's head.
    pub(crate) status: Option<CacheStatus>,
    /// For the log.
    pub(crate) outcome: Option<&'static str>,
}

/// Whether a request looks for something on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Disk {
    #[default]
    MayHaveIt,
    /// Something from there was damaged, so it looks there no more.
    HasFailed,
}

impl Recall {
    /// What to ask in the place of the client's own conditions.
    pub(crate) fn conditions(&self) -> Option<&[u8]> {
        self.replaces_conditions.then_some(&self.conditions[..])
    }

    /// From here on the client's own conditions are sent, since nothing is stored of what comes of it.
    pub(crate) fn asks_as_client(&mut self) {
        self.replaces_conditions = false;
    }

    pub(crate) fn reset(&mut self) {
        for kept in [&mut self.key, &mut self.fill_key, &mut self.conditions] {
            kept.clear();
            kept.shrink_to(16 << 10);
        }
        self.replaces_conditions = false;
        self.is_conditional = false;
        self.body_digest = None;
        self.disk = Disk::default();
        self.status = None;
        self.outcome = None;
    }

    /// Whether the request is looked up by its body: a POST that its route names.
    fn is_keyed_by_body(&self) -> bool {
        self.body_digest.is_some()
    }

    fn says(&mut self, outcome: &'static str, forwarded: Forwarded) {
        self.outcome = Some(outcome);
        self.status = Some(CacheStatus {
            forwarded: Some(forwarded),
            ..CacheStatus::default()
        });
    }
}

/// How a route with a cache goes about a request.
#[derive(Debug)]
pub(crate) enum Recalled {
    /// It was answered.
    Answered(After),
    /// The origin is to be asked, and this is what for.
    Ask(Ask),
}

/// What every step of this module is about.
#[derive(Clone, Copy)]
pub(crate) struct Cached<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) view: &'a Rc<View>,
    pub(crate) rule: &'a Forward,
    pub(crate) policy: &'a CachePolicy,
    pub(crate) cache: &'a Arc<Cache>,
}

/// Answers from what is stored or arriving, or says what is to be asked.
pub(crate) async fn recall(
    client: &mut Client,
    x: &mut Exchange,
    on: Cached<'_>,
) -> Result<Recalled, Failure> {
    let mut collapse = Collapse::default();
    let (mut late, mut missed) = (None, Forwarded::Miss);
    let digest = body_key::digest(client, x, on).await?;
    lookup::begin(client, x, on, digest);
    while collapse.may_look() {
        let now = on.now(x);
        // From before anything is found, so that a purge which comes later also meets what is made of it.
        let ticket = on.cache.tiers.ticket();
        let (stale, others, forwarded) = match lookup::find(x, on, now).await {
            Found::Pass(forwarded, stored) => {
                x.recall.says("pass", forwarded);
                on.metrics().passed.add(1);
                let stored = stored.map(|stored| (stored, ticket));
                return Ok(Recalled::Ask(Ask::Pass(stored)));
            }
            Found::OnlyIfCached => return Err(Failure::OnlyIfCached),
            Found::Hit(object, reuse) => {
                refresh::if_due(client, x, on, &object, reuse);
                match answer::hit(client, x, on, &object, reuse, now).await {
                    // Nothing of it was sent.
                    Err(Failure::StoreFailed) => {
                        x.recall.disk = Disk::HasFailed;
                        collapse.next(Nothing::StoreFailed);
                        continue;
                    }
                    sent => return sent.map(Recalled::Answered),
                }
            }
            Found::Stale(object, why) => (Some(object), Vec::new(), Forwarded::of(why)),
            Found::Miss(others, forwarded) => (None, others, forwarded),
        };
        let control = RequestControl::of(x.request.view(&x.head));
        if stale.is_none() && !reuse::may_ask_origin(&control, on.policy) {
            return Err(Failure::OnlyIfCached);
        }
        missed = forwarded;
        let outcome = stale.as_ref().map_or("miss", |_| "revalidated");
        x.recall.says(outcome, forwarded);
        let place = on.place(x, &control, forwarded, collapse, late.take());
        let reader = match place {
            Place::Joins(reader) => reader,
            Place::Leads(fill) => {
                let lead = Lead::new(x, on, fill, (stale, others), ticket, now);
                match ask_by(lead, x, on, (forwarded, now)).await {
                    Some(ask) => return Ok(Recalled::Ask(ask)),
                    None => collapse.next(Nothing::StoredMeanwhile),
                };
                continue;
            }
        };
        on.metrics().waits.add(1);
        collapse.joins();
        let patience = Some(on.patience(x));
        match Box::pin(join(client, x, on, reader, (forwarded, patience))).await? {
            Joined::Answered(after) => return Ok(Recalled::Answered(after)),
            Joined::Elsewhere => break,
            Joined::Late(fill) => {
                late = Some(fill);
                collapse.next(Nothing::LeaderLate);
            }
            Joined::Nothing(why, failure) => {
                if collapse.next(why) == Next::Fail {
                    return Box::pin(fail(client, x, on, stale.as_ref(), failure)).await;
                }
            }
        }
    }
    // What others ask for is of no use to it, so it asks as its client does.
    x.recall.asks_as_client();
    x.recall.says("miss", missed);
    Ok(Recalled::Ask(Ask::Pass(None)))
}

/// The same for a request that has asked, or begun to, and got nothing.
pub(crate) async fn recall_again(
    client: &mut Client,
    x: &mut Exchange,
    on: Cached<'_>,
) -> Result<Recalled, Failure> {
    x.recall.asks_as_client();
    Box::pin(recall(client, x, on)).await
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
    client: &mut Client,
    x: &mut Exchange,
    on: Cached<'_>,
    stale: Option<&Arc<Object>>,
    failure: Failure,
) -> Result<Recalled, Failure> {
    match stale.filter(|stale| on.may_be_stale(x, stale, OriginFailure::Unreachable)) {
        Some(stale) => answer::stale(client, x, on, stale, Some(failure))
            .await
            .map(Recalled::Answered),
        None => Err(failure),
    }
}

impl<'a> Cached<'a> {
    pub(crate) fn metrics(&self) -> &'a crate::metrics::CacheMetrics {
        &self.view.metrics.cache
    }

    /// What the route may take of RAM.
    fn share(&self, x: &Exchange) -> Option<&'a Arc<Share>> {
        self.view.snapshot.routes[x.facts.route?].share.as_ref()
    }

    fn route(&self, x: &Exchange) -> Option<&'a RouteState> {
        Some(&self.view.snapshot.routes[x.facts.route?])
    }

    /// The time at which the request began.
    fn now(&self, x: &Exchange) -> weir_cache::Timestamp {
        let started = x.facts.started.unwrap_or_else(time::now);
        self.worker.clock.timestamp(started)
    }

    /// The time after something was waited for.
    fn time(&self) -> weir_cache::Timestamp {
        self.worker.clock.timestamp(time::now())
    }

    fn may_be_stale(&self, x: &Exchange, stale: &Object, failure: OriginFailure) -> bool {
        let control = RequestControl::of(x.request.view(&x.head));
        stale.stored_head().is_some_and(|head| {
            reuse::may_serve_on_failure(&head.meta, &control, self.policy, failure, self.time())
        })
    }

    /// Whether the request waits for another one or others for it, and of neither, when it must not be shared.
    /// One that is `late` is asked for in the place of another one.
    fn place(
        &self,
        x: &Exchange,
        control: &RequestControl,
        forwarded: Forwarded,
        collapse: Collapse,
        late: Option<Late>,
    ) -> Place {
        use weir_cache::control::Directive;
        if let Some(late) = late {
            return Place::Leads(self.cache.fills.instead_of(late, &x.recall.key));
        }
        let wants_own = self.policy.obeys_clients
            && (control.says.has(Directive::NoStore) || control.says.has(Directive::NoCache));
        let is_alone = wants_own
            || !collapse.may_join()
            || forwarded == Forwarded::Request
            || self.is_unshared(x)
            || x.request
                .view(&x.head)
                .has(weir_http::FieldName::Authorization);
        if is_alone {
            Place::Leads(self.cache.fills.alone(&x.recall.key))
        } else {
            self.cache.fills.place(&x.recall.fill_key)
        }
    }

    /// Whether all of a response is asked for, so that it can be stored, and not what the client alone wants of it.
    fn asks_for_all(&self, x: &Exchange) -> bool {
        !self.is_unshared(x)
    }

    /// Whether the last answer to the key was not for others.
    fn is_unshared(&self, x: &Exchange) -> bool {
        let unshared = &self.cache.unshared;
        unshared.holds(&x.recall.key, self.time(), UNSHARED_FOR)
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
