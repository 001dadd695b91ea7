//! What a client gets whose request was refused or failed: a stored response however stale, what another upstream answers, a
//! fixed answer; the first of these that there is, and otherwise the failure itself.
//!
//! Nothing here answers for a failure of the client's own, and nothing is sent after a byte of another final response. The
//! other upstream has its own gate, ejection and breakers of endpoints; when it fails too, the fixed answer is next, and no
//! third upstream.

use crate::connection::After;
use crate::exchange::Exchange;
use crate::failure::{Failure, FallbackKind};
use crate::serving::Serving;
use crate::settings::{Action, Fallback, FallbackOn};
use crate::state::snapshot::RouteState;
use crate::state::worker::Worker;

pub(crate) fn of(route: &RouteState) -> Option<&Fallback> {
    match &route.settings.action {
        Action::Forward(rule) => rule.care.fallback.as_deref(),
        Action::Redirect(_) | Action::Respond(_) | Action::Serve(_) => None,
    }
}

pub(crate) fn is_for(fallback: &Fallback, failure: Failure) -> bool {
    let is_meant = match fallback.on {
        FallbackOn::Any => true,
        FallbackOn::Refused => failure.is_refusal(),
        FallbackOn::Failed => !failure.is_refusal(),
    };
    is_meant && failure.is_of_service()
}

pub(crate) fn count(
    x: &mut Exchange,
    at: Serving<'_>,
    kind: FallbackKind,
    tried: Result<After, Failure>,
) -> Result<After, Failure> {
    if let (Ok(_), Some(route)) = (&tried, x.facts.route) {
        x.facts.fallback = Some(kind);
        at.view.route_metrics(route).fallbacks[kind as usize].add(1);
    }
    tried
}

/// Whether another upstream can be sent the whole request, and may: an endpoint that has heard of it may have acted on it,
/// and what is not idempotent must not be done twice (RFC 9110 §9.2.2).
pub(crate) fn may_go_elsewhere(x: &Exchange, failure: Failure) -> bool {
    let is_harmless = failure.is_unheard() || x.request.method.is_idempotent();
    is_harmless && x.upload.may_go_elsewhere()
}

/// Forgets what has come of asking the first upstream.
pub(crate) fn begin_again(x: &mut Exchange, worker: &Worker) {
    x.incoming.consume(x.incoming.unread().len());
    x.incoming.release(&worker.buffers);
    x.upload.restart();
    x.recall.asks_as_client();
}
