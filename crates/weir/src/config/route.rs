//! `[[route]]`: which requests, and that no two routes want the same ones.
//!
//! What is done with them is read in `action`.

mod conditions;
mod cors;
pub(super) mod rewrite;
pub(super) mod spread;

use std::collections::HashMap;

use weir_gateway::settings::{
    Action, AllRoutes, Conditions, Cors, ErrorPages, HostPattern, Limits, ResponseHeaders, Route,
    RouteLimits,
};

use super::declared::file::ROUTE;
use super::declared::route::cors::CORS;
use super::declared::route::error_pages::ERROR_PAGES;
use super::declared::route::{HOST, METHODS, NAME, PATH, RESPONSE_HEADERS};
use super::entries::Entries;
use super::entry::Entry;
use super::headers::is_token;
use super::in_process::InProcess;
use super::pattern::{self, PathPattern};
use super::suggest::{did_you_mean, quoted};
use super::upstream::Upstreams;
use super::{action, care, error_pages, headers};

/// A route that is sound as far as the choice of requests goes.
struct Draft<'a> {
    /// `route[N]`, as the messages call it.
    number: usize,
    /// Where the path stands.
    place: Entry<'a>,
    name: Option<String>,
    host: HostPattern,
    path: PathPattern,
    methods: Option<Vec<String>>,
    conditions: Conditions,
    cors: Option<Cors>,
    error_pages: ErrorPages,
    limits: RouteLimits,
    says: ResponseHeaders,
    /// `None` when it had a mistake.
    action: Option<Action>,
}

/// Reads every `[[route]]`.
pub(super) fn all(
    root: &mut Entries,
    (upstreams, services): (&mut Upstreams, &mut InProcess),
    limits: &Limits,
    every: &AllRoutes,
) -> Vec<Route> {
    let tables = root.sections(&ROUTE);
    let drafts: Vec<Draft> = tables
        .into_iter()
        .enumerate()
        .filter_map(|(index, table)| {
            let targets = (&mut *upstreams, &mut *services);
            draft(index + 1, table, targets, limits, every)
        })
        .collect();
    report_overlaps(&drafts);
    let routes = drafts.into_iter().filter_map(Draft::into_route);
    let mut routes: Vec<Route> = routes.collect();
    routes.extend(services.routes_to_tell(&routes, limits));
    routes
}

fn draft<'a>(
    number: usize,
    mut table: Entries<'a>,
    targets: (&mut Upstreams, &mut InProcess),
    limits: &Limits,
    every: &AllRoutes,
) -> Option<Draft<'a>> {
    let name = table.optional(&NAME);
    let name = name.and_then(|value| value.parsed(route_name));
    let place = table.required(&PATH);
    let path = place.as_ref();
    let path = path.and_then(|value| value.parsed(own_path));
    let host = table.optional(&HOST);
    let host = host.map_or(Some(HostPattern::Any), |value| value.parsed(pattern::host));
    let methods = table.optional(&METHODS);
    let methods = methods.map_or(Some(None), |value| methods_of(&value).map(Some));
    let conditions = conditions::read(&mut table);
    let limits = care::limits(&mut table, path.as_ref(), limits);
    let says = table.optional(&RESPONSE_HEADERS);
    let parameters = action::parameters(path.as_ref());
    let says = says.map(|value| headers::of_answers(&value, parameters));
    let mut says = says.unwrap_or_default();
    let action = action::read(&mut table, path.as_ref(), &says, targets);
    let error_pages = error_pages::pages(table.named(&ERROR_PAGES));
    let cors_value = table.optional(&CORS);
    let known_methods = methods.as_ref().and_then(Option::as_deref);
    let cors = cors_value
        .as_ref()
        .and_then(|value| cors::rule(value, known_methods));
    if let (Some(value), Some(action)) = (&cors_value, &action) {
        let of_route = cors::take_over(action, &mut says).map(|name| (name, "the route sets"));
        let of_all =
            cors::set_by(&every.response_headers).map(|name| (name, "[response_headers] sets"));
        if let Some((name, by)) = of_route.or(of_all) {
            value.wrong(format!(
                "found beside the field \"{name}\" that {by}, expected only one of them"
            ));
        }
    }
    table.finish();
    Some(Draft {
        number,
        place: place?,
        name,
        host: host?,
        path: path?,
        methods: methods?,
        conditions,
        cors,
        error_pages,
        limits,
        says,
        action,
    })
}

impl Draft<'_> {
    fn into_route(self) -> Option<Route> {
        let host = match &self.host {
            HostPattern::Any => String::new(),
            HostPattern::Exact(name) => name.clone(),
            HostPattern::Wildcard(name) => format!("*.{name}"),
        };
        Some(Route {
            name: self
                .name
                .unwrap_or_else(|| host + &self.path.text + &self.conditions.names()),
            host: self.host,
            path: self.path.matched,
            methods: self.methods,
            conditions: self.conditions,
            cors: self.cors.map(Box::new),
            error_pages: self.error_pages,
            limits: self.limits,
            response_headers: self.says,
            action: self.action?,
            app: None,
        })
    }
}

/// A path that may be a route's.
fn own_path(text: &str) -> Result<PathPattern, String> {
    // Outcomes of deferred requests are told there.
    if text.starts_with("/.weir/") {
        return Err("expected another path: what is below /.weir/ is weir's own".to_owned());
    }
    pattern::path(text)
}

fn route_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(char::is_control) {
        return Err("expected a name: not empty, without control characters".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn methods_of(value: &Entry) -> Option<Vec<String>> {
    let items = value.list()?;
    if items.is_empty() {
        value.wrong(
            "found an empty list, expected at least one method, or no \"methods\" for all of them",
        );
        return None;
    }
    let mut methods: Vec<String> = Vec::new();
    let mut are_sound = true;
    for item in items {
        match item.parsed(method) {
            Some(method) if methods.contains(&method) => {
                item.expected("each method only once");
                are_sound = false;
            }
            Some(method) => methods.push(method),
            None => are_sound = false,
        }
    }
    are_sound.then_some(methods)
}

fn method(text: &str) -> Result<String, String> {
    if !is_token(text) {
        return Err("expected a method such as \"GET\"".to_owned());
    }
    let upper = text.to_ascii_uppercase();
    // TRACE shows a client what proxies added to its request, credentials included; CONNECT asks for a tunnel to
    // anywhere. The gateway serves neither.
    if upper == "TRACE" || upper == "CONNECT" {
        return Err("expected another method: TRACE and CONNECT are never served".to_owned());
    }
    if upper != text {
        let meant = did_you_mean(Some(&upper));
        return Err(format!("expected methods in upper case{meant}"));
    }
    Ok(upper)
}

/// Reports each route that wants requests which an earlier one wants too: the file would not say who gets them.
fn report_overlaps(drafts: &[Draft]) {
    let mut earlier: HashMap<(&HostPattern, &str), Vec<&Draft>> = HashMap::new();
    for draft in drafts {
        let alike = earlier.entry((&draft.host, &draft.path.shape)).or_default();
        let overlap = alike.iter().find_map(|other| {
            let (own, others) = (&draft.conditions, &other.conditions);
            if own.rank() != others.rank() || own.exclude(others) {
                return None;
            }
            let methods = common_methods(other.methods.as_deref(), draft.methods.as_deref())?;
            Some((other, methods))
        });
        if let Some((other, methods)) = overlap {
            let expected = if draft.conditions.is_empty() {
                "another path, host or method"
            } else {
                "conditions that exclude each other, or one more of them on one of the two"
            };
            draft.place.wrong(format!(
                "found {}, which route[{}] on line {} serves too for {methods}, expected {expected}",
                quoted(&draft.path.text),
                other.number,
                other.place.line(),
            ));
        }
        alike.push(draft);
    }
}

/// What two sets of methods have in common, in words.
fn common_methods(one: Option<&[String]>, other: Option<&[String]>) -> Option<String> {
    let (one, other) = match (one, other) {
        (None, None) => return Some("every method".to_owned()),
        (Some(some), None) | (None, Some(some)) => return Some(some.join(", ")),
        (Some(one), Some(other)) => (one, other),
    };
    // GET brings HEAD along.
    let has = |methods: &[String], wanted: &str| {
        let is_wanted = |method: &String| method == wanted || (method == "GET" && wanted == "HEAD");
        methods.iter().any(is_wanted)
    };
    let mut common: Vec<&str> = one
        .iter()
        .map(String::as_str)
        .filter(|method| has(other, method))
        .collect();
    if common.is_empty() && has(one, "HEAD") && has(other, "HEAD") {
        common.push("HEAD");
    }
    (!common.is_empty()).then(|| common.join(", "))
}
