//! What a confirmation makes of what is stored: a 304 to conditions of our own, or the answer to HEAD.
//!
//! It renews what may stay stored, for all. What it says for one client reaches that client and no other: its cookies are
//! never stored, and what it makes private is ended.

use std::sync::Arc;

use weir_cache::StoredHead;
use weir_cache::freshness::Exchanged;
use weir_cache::store::purge::Ticket;
use weir_cache::store::{Object, PurgeKind, PurgeScope};
use weir_cache::store_rule::{self, NotStored};
use weir_cache::validate::{self, HeadMeans};
use weir_http::Method;

use crate::cache::lead::{Ask, Lead};
use crate::cache::remember::{Next, arrived, ask_for_itself, response_of};
use crate::cache::{on_disk, stored};
use crate::deadline::Timer;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::serving::Cached;
use crate::state::fill::Outcome;
use crate::upstream::hedge::Asked;
use crate::upstream::passing;

/// A stored response as a confirmation has it.
struct Renewed {
    old: Arc<Object>,
    head: Arc<StoredHead>,
    /// For the client that asked, where it is told more than the others.
    own_head: Option<Arc<StoredHead>>,
    stays: Result<(), NotStored>,
}

impl Renewed {
    fn new(
        x: &mut Exchange,
        on: Cached<'_>,
        old: &Arc<Object>,
        exchanged: Exchanged,
    ) -> Option<Self> {
        let share = on.share();
        let head = old.stored_head()?;
        let arrived = arrived(x, on, Some(head));
        let head = head.freshened(&arrived, exchanged, on.policy);
        // What was read from disk for this request alone is in no share of RAM yet.
        if let Some(share) = share {
            old.belongs_to(share);
        }
        Some(Self {
            old: Arc::clone(old),
            stays: store_rule::may_stay(&head, &arrived, on.policy),
            own_head: head.with_cookies_of(arrived.response).map(Arc::new),
            head: Arc::new(head),
        })
    }

    /// Stores it, or ends what is stored.
    async fn settle(
        &self,
        timer: &Timer,
        on: Cached<'_>,
        key: &[u8],
        ticket: Ticket,
    ) -> Result<Arc<Object>, NotStored> {
        let Err(why) = self.stays else {
            let (tiers, head) = (&on.cache.tiers, Arc::clone(&self.head));
            let (object, found) = tiers.renew_head(key, &self.old, head, ticket);
            on_disk::changed(timer, found).await;
            return Ok(object);
        };
        on.metrics().not_stored(why);
        // What is not to be shared because of who asked says nothing of what the others have.
        match why {
            NotStored::Authorization | NotStored::RequestNoStore | NotStored::VaryAmbiguous => {}
            NotStored::RequestCookie => on.cache.unshared_with_cookies.note(key, on.time()),
            _ => {
                on.cache.unshared.note(key, on.time());
                let ended = on.cache.end(PurgeScope::Key(key.into()), PurgeKind::Hard);
                on_disk::changed(timer, ended).await;
            }
        }
        Err(why)
    }
}

/// A 304 to conditions of our own: the stored response is right still.
pub(super) async fn by_304(
    x: &mut Exchange,
    on: Cached<'_>,
    mut lead: Box<Lead>,
    Asked { chosen, upstream }: Asked,
    exchanged: Exchanged,
) -> Result<Next, Failure> {
    let heads: Vec<&StoredHead> = lead
        .validated
        .iter()
        .filter_map(|object| object.stored_head().map(|head| &**head))
        .collect();
    let selected = validate::select(&heads, response_of(x));
    let renewed = selected.and_then(|at| Renewed::new(x, on, &lead.validated[at], exchanged));
    x.incoming.consume(x.response.head_bytes);
    passing::put_back(x, on.worker, &chosen, upstream);
    let Some(renewed) = renewed else {
        // It speaks of nothing that is here, so it must be asked without conditions.
        lead.validated.clear();
        lead.stale = None;
        x.recall.conditions.clear();
        x.recall.replaces_conditions = true;
        return Ok(Next::AskAgain(Ask::Lead(lead)));
    };
    on.metrics().revalidated.add(1);
    let settled = renewed
        .settle(&x.client.timer, on, &lead.key, lead.ticket)
        .await;
    let refused = settled.as_ref().err().map(|why| why.name());
    let mut object = if let Ok(object) = settled {
        lead.succeeds();
        lead.end(Outcome::Whole(Arc::clone(&object)));
        object
    } else {
        lead.end(Outcome::Unshared);
        let head = Arc::clone(&renewed.head);
        Arc::new(renewed.old.renewed_head(head, lead.ticket))
    };
    if let Some(head) = renewed.own_head {
        object = Arc::new(object.renewed_head(head, lead.ticket));
    }
    x.recall.outcome = Some("revalidated");
    if let Some(said) = &mut x.recall.status {
        said.forwarded_status = Some(304);
        said.stored = refused.is_none();
        said.detail = refused;
    }
    match stored::object(x, on, &object, on.time()).await {
        // What was confirmed turned out to be damaged, and nothing of it was sent.
        Err(Failure::StoreFailed) => Ok(ask_for_itself(x)),
        sent => sent.map(Next::Answered),
    }
}

/// The answer to HEAD, which is passed on, may say something of what is stored. The ticket is from before that was found.
pub(super) async fn by_head(
    x: &mut Exchange,
    on: Cached<'_>,
    (stored, ticket): (Arc<Object>, Ticket),
) {
    let Some(head) = stored.stored_head() else {
        return;
    };
    if x.request.method != Method::Head || x.response.status != 200 {
        return;
    }
    match validate::compare_head(head, response_of(x)) {
        HeadMeans::Unchanged => {
            let exchanged = Exchanged {
                request_time: on.now(x),
                response_time: on.time(),
            };
            if let Some(renewed) = Renewed::new(x, on, &stored, exchanged) {
                _ = renewed
                    .settle(&x.client.timer, on, &x.recall.key, ticket)
                    .await;
            }
        }
        HeadMeans::Changed => {
            let scope = PurgeScope::Key(x.recall.key.as_slice().into());
            on_disk::changed(&x.client.timer, on.cache.end(scope, PurgeKind::Soft)).await;
        }
        HeadMeans::Nothing => {}
    }
}
