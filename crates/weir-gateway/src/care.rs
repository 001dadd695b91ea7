//! What protects an upstream that may be at its limit: the gateway's part of refusing.
//!
//! `weir-policy` makes the decisions. `state` makes them hold for all workers at once, with each state machine behind a
//! lock that is held for one call: `rate`, `breaker`, `gate` (how many requests an upstream holds at once, and who
//! waits), `watch` (which endpoints stand out), `budget` (how many requests may be sent again) and `hedging`.
//! `exchange::pass` is what a request holds of them on its way. This module asks for it:
//!
//! - [`enter`]: permission to ask an upstream,
//! - [`rate`]: how often one key may ask,
//! - [`fallback`]: what a client gets when its request was refused or failed.
//!
//! A route that uses none of them takes none of these locks.

use std::sync::Arc;
use std::time::Instant;

use weir_policy::limit::priority::Priority;

use crate::exchange::Exchange;
use crate::exchange::pass::{Pass, SHED_RETRY_AFTER, set_apart};
use crate::exchange::upload::collect;
use crate::failure::Failure;
use crate::serving::Forwarding;
use crate::settings::{Forward, PriorityRule};
use crate::state::gate::{Gate, Place};
use crate::time;

pub(crate) mod fallback;
pub(crate) mod rate;

/// Permission to ask the upstream of a route, from the breaker of the route and then from the upstream's gate.
///
/// It is asked for only once the body of the request is here, so that a client that sends slowly delays nobody.
pub(crate) async fn enter(x: &mut Exchange, by: Forwarding<'_>) -> Result<Pass, Failure> {
    let breaker = by.care.and_then(|care| care.breaker.as_ref());
    let upstream = by.upstream();
    let gate = upstream.gate.as_ref();
    let is_limited = breaker.is_some() || gate.is_some();
    if !is_limited && upstream.settings.care.breaker.is_none() {
        return Ok(Pass::default());
    }
    if !x.upload.is_complete() && !x.upload.claim_arrived(&mut x.client)? {
        Box::pin(collect(x, by.worker, by.rule)).await?;
    }
    let is_slow = x.upload.let_through();
    if !is_limited {
        return Ok(Pass::default());
    }
    // A request may come here a second time, after it has waited for another request's answer.
    let now = time::now();
    let entered = breaker.map(|breaker| breaker.enter(now)).transpose();
    let entered = entered.map_err(|refused| {
        x.retry_after = Some(refused.retry_after);
        Failure::BreakerOpen
    })?;
    let place = match gate {
        None => None,
        Some(gate) => Some(place(x, by, gate, now).await?),
    };
    let since = place.as_ref().map_or(now, Place::since);
    let mut pass = Pass::new(since, entered, place);
    if is_slow {
        set_apart(x, &mut pass)?;
    }
    Ok(pass)
}

/// A new place for a request that gave its place back.
pub(crate) async fn enter_again(x: &mut Exchange, by: Forwarding<'_>) -> Result<(), Failure> {
    if let Some(gate) = &by.upstream().gate {
        let place = place(x, by, gate, time::now()).await?;
        x.pass.take(place);
    }
    Ok(())
}

async fn place(
    x: &mut Exchange,
    by: Forwarding<'_>,
    gate: &Arc<Gate>,
    now: Instant,
) -> Result<Place, Failure> {
    let priority = priority(x, by.rule);
    let place = gate.enter(&*x.client, priority, now).await;
    if let Err(Failure::Shed(_)) = place {
        x.retry_after = Some(SHED_RETRY_AFTER);
    }
    place
}

/// Requests that the gateway makes by itself can wait.
fn priority(x: &Exchange, rule: &Forward) -> Priority {
    if x.client.is_nobody() {
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
