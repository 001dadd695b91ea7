//! What a client gets when its request was refused or failed: a stored response however stale, the answer of another
//! upstream, or a fixed answer. The first of these that exists is used, and otherwise the failure itself.
//!
//! There is no fallback for a failure of the client, and none after a byte of another final response was sent. The
//! other upstream has its own gate, ejection and endpoint breakers. When it fails too, the fixed answer is next, and no
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

/// Whether the whole request can and may be sent to another upstream. An endpoint that has seen the request may have
/// acted on it, and a request that is not idempotent must not be executed twice (RFC 9110 §9.2.2).
pub(crate) fn may_go_elsewhere(x: &Exchange, failure: Failure) -> bool {
    let is_harmless = failure.is_unheard() || x.request.method.is_idempotent();
    is_harmless && x.upload.may_go_elsewhere()
}

/// Discards the results of asking the first upstream.
pub(crate) fn begin_again(x: &mut Exchange, worker: &Worker) {
    x.incoming.consume(x.incoming.unread().len());
    x.incoming.release(&worker.buffers);
    x.upload.restart();
    x.recall.asks_as_client();
}
