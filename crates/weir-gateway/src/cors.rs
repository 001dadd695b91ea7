//! Answers for pages of other origins: what a browser is told of them, and whether it may send a request at all (Fetch
//! standard, section 3.3).
//!
//! Every answer of a route says it, whoever has made it: a page can read a refusal only where it may read answers. What
//! an origin behind says of it is left out, so that a stored answer says to each page what holds for it.

use weir_http::{Fields, Method};

use crate::connection::After;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::respond;
use crate::router::RouteKey;
use crate::serving::Serving;
use crate::settings::{Conditions, Cors, Origins, Wanted};
use crate::state::snapshot::Snapshot;

/// What a browser asks before it sends a request: the method of that request, with which its route is found. `None` for what
/// is no such question.
fn asked_method(x: &Exchange) -> Option<(Method, &[u8])> {
    if x.request.method != Method::Options {
        return None;
    }
    let fields = x.request.view(&x.head);
    let name = fields.named(b"access-control-request-method").next()?;
    let method = Method::of(name).ok()?;
    origin(fields).map(|_| (method, name))
}

/// The origin of the page. Of several, nobody knows whose it is.
fn origin(fields: Fields<'_>) -> Option<&[u8]> {
    let mut origins = fields.named(b"origin");
    origins.next().filter(|_| origins.next().is_none())
}

/// The route of the request that a browser asks about, if it asks and that route says something to it: the most specific one
/// that the request may take.
pub(crate) fn find(x: &Exchange, snapshot: &Snapshot, path: &str) -> Option<usize> {
    let (method, method_name) = asked_method(x)?;
    let key = RouteKey {
        path,
        method,
        method_name,
        ..x.route_key()
    };
    let mut found = None;
    snapshot.router.may_take(&key, |route| {
        let route_settings = &snapshot.routes[route].settings;
        let is_it = may_meet(&route_settings.conditions, &key);
        if is_it && route_settings.cors.is_some() {
            found = Some(route);
        }
        is_it
    });
    found
}

/// Whether the request that `asked` asks about may meet `conditions`. Its fields are not there yet, but those that the page sets are
/// listed, and what a proxy before weir adds to all requests is here.
fn may_meet(conditions: &Conditions, asked: &RouteKey<'_>) -> bool {
    let mut headers = conditions.headers.iter();
    conditions.query_holds(asked.query)
        && headers.all(|(name, wanted)| {
            let holds_now = wanted.holds_for_field(name, asked.fields);
            let will_come = is_listed(name, asked.fields);
            match wanted {
                Wanted::Absent => holds_now && !will_come,
                Wanted::Present | Wanted::Value(_) => {
                    holds_now || will_come || comes_unlisted(name)
                }
            }
        })
}

/// Whether a browser says that the request will have a field called `name`.
fn is_listed(name: &str, fields: Fields<'_>) -> bool {
    let lists = fields.named(b"access-control-request-headers");
    let mut listed = lists.flat_map(|list| list.split(|&byte| byte == b','));
    listed.any(|listed| listed.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether a request may have a field called `name` of which the question before it says nothing: what every page may set, and what
/// the browser adds itself (Fetch standard, sections 2.2.2 and 3.3).
fn comes_unlisted(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "accept",
        "accept-language",
        "authorization",
        "content-language",
        "content-type",
        "cookie",
        "range",
        "referer",
    ];
    NAMES.contains(&name)
}

/// The rule by which the request is answered, if it is a question that its route answers: not one about a request of another route,
/// which came here because an `OPTIONS` does.
pub(crate) fn rule<'a>(x: &Exchange, at: Serving<'a>) -> Option<&'a Cors> {
    let cors = at.route.settings.cors.as_deref()?;
    let answers = find(x, &at.view.snapshot, x.path());
    answers.filter(|_| answers == x.facts.route).map(|_| cors)
}

/// Says in every answer whether the page may read it.
pub(crate) fn tell(x: &mut Exchange, cors: &Cors) {
    let Exchange {
        request,
        head,
        outgoing,
        ..
    } = x;
    let allowed: &[u8] = match (&cors.origins, origin(request.view(head))) {
        (Origins::Any, _) => b"*",
        (origins, Some(origin)) if origins.allow(origin) => origin,
        _ => return,
    };
    outgoing.told_by_field(b"Access-Control-Allow-Origin", allowed);
    if cors.credentials {
        outgoing.told_by_field(b"Access-Control-Allow-Credentials", b"true");
    }
    if !cors.expose.is_empty() {
        outgoing.told_by_field(b"Access-Control-Expose-Headers", cors.expose.as_bytes());
    }
}

/// Answers the question, before any limit: who may not ask this cannot be told why.
pub(crate) async fn answer(
    x: &mut Exchange,
    at: Serving<'_>,
    cors: &Cors,
) -> Result<After, Failure> {
    x.upload.discard(&mut x.client)?;
    let sent = origin(x.request.view(&x.head));
    let is_allowed = sent.is_some_and(|origin| cors.origins.allow(origin));
    let after = respond::begin(x, at.worker, 204);
    if is_allowed {
        // Lines of the head itself would go as an upstream's do, of which the route takes such fields off.
        let out = &mut x.outgoing;
        out.told_by_field(b"Access-Control-Allow-Methods", cors.methods.as_bytes());
        if !cors.headers.is_empty() {
            out.told_by_field(b"Access-Control-Allow-Headers", cors.headers.as_bytes());
        }
        let seconds = cors.max_age.as_secs().to_string();
        out.told_by_field(b"Access-Control-Max-Age", seconds.as_bytes());
    }
    respond::finish(x, at.answering(), (204, after), b"").await?;
    Ok(after)
}
