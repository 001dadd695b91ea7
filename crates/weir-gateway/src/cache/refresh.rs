//! Asking again for what is still used: in the background, one request for each key, with a client that is nobody.

use std::rc::Rc;
use std::sync::Arc;

use weir_cache::reuse::Reuse;
use weir_cache::store::Object;
use weir_http::Method;
use weir_http::head::HeadScan;
use weir_http::request::Progress;

use crate::cache::lead::{Ask, Lead};
use crate::connection::Client;
use crate::exchange::Exchange;
use crate::serving::Cached;
use crate::state::fills::{REFRESHED_FOR, Remembered, Role};
use crate::state::view::View;
use crate::state::worker::Worker;

/// A request that is to be made for nobody.
#[derive(Debug)]
pub(crate) struct Refresh {
    pub(crate) asking: Exchange,
    pub(crate) worker: Rc<Worker>,
    pub(crate) view: Rc<View>,
    pub(crate) ask: Ask,
}

/// What to ask again for `object`, when that is due and nobody does already.
pub(super) fn if_due(
    x: &Exchange,
    on: Cached<'_>,
    object: &Arc<Object>,
    reuse: Reuse,
) -> Option<Box<Refresh>> {
    let is_due = match reuse {
        Reuse::StaleWhileRevalidate => true,
        // What was asked for once in all its time is let expire.
        Reuse::Fresh { refresh } => refresh && object.uses() > 1,
        _ => false,
    };
    if !is_due || x.request.method != Method::Get {
        return None;
    }
    let route = x.facts.route?;
    let nobody = Client::nobody(x.client.address, x.scheme(), &on.worker.deadlines);
    let mut asking = Exchange::new(nobody);
    let limits = on.view.snapshot.head_limits;
    let parsed = asking
        .request
        .parse(&x.head, &mut HeadScan::default(), limits);
    if !matches!(parsed, Ok(Progress::Complete(_))) {
        return None;
    }
    // What tells apart two variants whose fills are under way is part of this key.
    let mut key = x.recall.key.clone();
    if let Some(head) = object
        .stored_head()
        .filter(|head| !head.secondary().is_empty())
    {
        key.push(0);
        key.extend_from_slice(head.secondary());
    }
    let now = on.time();
    // What could not be stored a moment ago is not asked for at each hit.
    let has_failed = |noted: &Remembered, key: &[u8]| noted.holds(key, now, REFRESHED_FOR);
    if has_failed(&on.cache.refreshed, &key) || has_failed(&on.cache.unshared, &x.recall.key) {
        return None;
    }
    // What it takes the place of stays usable for now: a later hit asks again.
    let slot = on.cache.refreshing.take()?;
    let Role::Leads(lent) = on.cache.fills.enter(&key) else {
        return None;
    };
    asking.copy_head(x);
    asking.timeouts = x.timeouts;
    asking.facts.route = Some(route);
    asking.facts.side = x.facts.side;
    asking.path_is_as_in(x);
    asking.client_is_as_in(x);
    super::lookup::begin(&mut asking, on, None);
    asking.recall.is_conditional = false;
    let ticket = on.cache.tiers.ticket();
    let stored = (Some(Arc::clone(object)), Vec::new());
    let mut lead = Lead::new(&mut asking, on, lent, stored, ticket, now);
    lead.refreshes = Some(slot);
    // Another refresh may have ended since this request looked, or a purge may have come.
    if !on.cache.tiers.is_current(&asking.recall.key, object) {
        return None;
    }
    on.metrics().refreshes.add(1);
    on.cache.refreshed.note(&key, now);
    Some(Box::new(Refresh {
        asking,
        worker: Rc::clone(on.worker),
        view: Rc::clone(on.view),
        ask: Ask::Lead(Box::new(lead)),
    }))
}
