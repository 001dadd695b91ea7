//! Stored responses: which form of one answers a request, and how a missing form is made.
//!
//! A hit reads what was prepared: it parses `Accept-Encoding` and nothing else, and allocates nothing. The first
//! request that finds a form missing claims it, so it is made once; the others get the response as it is until the form
//! is there.

use std::sync::Arc;

use weir_cache::StoredHead;
use weir_cache::negotiate::{Coding, CompressPolicy, Levels, may_compress};
use weir_cache::store::Object;
use weir_cache::store::forms::{Form, Forms};

use crate::compress::{asks_for_a_part, wanted};
use crate::exchange::Exchange;
use crate::serving::Cached;
use crate::state::compressor::{Job, make};

/// Bodies up to this size are compressed by the worker that needs them, if the level is not above the default: that
/// takes less than a millisecond, once.
const INLINE_BYTES_MAX: u64 = 16 << 10;

/// The form of a stored response that answers the request, with its head; `None` when the response has no head.
pub(crate) fn select<'o>(
    x: &Exchange,
    on: Cached<'_>,
    key: &[u8],
    object: &'o Arc<Object>,
) -> Option<(&'o Arc<Object>, &'o Arc<StoredHead>)> {
    let head = object.stored_head()?;
    let Some(policy) = on.rule.compress.as_deref() else {
        return Some((object, head));
    };
    let mut is_decided_now = false;
    let forms = object.forms(|head| {
        is_decided_now = true;
        let (response, bytes) = (head.fields(), Some(object.body_bytes()));
        may_compress(head.meta.status, response, bytes, policy).is_ok()
    });
    let Some(forms) = forms else {
        return Some((object, head));
    };
    if is_decided_now {
        // From now on another head is kept with it.
        on.cache.tiers.reweigh(key, object);
    }
    let as_it_is = Some((object, forms.head()));
    let Some((coding, _)) = wanted(x, policy).filter(|_| !asks_for_a_part(x)) else {
        return as_it_is;
    };
    // If RAM has not taken the response, the next hit brings another object: a form would be made and lost each time.
    if let Form::Missing = forms.find(coding)
        && on.cache.tiers.memory().holds(key, object)
        && forms.claim(coding)
    {
        ask_for(on, key, object, forms, (coding, policy));
    }
    match forms.find(coding) {
        Form::Made(form) => Some((form, form.stored_head()?)),
        Form::Missing | Form::Useless => as_it_is,
    }
}

/// Makes the form, or gives the job to the compressor.
fn ask_for(
    on: Cached<'_>,
    key: &[u8],
    object: &Arc<Object>,
    forms: &Forms,
    (coding, policy): (Coding, &CompressPolicy),
) {
    let level = policy.stored.of(coding);
    let is_cheap = level <= Levels::STORED.of(coding);
    if is_cheap && object.body_bytes() <= INLINE_BYTES_MAX {
        make(on.cache, key, object, coding, level);
        return;
    }
    let job = Job {
        cache: Arc::clone(on.cache),
        key: key.into(),
        object: Arc::downgrade(object),
        coding,
        level,
    };
    if !on.cache.compressor.take(job) {
        forms.give_up(coding);
    }
}
