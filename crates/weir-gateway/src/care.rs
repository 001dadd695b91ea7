//! What stands between a request and an upstream that may have had enough: the gateway's part of refusing.
//!
//! The decisions are `weir-policy`'s. What makes them hold for all workers at once is in `state`, each state machine behind a lock
//! that is held for one call: `rate`, `breaker`, `gate` (how many requests an upstream holds at once, and who waits), `watch` (which
//! endpoints stand out), `budget` (how many requests may be sent again) and `hedging`. What a request holds of them on its way is
//! its `exchange::pass`. Here it is asked for:
//!
//! - [`enter`]: leave to ask an upstream,
//! - [`rate`]: how often one key may ask,
//! - [`fallback`]: what a client gets whose request was refused or failed.
//!
//! A route that names none of them takes none of these locks.

use std::sync::Arc;
use std::time::Instant;

use weir_policy::limit::priority::Priority;

use crate::exchange::Exchange;
use crate::exchange::pass::{Pass, SHED_RETRY_AFTER, set_apart};
use crate::exchange::upload::collect;
use crate::failure::Failure;
use crate::settings::{Forward, PriorityRule};
use crate::state::gate::{Gate, Place};
use crate::state::snapshot::RouteState;
use crate::state::view::View;
use crate::state::worker::Worker;

pub(crate) mod fallback;
pub(crate) mod rate;

/// Leave to ask the upstream of a route, from the breaker of the route and then from the upstream's gate.
///
/// Nobody is asked before the body of the request is here, so that a client that sends slowly keeps nobody from anything.
pub(crate) async fn enter(
    x: &mut Exchange,
    worker: &Worker,
    view: &View,
    rule: &Forward,
) -> Result<Pass, Failure> {
    let route = x.facts.route.map(|route| &view.snapshot.routes[route]);
    let breaker = route.and_then(|route| route.breaker.as_ref());
    // What another upstream answers says nothing about the route's own.
    let breaker = breaker.filter(|_| !is_elsewhere(route, rule));
    let upstream = &view.snapshot.upstreams[rule.upstream];
    let gate = upstream.gate.as_ref();
    let is_limited = breaker.is_some() || gate.is_some();
    if !is_limited && upstream.settings.care.breaker.is_none() {
        return Ok(Pass::default());
    }
    if !x.upload.is_complete() && !x.upload.has_arrived(&x.client)? {
        Box::pin(collect(x, worker, rule)).await?;
    }
    let is_slow = x.upload.was_let_through();
    if !is_limited {
        return Ok(Pass::default());
    }
    // A request may come here a second time, after it has waited for another one's answer.
    let now = Instant::now();
    let entered = breaker.map(|breaker| breaker.enter(now)).transpose();
    let entered = entered.map_err(|refused| {
        x.retry_after = Some(refused.retry_after);
        Failure::BreakerOpen
    })?;
    let place = match gate {
        None => None,
        Some(gate) => Some(place(x, rule, gate, now).await?),
    };
    let since = place.as_ref().map_or(now, Place::since);
    let mut pass = Pass::new(since, entered, place);
    if is_slow {
        set_apart(x, &mut pass)?;
    }
    Ok(pass)
}

/// Another place for a request that gave the one it had back.
pub(crate) async fn enter_again(
    x: &mut Exchange,
    view: &View,
    rule: &Forward,
) -> Result<(), Failure> {
    if let Some(gate) = &view.snapshot.upstreams[rule.upstream].gate {
        let place = place(x, rule, gate, Instant::now()).await?;
        x.pass.take(place);
    }
    Ok(())
}

async fn place(
    x: &mut Exchange,
    rule: &Forward,
    gate: &Arc<Gate>,
    now: Instant,
) -> Result<Place, Failure> {
    let priority = priority(x, rule);
    let place = gate.enter(&*x.client, priority, now).await;
    if let Err(Failure::Shed(_)) = place {
        x.retry_after = Some(SHED_RETRY_AFTER);
    }
    place
}

/// Whether `rule` is that of a fallback.
pub(crate) fn is_elsewhere(route: Option<&RouteState>, rule: &Forward) -> bool {
    route
        .and_then(|route| route.elsewhere.as_deref())
        .is_some_and(|elsewhere| std::ptr::eq(elsewhere, rule))
}

/// What the gateway asks for on its own account can wait.
fn priority(x: &Exchange, rule: &Forward) -> Priority {
    if x.client.stream.is_nobody() {
        return Priority::Low;
    }
    let PriorityRule { header, otherwise } = &rule.care.priority;
    let said = header
        .as_ref()
        .and_then(|name| x.request.field(&x.head, name));
    let known = said.and_then(|said| {
        let mut names = Priority::NAMES.iter();
        names.find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(said))
    });
    known.map_or(*otherwise, |(_, priority)| *priority)
}
