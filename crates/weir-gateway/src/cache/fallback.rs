//! A stored response for a request that got no other answer, however stale it is. Nothing is asked and nothing is stored.

use std::sync::Arc;

use weir_cache::store::Object;
use weir_cache::{RequestControl, reuse};

use crate::cache::{lookup, stored};
use crate::connection::After;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::serving::Cached;

/// What there is that may be used.
pub(crate) async fn find(x: &mut Exchange, on: Cached<'_>) -> Option<Arc<Object>> {
    let stored = lookup::stored(x, on).await?;
    let control = RequestControl::of(x.request.view(&x.head));
    let head = stored.stored_head()?;
    let may_serve = reuse::may_serve_as_last_resort(&head.meta, &control, on.policy, on.time());
    may_serve.then_some(stored)
}

/// Answers with it, and says in `Cache-Status` why.
pub(crate) async fn respond(
    x: &mut Exchange,
    on: Cached<'_>,
    stored: &Arc<Object>,
    why: Failure,
) -> Result<After, Failure> {
    // What is sent takes the place of the request.
    x.upload.answered();
    let said = (x.recall.status, x.recall.outcome);
    let sent = stored::stale(x, on, stored, Some(why)).await;
    if sent.is_err() {
        // Nothing of it was sent, so that something else may be.
        (x.recall.status, x.recall.outcome) = said;
    }
    sent
}
