//! What a request that changed something makes invalid, in the stores and on its way there; whichever route it took.

use std::sync::Arc;

use weir_cache::invalidate::{Changed, targets};
use weir_cache::store::PurgeKind;
use weir_http::{FieldName, Method};

use crate::cache::remember::response_of;
use crate::cache::{lookup, on_disk, scope};
use crate::exchange::Exchange;
use crate::router::RouteKey;
use crate::state::storage::Cache;
use crate::state::view::View;

/// Whether an answered request on a route without a cache may have changed what another route has stored: its URL is cached
/// for those who read it, or the answer names other URLs. Allocates nothing, unlike finding out what.
pub(crate) fn may_concern(x: &Exchange, view: &View) -> bool {
    let response = response_of(x);
    if response.has(FieldName::Location) || response.has(FieldName::ContentLocation) {
        return true;
    }
    let snapshot = &view.snapshot;
    let reads = [(Method::Get, &b"GET"[..]), (Method::Post, b"POST")];
    reads.into_iter().any(|(method, method_name)| {
        let asked = RouteKey {
            method,
            method_name,
            ..x.route_key()
        };
        let stores = |route: usize| snapshot.routes[route].answers.is_some();
        snapshot.router.may_take(&asked, stores)
    })
}

/// Ends what is stored of the targets that an answered request has changed, by whichever route they are asked for.
///
/// When this returns, no request finds it as it was (RFC 9111 §4.4). Nor does one of the next process, if this one is killed
/// right behind the answer: for that the client waits until the files are gone, but no longer than a disk takes that answers.
pub(crate) async fn after(x: &Exchange, view: &View, cache: &Arc<Cache>) {
    let target = lookup::target(x);
    let authority = x
        .request
        .authority
        .map_or(&b""[..], |span| span.of(&x.head));
    let changed = Changed {
        method: x.request.method,
        method_name: x.request.method_name.of(&x.head),
        authority,
        target: &target,
        status: x.response.status,
        response: response_of(x),
    };
    for target in targets(&changed) {
        let scheme = x.scheme().as_bytes();
        let url = [scheme, b"://", authority, &target].concat();
        // What no request can ask for is not stored.
        let scopes = str::from_utf8(&url).map(|url| scope::of_url(url, &view.snapshot));
        for scope in scopes.into_iter().flatten().flatten() {
            if cache.may_hold(&scope) {
                view.metrics.invalidations.add(1);
                on_disk::changed(&x.client.timer, cache.end(scope, PurgeKind::Hard)).await;
            }
        }
    }
}
