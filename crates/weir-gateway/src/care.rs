//! What stands between a request and an upstream that may have had enough: the gateway's part of refusing.
//!
//! The decisions are `weir-policy`'s. Here is what makes them hold for all workers at once (each state machine behind a
//! lock that is held for one call), what a request carries of them on its way, and who is told how it ended:
//!
//! - [`rate`]: how often one key may ask,
//! - [`breaker`]: whether to ask a route or an endpoint at all,
//! - [`gate`]: how many requests an upstream holds at once, and who waits,
//! - [`watch`]: which endpoints of an upstream stand out,
//! - [`budget`]: how many requests may be sent again,
//! - [`hedging`]: when a second copy of a request is due,
//! - [`pass`]: what a request that is let through holds until it has ended,
//! - [`fallback`]: what a client gets whose request was refused or failed.
//!
//! A route that names none of them takes none of these locks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_policy::Outcome;
use weir_policy::limit::priority::Priority;

use crate::connection::Client;
use crate::exchange::Exchange;
use crate::failure::{Failure, Fault};
use crate::settings::{Forward, PriorityRule};
use crate::snapshot::RouteState;
use crate::upstream::upload::collect;
use crate::view::View;
use crate::worker::Worker;
use gate::{Gate, Place};
use pass::Pass;

pub(crate) mod breaker;
pub(crate) mod budget;
pub(crate) mod fallback;
pub(crate) mod gate;
pub(crate) mod hedging;
pub(crate) mod pass;
pub(crate) mod rate;
pub(crate) mod watch;

/// Leave to ask the upstream of a route, from the breaker of the route and then from the upstream's gate.
///
/// Nobody is asked before the body of the request is here, so that a client that sends slowly keeps nobody from anything.
pub(crate) async fn enter(
    client: &mut Client,
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
    if !x.upload.is_complete() && !x.upload.has_arrived(client)? {
        Box::pin(collect(client, x, worker, rule)).await?;
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
        Some(gate) => Some(place(client, x, rule, gate, now).await?),
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
    client: &Client,
    x: &mut Exchange,
    view: &View,
    rule: &Forward,
) -> Result<(), Failure> {
    if let Some(gate) = &view.snapshot.upstreams[rule.upstream].gate {
        let place = place(client, x, rule, gate, Instant::now()).await?;
        x.pass.take(place);
    }
    Ok(())
}

async fn place(
    client: &Client,
    x: &mut Exchange,
    rule: &Forward,
    gate: &Arc<Gate>,
    now: Instant,
) -> Result<Place, Failure> {
    let priority = priority(client, x, rule);
    let place = gate.enter(client, priority, now).await;
    if let Err(Failure::Shed(_)) = place {
        x.retry_after = Some(SHED_RETRY_AFTER);
    }
    place
}

/// The request of `x` is no work for its upstream at present, see [`Pass::set_apart`].
pub(crate) fn set_apart(x: &mut Exchange, pass: &mut Pass) -> Result<(), Failure> {
    pass.set_apart()
        .inspect_err(|_| x.retry_after = Some(SHED_RETRY_AFTER))
}

/// Whether `rule` is that of a fallback.
pub(crate) fn is_elsewhere(route: Option<&RouteState>, rule: &Forward) -> bool {
    route
        .and_then(|route| route.elsewhere.as_deref())
        .is_some_and(|elsewhere| std::ptr::eq(elsewhere, rule))
}

/// When a client comes back that found no place. Nobody knows when there will be one, but a second is long for a queue.
pub(crate) const SHED_RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the gateway asks for on its own account can wait.
fn priority(client: &Client, x: &Exchange, rule: &Forward) -> Priority {
    if client.stream.is_nobody() {
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

/// Takes a lock that is held for one call which does not panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a status says that the upstream is not well, where no setting names others. It has those of
/// [`StatusSet::server_errors`](crate::settings::StatusSet::server_errors), for the reason given there.
fn is_server_error(status: u16) -> bool {
    matches!(status, 500..=599) && !matches!(status, 501 | 505)
}

/// How asking an endpoint ended, up to the head of its response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    Answered(u16),
    /// The same after the client had kept it waiting for the request's body: how long it took is the client's doing.
    Delayed(u16),
    Failed(Failure),
}

impl Ended {
    /// The head of the response in `x` is here.
    pub(crate) fn answered(x: &Exchange) -> Self {
        if x.upload.was_waited_for() {
            Self::Delayed(x.response.status)
        } else {
            Self::Answered(x.response.status)
        }
    }

    /// What that says about the endpoint, by which statuses are failures, when it took `latency`.
    pub(crate) fn outcome(self, is_failure: impl Fn(u16) -> bool, latency: Duration) -> Outcome {
        match self {
            Self::Answered(status) if !is_failure(status) => Outcome::Success(latency),
            Self::Delayed(status) if !is_failure(status) => Outcome::Ignored,
            Self::Failed(failure) if failure.fault() != Fault::Upstream => Outcome::Ignored,
            Self::Answered(_) | Self::Delayed(_) | Self::Failed(_) => Outcome::Failure(latency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::StatusSet;

    #[test]
    fn what_a_client_can_provoke_is_no_failure() {
        let failures = StatusSet::server_errors();
        for status in 100..=999 {
            let expected = match status {
                501 | 505 => false,
                500..=599 => true,
                _ => false,
            };
            assert_eq!(is_server_error(status), expected, "{status}");
            assert_eq!(failures.has(status), expected, "{status}");
        }
        for (ended, expected) in [
            (Ended::Answered(501), Outcome::Success(Duration::ZERO)),
            (Ended::Delayed(505), Outcome::Ignored),
            (Ended::Answered(431), Outcome::Success(Duration::ZERO)),
            (Ended::Answered(503), Outcome::Failure(Duration::ZERO)),
            (Ended::Failed(Failure::ClientGone), Outcome::Ignored),
        ] {
            let outcome = ended.outcome(is_server_error, Duration::ZERO);
            assert_eq!(outcome, expected, "{ended:?}");
        }
    }
}
