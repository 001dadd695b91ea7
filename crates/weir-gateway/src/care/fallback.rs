//! What a client gets whose request was refused or failed: a stored response however stale, what another upstream answers, a
//! fixed answer; the first of these that there is, and otherwise the failure itself.
//!
//! Nothing here answers for a failure of the client's own, and nothing is sent after a byte of another final response. The
//! other upstream has its own gate, ejection and breakers of endpoints; when it fails too, the fixed answer is next, and no
//! third upstream.

use std::rc::Rc;

use crate::connection::Client;
use crate::connection::h1::After;
use crate::exchange::{self, Exchange};
use crate::failure::Failure;
use crate::settings::{Action, Fallback, FallbackOn};
use crate::snapshot::RouteState;
use crate::view::View;
use crate::worker::Worker;
use crate::{cache, respond};

/// What took the place of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stored response.
    Stale,
    /// The answer of another upstream.
    Upstream,
    /// A fixed one.
    Fixed,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Stale, Self::Upstream, Self::Fixed];

    /// The name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Upstream => "upstream",
            Self::Fixed => "answer",
        }
    }
}

/// Answers a request that ended in `failure`. The failure stays in the log, beside the status that is sent.
pub(crate) async fn answer(
    client: &mut Client,
    x: &mut Exchange,
    worker: &Rc<Worker>,
    view: &Rc<View>,
    failure: Failure,
) -> After {
    let failure = worker.meaning_of(failure);
    let route = x.facts.route.map(|route| &view.snapshot.routes[route]);
    let found = route.and_then(|route| Some((route, of(route)?)));
    let Some((route, fallback)) = found.filter(|(_, fallback)| is_for(fallback, failure)) else {
        return respond::failure(client, x, worker, view, failure).await;
    };
    x.facts.failure = Some(failure);
    // A request that goes well does not carry the state of a second one.
    let instead = Box::pin(instead(client, x, worker, view, (route, fallback), failure)).await;
    match instead {
        Ok(after) => after,
        Err(failure) => respond::failure(client, x, worker, view, failure).await,
    }
}

fn of(route: &RouteState) -> Option<&Fallback> {
    match &route.settings.action {
        Action::Forward(rule) => rule.care.fallback.as_deref(),
        Action::Redirect(_) | Action::Respond(_) => None,
    }
}

fn is_for(fallback: &Fallback, failure: Failure) -> bool {
    let is_meant = match fallback.on {
        FallbackOn::Any => true,
        FallbackOn::Refused => failure.is_refusal(),
        FallbackOn::Failed => !failure.is_refusal(),
    };
    is_meant && failure.is_of_service()
}

/// The first answer that there is. The error is what the client is to be told when there is none: what went wrong first,
/// unless the client itself has left or failed since.
async fn instead(
    client: &mut Client,
    x: &mut Exchange,
    worker: &Rc<Worker>,
    view: &Rc<View>,
    (route, fallback): (&RouteState, &Fallback),
    failure: Failure,
) -> Result<After, Failure> {
    let is_over = |tried: &Result<After, Failure>| !matches!(tried, Err(failure) if worker.meaning_of(*failure).is_of_service());
    if fallback.stale
        && let Some(on) = exchange::cached_of(worker, view, route)
        && let Some(stored) = cache::fallback::find(x, on).await
    {
        let tried = cache::fallback::respond(client, x, on, &stored, failure).await;
        if is_over(&tried) {
            return count(x, view, Kind::Stale, tried);
        }
    }
    if let Some(rule) = route.elsewhere.as_deref()
        && may_go_elsewhere(x, failure)
    {
        begin_again(x, worker);
        let tried = exchange::pass(client, x, worker, view, rule).await;
        if is_over(&tried) {
            return count(x, view, Kind::Upstream, tried);
        }
    }
    let Some(fixed) = &fallback.answer else {
        return Err(failure);
    };
    let tried = respond::fixed(client, x, worker, fixed).await;
    count(x, view, Kind::Fixed, tried)
}

fn count(
    x: &mut Exchange,
    view: &View,
    kind: Kind,
    tried: Result<After, Failure>,
) -> Result<After, Failure> {
    if let (Ok(_), Some(route)) = (&tried, x.facts.route) {
        x.facts.fallback = Some(kind);
        view.route_metrics(route).fallbacks[kind as usize].add(1);
    }
    tried
}

/// Whether another upstream can be sent the whole request, and may: an endpoint that has heard of it may have acted on it,
/// and what is not idempotent must not be done twice (RFC 9110 §9.2.2).
fn may_go_elsewhere(x: &Exchange, failure: Failure) -> bool {
    let is_harmless = failure.is_unheard() || x.request.method.is_idempotent();
    is_harmless && x.upload.may_go_elsewhere()
}

/// Forgets what has come of asking the first upstream.
fn begin_again(x: &mut Exchange, worker: &Worker) {
    x.incoming.consume(x.incoming.unread().len());
    x.incoming.release(&worker.buffers);
    x.upload.restart();
    x.recall.asks_as_client();
}
