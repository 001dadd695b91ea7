//! What the origin is asked for, and who holds the right to ask.

use std::sync::Arc;

use weir_cache::Timestamp;
use weir_cache::reuse::OriginFailure;
use weir_cache::store::purge::{Ticket, Verdict};
use weir_cache::store::{Object, Pin, Share};

use crate::cache::relief::Others;
use crate::cache::{lookup, write_conditions};
use crate::exchange::Exchange;
use crate::failure::{Failure, Fault};
use crate::serving::Cached;
use crate::state::bound::Slot;
use crate::state::fill::Outcome;
use crate::state::fills::Lent;
use crate::state::storage::Cache;

/// What the origin is asked for.
#[derive(Debug)]
pub(crate) enum Ask {
    /// An answer that is passed on. What is stored is confirmed or ended by the answer to HEAD; the ticket is from before
    /// it was found.
    Pass(Option<(Arc<Object>, Ticket)>),
    /// An answer that may be stored.
    Lead(Box<Lead>),
}

impl Ask {
    /// The others who ask for the same, where one of them may answer it first. Of a request with a body nothing is left to ask
    /// again with.
    pub(crate) fn others(&self, x: &Exchange) -> Option<Others> {
        match self {
            Self::Lead(lead) if !x.recall.is_keyed_by_body() => {
                Some(Others::new(&lead.lent, &lead.key))
            }
            Self::Lead(_) | Self::Pass(_) => None,
        }
    }

    /// Whether there is something stale for a request whose origin failed like this.
    pub(super) fn has_stale(&self, x: &Exchange, on: Cached<'_>, failure: Failure) -> bool {
        let Self::Lead(lead) = self else { return false };
        lead.stale_after(x, on, failure).is_some()
    }
}

/// The right to ask for a key, and the duty to tell those who wait.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(super) cache: Arc<Cache>,
    pub(super) key: Box<[u8]>,
    pub(super) lent: Lent,
    pub(super) ticket: Ticket,
    pub(super) share: Option<Arc<Share>>,
    /// What may be used on a failure.
    pub(super) stale: Option<Arc<Object>>,
    /// What the conditions are about.
    pub(super) validated: Vec<Arc<Object>>,
    /// They count as held when they are stored no longer.
    _pins: Vec<Pin>,
    /// Its place among the refreshes, if it is one.
    pub(super) refreshes: Option<Slot>,
    pub(super) request_time: Timestamp,
    pub(super) may_store: bool,
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.cache.fills.abandon(&mut self.lent);
    }
}

impl Lead {
    pub(super) fn new(
        x: &mut Exchange,
        on: Cached<'_>,
        lent: Lent,
        (stale, others): (Option<Arc<Object>>, Vec<Arc<Object>>),
        ticket: Ticket,
        now: Timestamp,
    ) -> Self {
        // The fill can be found by now: what was purged before must not come back through it.
        let is_purged = |object: &Arc<Object>| {
            let verdict = on.cache.tiers.verdict(ticket, &x.recall.key, &object.tags);
            verdict == Verdict::Drop
        };
        let stale = stale.filter(|stale| !is_purged(stale));
        let mut validated = stale.clone().map_or(others, |stale| vec![stale]);
        validated.retain(|object| !is_purged(object));
        // The conditions of a POST are about what it would change (RFC 9110 §13.1), so it is never sent with any of ours.
        if !x.recall.is_keyed_by_body() {
            write_conditions(x, &validated);
            x.recall.replaces_conditions = on.asks_for_all(x) || !x.recall.conditions.is_empty();
        }
        let pins = validated.iter();
        let pins = pins.filter_map(|object| object.pin(&on.cache.transient));
        let pins = pins.collect();
        let uses_min = u64::from(on.policy.uses_min);
        let may_store =
            stale.is_some() || uses_min <= 1 || on.cache.uses.count(&x.recall.key) >= uses_min;
        Self {
            cache: Arc::clone(on.cache),
            key: x.recall.key.as_slice().into(),
            lent,
            ticket,
            share: on.share().cloned(),
            stale,
            validated,
            _pins: pins,
            refreshes: None,
            request_time: now,
            may_store,
        }
    }

    /// Whether there is an answer now that there was not when this request looked.
    pub(super) async fn is_answered_meanwhile(
        &self,
        x: &mut Exchange,
        on: Cached<'_>,
        now: Timestamp,
    ) -> bool {
        !self.lent.is_alone && matches!(lookup::find(x, on, now).await, lookup::Found::Hit(..))
    }

    /// What is stored, if the request may have it after the origin failed like this.
    pub(super) fn usable_stale(
        &self,
        x: &Exchange,
        on: Cached<'_>,
        how: OriginFailure,
    ) -> Option<Arc<Object>> {
        let stale = self.stale.as_ref();
        let usable = stale.filter(|stale| on.may_be_stale(x, stale, how));
        usable.map(Arc::clone)
    }

    /// The same where it gave no answer.
    pub(super) fn stale_after(
        &self,
        x: &Exchange,
        on: Cached<'_>,
        failure: Failure,
    ) -> Option<Arc<Object>> {
        let is_of_service = failure.is_of_service();
        is_of_service.then(|| self.usable_stale(x, on, how_failed(failure)))?
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        self.cache.fills.end(&mut self.lent, outcome);
    }

    /// Something is stored, or right still: requests of the key wait for each other, and it is refreshed when that is due.
    pub(super) fn succeeds(&self) {
        self.cache.unshared.forget(&self.key);
        if let Some(fill_key) = &self.lent.key {
            self.cache.refreshed.forget(fill_key);
        }
    }

    /// Stores a whole answer and gives it to those who wait.
    pub(super) fn store(&mut self, object: &Arc<Object>) {
        self.succeeds();
        if let Some(share) = &self.share {
            object.belongs_to(share);
        }
        drop(self.cache.tiers.insert(&self.key, object));
        self.end(Outcome::Whole(Arc::clone(object)));
    }
}

/// Not to ask is an error as one of the origin is (RFC 5861 §4), but it is not cut off.
pub(super) fn how_failed(failure: Failure) -> OriginFailure {
    match failure.fault() {
        Fault::Gateway => OriginFailure::Status(failure.status()),
        Fault::Upstream | Fault::Client => OriginFailure::Unreachable,
    }
}
