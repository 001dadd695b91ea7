//! Whether a response may be stored (RFC 9111 §3). If so, all that later requests need to know of it; if not, why not.
//!
//! The decision is made when the head of a response has arrived. The caller checks that its body arrives completely and
//! fits. `store_rule/status.rs` says what follows from a status alone.

mod cookies;
mod not_stored;
mod status;

use weir_http::{FieldName, Fields, Method, media};

use crate::control::{Directive, RequestControl, ResponseControl};
use crate::freshness::{self, AgeField, Dates, Exchanged, Lifetime};
use crate::meta::{Demands, LifetimeSource, Meta};
use crate::policy::{CachePolicy, SetCookie, is_of_resource};
use crate::stored_head::{Arrived, StoredHead};
use crate::time::Timestamp;
use crate::vary;

use cookies::Said;
pub use not_stored::{Lasting, NotStored};
pub use status::may_be_stored;

/// A response and the request it answers.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// The method of the request.
    pub method: Method,
    /// Whether the primary key contains a digest of the request's body, so that only an equal POST finds the response.
    pub is_keyed_by_body: bool,
    /// The target of the request as a path with its query.
    pub target: &'a [u8],
    /// The authority of the request.
    pub authority: &'a [u8],
    /// The fields of the request as the client sent them.
    pub request: Fields<'a>,
    /// Whether the origin was sent the client's cookies.
    pub has_cookies: bool,
    /// The status of the response.
    pub status: u16,
    /// The fields of the response.
    pub response: Fields<'a>,
    /// The announced length of the body, if there is one.
    pub body_bytes: Option<u64>,
    /// When it was requested and when it came.
    pub exchanged: Exchanged,
}

/// Decides whether to store the response, and as what.
///
/// # Errors
/// The first reason not to.
pub fn decide(answered: &Answered<'_>, policy: &CachePolicy) -> Result<Meta, NotStored> {
    let control = ResponseControl::of(answered.response);
    check_method(answered)?;
    status::check(answered, &control, policy)?;
    check_directives(answered, &control, policy)?;
    let media_type = answered.response.first(FieldName::ContentType);
    if media_type.is_some_and(media::is_event_stream) {
        return Err(NotStored::EventStream);
    }
    if vary::is_unknowable(answered.response) {
        return Err(NotStored::VaryStar);
    }
    if vary::has_lookalike(answered.response, answered.request) {
        return Err(NotStored::VaryAmbiguous);
    }
    let meta = meta_of(
        answered.status,
        answered.response,
        AgeField::of(answered.response),
        &control,
        answered.exchanged,
        policy,
    );
    let said = Said {
        control: &control,
        meta: &meta,
        policy,
    };
    said.check_set(answered.response)?;
    check_post(answered, meta.lifetime_source)?;
    if answered
        .body_bytes
        .is_some_and(|bytes| bytes > policy.body_bytes_max)
    {
        return Err(NotStored::TooLarge);
    }
    let is_fresh = meta.is_fresh(answered.exchanged.response_time);
    // Conditions only concern a success (RFC 9110 §13.2.1).
    let may_be_validated = matches!(answered.status, 200..=299)
        && (meta.last_modified.is_some() || answered.response.has(FieldName::Etag));
    let may_be_stale = policy
        .stale_while_revalidate
        .is_some_and(|span| !span.is_zero() && is_of_resource(answered.status))
        || !meta.stale_while_revalidate.is_zero();
    let may_be_used = (is_fresh || may_be_stale) && !meta.demands.has(Demands::VALIDATION);
    if !(may_be_used || may_be_validated) {
        return Err(NotStored::NoFreshness);
    }
    if answered.has_cookies {
        said.check_asked(answered.response)?;
    }
    Ok(meta)
}

/// Allows GET, and POST with its body in the key or with a name under which GET finds its answer. HEAD has no body to
/// store.
fn check_method(answered: &Answered<'_>) -> Result<(), NotStored> {
    match answered.method {
        Method::Get => Ok(()),
        Method::Post if answered.is_keyed_by_body => Ok(()),
        Method::Post => {
            let own = answered.response.first(FieldName::ContentLocation);
            let is_own = own.is_some_and(|location| {
                crate::invalidate::same_origin_target(location, answered.authority, answered.target)
                    .is_some_and(|target| target == answered.target)
            });
            if is_own { Ok(()) } else { Err(NotStored::Post) }
        }
        _ => Err(NotStored::Method),
    }
}

fn check_directives(
    answered: &Answered<'_>,
    control: &ResponseControl,
    policy: &CachePolicy,
) -> Result<(), NotStored> {
    check_shareable(control)?;
    check_requested(answered.request, control, policy)
}

/// §5.2.1.5, §3.5
fn check_requested(
    request: Fields<'_>,
    control: &ResponseControl,
    policy: &CachePolicy,
) -> Result<(), NotStored> {
    if policy.obeys_clients && RequestControl::of(request).says.has(Directive::NoStore) {
        return Err(NotStored::RequestNoStore);
    }
    let is_shared = control.says.has(Directive::Public)
        || control.says.has(Directive::MustRevalidate)
        || control.s_maxage.is_some();
    if request.has(FieldName::Authorization) && !is_shared {
        return Err(NotStored::Authorization);
    }
    Ok(())
}

fn check_shareable(control: &ResponseControl) -> Result<(), NotStored> {
    let says = control.says;
    // §5.2.2.3: beside `must-understand`, `no-store` is for caches that do not understand.
    if says.has(Directive::NoStore) && !says.has(Directive::MustUnderstand) {
        return Err(NotStored::ResponseNoStore);
    }
    if says.has(Directive::Private) {
        return Err(NotStored::Private);
    }
    Ok(())
}

/// Whether a stored response may stay stored after `arrived`, a 304 or a 200 to HEAD, has `updated` it. The update may
/// say `no-store`, `private` or `Vary: *`, or bring a cookie where the route refuses that. It may be for a client with
/// credentials or cookies, or one that wants nothing stored, or be selected by a field that looks like another one. Then it
/// answers only the request that it was validated for.
///
/// # Errors
/// Why not.
pub fn may_stay(
    updated: &StoredHead,
    arrived: &Arrived<'_>,
    policy: &CachePolicy,
) -> Result<(), NotStored> {
    let control = ResponseControl::of(updated.fields());
    check_shareable(&control)?;
    if vary::is_unknowable(updated.fields()) {
        return Err(NotStored::VaryStar);
    }
    check_requested(arrived.request, &control, policy)?;
    if vary::has_lookalike(updated.fields(), arrived.request) {
        return Err(NotStored::VaryAmbiguous);
    }
    let said = Said {
        control: &control,
        meta: &updated.meta,
        policy,
    };
    // Cookies of the update are for its client alone; those that are stored need what they needed then.
    said.check_set(updated.fields())?;
    if arrived.response.has(FieldName::SetCookie) && policy.set_cookie == SetCookie::Refuse {
        return Err(NotStored::SetCookie);
    }
    if arrived.has_cookies {
        said.check_asked(updated.fields())?;
    }
    Ok(())
}

/// The answer to a POST that is stored for GET needs a lifetime of the origin's own (RFC 9110 §9.3.3).
fn check_post(answered: &Answered<'_>, source: LifetimeSource) -> Result<(), NotStored> {
    let is_post = answered.method == Method::Post;
    if is_post && !answered.is_keyed_by_body && !source.is_of_origin() {
        return Err(NotStored::Post);
    }
    Ok(())
}

/// What is kept of a response besides its bytes.
pub(crate) fn meta_of(
    status: u16,
    fields: Fields<'_>,
    age: AgeField,
    control: &ResponseControl,
    exchanged: Exchanged,
    policy: &CachePolicy,
) -> Meta {
    let dates = Dates::of(fields, exchanged.response_time);
    let mut lifetime = freshness::lifetime(status, control, &dates, policy);
    if age == AgeField::Unreadable && !lifetime.source.is_of_route() {
        lifetime = Lifetime {
            length: std::time::Duration::ZERO,
            source: LifetimeSource::UnreadableAge,
        };
    }
    let span = |seconds: u32| std::time::Duration::from_secs(u64::from(seconds));
    Meta {
        status,
        request_time: exchanged.request_time,
        response_time: exchanged.response_time,
        date: dates.date,
        // A date in the future comes from a wrong clock, not from a modification.
        last_modified: dates
            .last_modified
            .filter(|at| *at <= latest(dates.date, exchanged.response_time)),
        initial_age: freshness::initial_age(age, dates.date, exchanged),
        lifetime: lifetime.length,
        lifetime_source: lifetime.source,
        stale_while_revalidate: control.stale_while_revalidate.map(span).unwrap_or_default(),
        stale_if_error: control.stale_if_error.map(span),
        demands: demands_of(status, control, policy),
    }
}

fn latest(a: Timestamp, b: Timestamp) -> Timestamp {
    a.max(b)
}

fn demands_of(status: u16, control: &ResponseControl, policy: &CachePolicy) -> Demands {
    let says = control.says;
    let mut demands = Demands::default();
    let mut demand = |is_made: bool, what| {
        if is_made {
            demands = demands.and(what);
        }
    };
    // A forced lifetime overrides what the origin says.
    let is_forced = policy.ttl.forced_for(status).is_some();
    demand(
        says.has(Directive::NoCache) && !is_forced,
        Demands::VALIDATION,
    );
    demand(
        says.has(Directive::MustRevalidate) || says.has(Directive::ProxyRevalidate),
        Demands::FRESHNESS,
    );
    demand(control.s_maxage.is_some(), Demands::SHARED_FRESHNESS);
    demand(says.has(Directive::Immutable), Demands::IMMUTABLE);
    demand(says.has(Directive::NoTransform), Demands::AS_IS);
    demands
}

#[cfg(test)]
mod tests;
