//! May a stored response answer this request (RFC 9111 §4)?
//!
//! The caller has found a response under the key of the request and among the variants that `Vary` selects; what is
//! decided here is freshness, what the client demands of it, and what staleness is allowed. Nothing here looks at the
//! request's own conditions (`validate.rs`) or ranges (`range.rs`): they only shape the answer.

use std::time::Duration;

use crate::control::{Directive, MaxStale, RequestControl};
use crate::meta::{Demands, Meta};
use crate::policy::{CachePolicy, is_of_resource};
use crate::time::Timestamp;

/// What to do with a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Answer with it.
    Fresh {
        /// Whether it is old enough to be refreshed in the background (`refresh_ahead`); one request at a time does it.
        refresh: bool,
    },
    /// Answer with it, and refresh it in the background (RFC 5861 §3); one request at a time does it.
    StaleWhileRevalidate,
    /// Answer with it: the client takes it stale (`max-stale`, RFC 9111 §5.2.1.2).
    StaleForClient,
    /// Ask the origin, with the validators of what is stored.
    Revalidate(Why),
    /// Answer 504: the client wants nothing that is not stored (`only-if-cached`, §5.2.1.7), and this will not do.
    GatewayTimeout,
}

/// Why a stored response does not do as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its lifetime is over.
    Stale,
    /// The response says `no-cache`.
    ResponseNoCache,
    /// The request says `no-cache`, in `Cache-Control` or `Pragma`.
    RequestNoCache,
    /// The request says `no-store`: nothing of this exchange may be kept, so its answer is not shared either.
    RequestNoStore,
    /// The request's `max-age` is shorter than the response is old.
    RequestMaxAge,
    /// The request's `min-fresh` is longer than the response stays fresh.
    RequestMinFresh,
}

impl Why {
    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::ResponseNoCache => "response-no-cache",
            Self::RequestNoCache => "request-no-cache",
            Self::RequestNoStore => "request-no-store",
            Self::RequestMaxAge => "request-max-age",
            Self::RequestMinFresh => "request-min-fresh",
        }
    }

    /// Whether the client asked for it, so that the response would still do for others.
    pub const fn is_of_client(self) -> bool {
        !matches!(self, Self::Stale | Self::ResponseNoCache)
    }
}

/// Whether the response with this `meta` may answer a request that says `request`.
pub fn decide(
    meta: &Meta,
    request: &RequestControl,
    policy: &CachePolicy,
    now: Timestamp,
) -> Reuse {
    let obeyed = if policy.obeys_clients {
        *request
    } else {
        RequestControl::default()
    };
    let verdict = without_only_if_cached(meta, &obeyed, policy, now);
    match verdict {
        Reuse::Revalidate(_) if obeyed.says.has(Directive::OnlyIfCached) => Reuse::GatewayTimeout,
        _ => verdict,
    }
}

/// What to do when nothing is stored that could answer: whether the request may be sent on.
pub fn may_ask_origin(request: &RequestControl, policy: &CachePolicy) -> bool {
    !(policy.obeys_clients && request.says.has(Directive::OnlyIfCached))
}

fn without_only_if_cached(
    meta: &Meta,
    request: &RequestControl,
    policy: &CachePolicy,
    now: Timestamp,
) -> Reuse {
    if meta.demands.has(Demands::VALIDATION) {
        return Reuse::Revalidate(Why::ResponseNoCache);
    }
    if request.says.has(Directive::NoCache) {
        return Reuse::Revalidate(Why::RequestNoCache);
    }
    if request.says.has(Directive::NoStore) {
        return Reuse::Revalidate(Why::RequestNoStore);
    }
    let max_age = request.max_age.map(seconds);
    // A browser's reload says `max-age=0`; a response that is immutable does not change while it is fresh (RFC 8246).
    let is_immutable = meta.demands.has(Demands::IMMUTABLE) && meta.is_fresh(now);
    if max_age.is_some_and(|max_age| meta.age(now) > max_age || max_age.is_zero()) && !is_immutable
    {
        return Reuse::Revalidate(Why::RequestMaxAge);
    }
    if meta.is_fresh(now) {
        return match request.min_fresh.map(seconds) {
            Some(min) if meta.remaining(now) < min => Reuse::Revalidate(Why::RequestMinFresh),
            _ => Reuse::Fresh {
                refresh: is_due(meta, policy, now),
            },
        };
    }
    if request.min_fresh.is_some_and(|min| min > 0) {
        return Reuse::Revalidate(Why::RequestMinFresh);
    }
    stale(meta, request, policy, now)
}

fn stale(meta: &Meta, request: &RequestControl, policy: &CachePolicy, now: Timestamp) -> Reuse {
    let staleness = meta.staleness(now);
    let allowed = policy
        .stale_while_revalidate
        .filter(|_| route_may_keep_stale(meta))
        .unwrap_or(meta.stale_while_revalidate);
    if staleness < allowed && !meta.demands.has(Demands::FRESHNESS) {
        return Reuse::StaleWhileRevalidate;
    }
    let client_takes_it = match request.max_stale {
        None => false,
        Some(MaxStale::Any) => true,
        Some(MaxStale::Seconds(most)) => staleness <= seconds(most),
    };
    if client_takes_it && may_be_stale(meta) {
        return Reuse::StaleForClient;
    }
    Reuse::Revalidate(Why::Stale)
}

/// How the origin failed when it was asked to revalidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginFailure {
    /// It could not be reached, or broke off before its answer began.
    Unreachable,
    /// It answered with this status.
    Status(u16),
}

/// Whether a stored response that should have been revalidated may be served because the origin failed (RFC 9111 §4.2.4,
/// §4.3.3; RFC 5861 §4).
pub fn may_serve_on_failure(
    meta: &Meta,
    request: &RequestControl,
    policy: &CachePolicy,
    failure: OriginFailure,
    now: Timestamp,
) -> bool {
    let is_forbidden = meta.demands.has(Demands::VALIDATION)
        || meta.demands.has(Demands::FRESHNESS)
        || policy.obeys_clients
            && (request.says.has(Directive::NoCache) || request.says.has(Directive::NoStore));
    if is_forbidden {
        return false;
    }
    // `s-maxage` forbids what only the route or the client allows; the response itself can allow it by name.
    let of_response = meta.stale_if_error.unwrap_or_default();
    let mut allowed = of_response;
    if route_may_keep_stale(meta) {
        if let Some(of_route) = policy.stale_if_error {
            allowed = of_route;
        }
        if failure == OriginFailure::Unreachable {
            allowed = allowed.max(policy.stale_if_unreachable);
        }
    }
    if let Some(of_client) = request.stale_if_error
        && policy.obeys_clients
        && may_be_stale(meta)
    {
        allowed = allowed.max(seconds(of_client));
    }
    let has_failed = match failure {
        OriginFailure::Unreachable => true,
        OriginFailure::Status(status) => matches!(status, 500 | 502 | 503 | 504),
    };
    has_failed && meta.staleness(now) < allowed
}

/// Whether a stored response may be served however stale it is, because nothing better is to be had and the operator of
/// the cache wants that. This is no more than RFC 9111 §4.2.4 leaves open: neither `must-revalidate`, `proxy-revalidate`
/// and `no-cache` nor `s-maxage` give way, and a `stale-if-error` of the response is a permission, not a bound "absent
/// other information" (RFC 5861 §4), which this is.
pub fn may_serve_as_last_resort(
    meta: &Meta,
    request: &RequestControl,
    policy: &CachePolicy,
    now: Timestamp,
) -> bool {
    let is_refused = policy.obeys_clients
        && (request.says.has(Directive::NoCache) || request.says.has(Directive::NoStore));
    let is_fresh = meta.is_fresh(now) && !meta.demands.has(Demands::VALIDATION);
    !is_refused && (is_fresh || route_may_keep_stale(meta))
        || may_serve_on_failure(meta, request, policy, OriginFailure::Unreachable, now)
}

/// Whether nothing in the response forbids to serve it stale (RFC 9111 §4.2.4).
fn may_be_stale(meta: &Meta) -> bool {
    !meta.demands.has(Demands::VALIDATION)
        && !meta.demands.has(Demands::FRESHNESS)
        && !meta.demands.has(Demands::SHARED_FRESHNESS)
}

/// Whether a route's word can keep it beyond its lifetime: nothing forbids that, and it tells of the resource. An error that
/// is over helps nobody.
fn route_may_keep_stale(meta: &Meta) -> bool {
    may_be_stale(meta) && is_of_resource(meta.status)
}

fn is_due(meta: &Meta, policy: &CachePolicy, now: Timestamp) -> bool {
    policy.refresh_ahead_percent.is_some_and(|percent| {
        let due = meta.lifetime / 100 * u32::from(percent);
        meta.freshness_age(now) >= due
    })
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(u64::from(count))
}

#[cfg(test)]
mod tests;
