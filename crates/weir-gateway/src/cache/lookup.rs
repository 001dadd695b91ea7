//! What is there for a request: in RAM, or on disk. What becomes of it is decided by weir-cache (`look.rs`).

use std::sync::Arc;

use weir_cache::cache_status::Forwarded;
use weir_cache::key::{self, Class, Inputs, Pass};
use weir_cache::look::{self, Absent, Kind, Lack, Look};
use weir_cache::reuse::Reuse;
use weir_cache::store::{Entry, Object};
use weir_cache::{RequestControl, StoredHead, Timestamp, vary};
use weir_http::body::Framing;
use weir_http::{FieldName, Method};

use crate::cache::{on_disk, sent};
use crate::deadline::Timer;
use crate::exchange::Exchange;
use crate::exchange::recall::Disk;
use crate::serving::Cached;
use crate::upstream::relay::passes_upgrade;

/// What there is.
pub(crate) enum Found {
    /// The request passes by the cache. What is stored is told to a HEAD, whose answer may confirm it.
    Pass(Forwarded, Option<Arc<Object>>),
    /// This answers it.
    Hit(Arc<Object>, Reuse),
    /// Nothing answers it as it is.
    Miss(Miss),
    /// The client does not want the origin asked.
    OnlyIfCached,
}

/// What there is to ask the origin by.
pub(crate) struct Miss {
    /// This may answer it once the origin has said so.
    pub(super) stale: Option<Arc<Object>>,
    /// Else, other variants of it.
    pub(super) others: Vec<Arc<Object>>,
    pub(super) forwarded: Forwarded,
}

/// Writes the key of a request; with the digest of its body, if it is looked up by that.
pub(super) fn begin(x: &mut Exchange, on: Cached<'_>, body_digest: Option<u128>) {
    x.recall.sent.begin(x.client.address);
    let names = on.policy.key.headers.iter().map(String::as_bytes);
    let differs = sent::differs(on, names);
    sent::prepare(x, on, differs);
    let mut key = std::mem::take(&mut x.recall.key);
    key.clear();
    let asked = Inputs {
        fields: sent::fields(x, differs),
        ..asked(x)
    };
    key::write(&on.policy.key, &asked, body_digest, &mut key);
    x.recall.key = key;
    x.recall.body_digest = body_digest;
    x.recall.fill_key.clear();
    x.recall.fill_key.extend_from_slice(&x.recall.key);
    let fields = x.request.view(&x.head);
    x.recall.is_conditional = fields.iter().any(|(id, ..)| id.makes_conditional());
}

/// What the key is made of.
pub(super) fn asked(x: &Exchange) -> Inputs<'_> {
    Inputs {
        scheme: x.scheme().as_bytes(),
        authority: x.request.authority.map_or(b"", |span| span.of(&x.head)),
        path: x.forwarded_path(),
        query: x.request.target.query.map(|span| span.of(&x.head)),
        fields: x.request.view(&x.head),
    }
}

/// The path of the request with its query, in whatever form its target came.
pub(super) fn target(x: &Exchange) -> Vec<u8> {
    let Inputs { path, query, .. } = asked(x);
    let path = if path.is_empty() { b"/" } else { path };
    match query {
        Some(query) => [path, b"?", query].concat(),
        None => path.to_vec(),
    }
}

/// Looks for what could answer the request.
pub(crate) async fn find(x: &mut Exchange, on: Cached<'_>, now: Timestamp) -> Found {
    if let Some(forwarded) = passes(x, on) {
        return Found::Pass(forwarded, None);
    }
    let entry = on.cache.tiers.find(&x.recall.key);
    let Some(object) = selected(x, on, entry.as_deref()).await else {
        let others = entry.map_or_else(Vec::new, |entry| entry.variants().to_vec());
        let absent = if others.is_empty() {
            Absent::Everything
        } else {
            Absent::Variant
        };
        return nothing(x, on, absent, others);
    };
    let Some(head) = object.stored_head() else {
        return nothing(x, on, Absent::Unreadable, Vec::new());
    };
    let ended;
    let meta = if object.is_marked_stale() {
        ended = head.meta.ended(now);
        &ended
    } else {
        &head.meta
    };
    let control = RequestControl::of(x.request.view(&x.head));
    match look::at_stored(meta, kind(x), &control, on.policy, now) {
        Look::Hit(reuse) => Found::Hit(object, reuse),
        Look::Pass(forwarded) => Found::Pass(forwarded, Some(object)),
        Look::OnlyIfCached => Found::OnlyIfCached,
        Look::Stale(why) => {
            if !head.secondary().is_empty() {
                ask_for_variant(x, on, &Arc::clone(head));
            }
            Found::Miss(Miss {
                stale: Some(object),
                others: Vec::new(),
                forwarded: Forwarded::of(why),
            })
        }
    }
}

/// What becomes of a request that selects nothing.
fn nothing(x: &mut Exchange, on: Cached<'_>, absent: Absent, others: Vec<Arc<Object>>) -> Found {
    let control = RequestControl::of(x.request.view(&x.head));
    let forwarded = match look::at_nothing(absent, kind(x), &control, on.policy) {
        Lack::Miss(forwarded) => forwarded,
        Lack::Pass(forwarded) => return Found::Pass(forwarded, None),
        Lack::OnlyIfCached => return Found::OnlyIfCached,
    };
    if let Some(head) = others.first().and_then(|other| other.stored_head())
        && x.recall.fill_key.len() == x.recall.key.len()
    {
        let head = Arc::clone(head);
        ask_for_variant(x, on, &head);
    }
    Found::Miss(Miss {
        stale: None,
        others,
        forwarded,
    })
}

fn kind(x: &Exchange) -> Kind {
    if x.request.method == Method::Head {
        Kind::Head
    } else if x.recall.is_keyed_by_body() {
        Kind::ByBody
    } else {
        Kind::Usual
    }
}

/// What is stored for the request, whether it may answer it or not.
pub(super) async fn stored(x: &mut Exchange, on: Cached<'_>) -> Option<Arc<Object>> {
    if passes(x, on).is_some() {
        return None;
    }
    let entry = on.cache.tiers.find(&x.recall.key);
    selected(x, on, entry.as_deref()).await
}

/// What the request selects in RAM, or else on disk.
async fn selected(x: &mut Exchange, on: Cached<'_>, entry: Option<&Entry>) -> Option<Arc<Object>> {
    match entry.and_then(|entry| choose(x, on, entry)) {
        None if on.cache.tiers.disk().is_some() && x.recall.disk == Disk::MayHaveIt => {
            Box::pin(from_disk(x, on)).await
        }
        chosen => chosen,
    }
}

/// Why a request has nothing to do with the cache, if it has not.
fn passes(x: &Exchange, on: Cached<'_>) -> Option<Forwarded> {
    let fields = x.request.view(&x.head);
    // These two are for the origin to judge (RFC 9111 §4.3.2).
    let is_for_origin = x.recall.is_conditional
        && (fields.has(FieldName::IfMatch) || fields.has(FieldName::IfUnmodifiedSince));
    if is_for_origin || passes_upgrade(x, on.rule) || x.request.authority.is_none() {
        return Some(Forwarded::Bypass);
    }
    // The origin does not get the fields that `Connection` names (RFC 9110 §7.6.1), so its answer is not for all who send
    // them: a key or a variant with `Accept-Language: de` would have what it says to those who name no language.
    if x.request.connection_names_fields {
        return Some(Forwarded::Bypass);
    }
    let has_body = x.request.framing != Framing::Empty;
    match key::class(x.request.method, has_body, &asked(x), on.policy) {
        Ok(Class::PostByBody) if !x.recall.is_keyed_by_body() => Some(Forwarded::Method),
        Ok(_) => None,
        Err(Pass::Method) => Some(Forwarded::Method),
        Err(Pass::Body | Pass::Bypass) => Some(Forwarded::Bypass),
    }
}

fn choose(x: &mut Exchange, on: Cached<'_>, entry: &Entry) -> Option<Arc<Object>> {
    let mut scratch = std::mem::take(&mut x.recall.scratch);
    let variants = entry.variants();
    let heads = variants.iter().filter_map(|object| object.stored_head());
    let names = heads.flat_map(|head| vary::names(head.secondary()));
    let differs = sent::differs(on, names);
    sent::prepare(x, on, differs);
    // One without a head, which only the disk could have, selects nothing.
    let each = variants.iter().map_while(|object| {
        let head = object.stored_head()?;
        Some((head.secondary(), &head.meta))
    });
    let fields = sent::fields(x, differs);
    let at = vary::choose(each, fields, on.policy.language_order_matters, &mut scratch);
    x.recall.scratch = scratch;
    let object = &variants[at?];
    object.touch();
    Some(Arc::clone(object))
}

async fn from_disk(x: &mut Exchange, on: Cached<'_>) -> Option<Arc<Object>> {
    let mut scratch = std::mem::take(&mut x.recall.scratch);
    let found = on.cache.tiers.find_on_disk(&x.recall.key);
    let names = found.iter().flat_map(|stored| vary::names(&stored.variant));
    let differs = sent::differs(on, names);
    sent::prepare(x, on, differs);
    let fields = sent::fields(x, differs);
    let order = on.policy.language_order_matters;
    let mut each = found.iter();
    let stored = each.find(|stored| vary::matches(&stored.variant, fields, order, &mut scratch));
    x.recall.scratch = scratch;
    let share = on.share();
    let tiers = &on.cache.tiers;
    let fetched = tiers.fetch(&x.recall.key, stored?, share);
    let timer = Timer::new(&on.worker.deadlines);
    on_disk::within(&timer, fetched).await.ok()
}

/// Whether the request selects the response with this head among those of its key.
pub(super) fn selects(x: &mut Exchange, on: Cached<'_>, head: &StoredHead) -> bool {
    let mut scratch = std::mem::take(&mut x.recall.scratch);
    let differs = sent::differs(on, vary::names(head.secondary()));
    sent::prepare(x, on, differs);
    let fields = sent::fields(x, differs);
    let order = on.policy.language_order_matters;
    let selects = vary::matches(head.secondary(), fields, order, &mut scratch);
    x.recall.scratch = scratch;
    selects
}

/// The request asks for another variant than the one with `head`: it waits only with those that ask for the same.
pub(super) fn ask_for_variant(x: &mut Exchange, on: Cached<'_>, head: &StoredHead) {
    let differs = sent::differs(on, head.fields().elements(FieldName::Vary));
    sent::prepare(x, on, differs);
    let mut fill_key = std::mem::take(&mut x.recall.fill_key);
    fill_key.truncate(x.recall.key.len());
    fill_key.push(0);
    let request = sent::fields(x, differs);
    vary::write_secondary(
        head.fields(),
        request,
        on.policy.language_order_matters,
        &mut fill_key,
    );
    x.recall.fill_key = fill_key;
}
