//! Which route a request takes: host, then path, then what is wanted of fields and query, then method. The most specific
//! route wins, whatever the order in the file.
//!
//! Hosts are tried from the most to the least specific: the exact name, `*.` patterns from the longest, any. Within a
//! host, the radix tree prefers static segments to `{name}`, and that to `{*rest}`. A route whose conditions do not hold is
//! not there for the request: the next one of its path is tried, and then less specific paths. Of those that are there, the
//! one with more conditions wins. A path that is there only with other methods is a 405, unless a less specific host serves
//! it.

mod paths;
mod pattern;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use weir_http::{Fields, Method, host};

use crate::router::paths::Paths;
use crate::router::pattern::Pattern;
use crate::settings::{HostPattern, Route};

/// The longest host that DNS allows; a longer one has no route of its own.
const HOST_BYTES_MAX: usize = 255;

/// The routes of a configuration, ready to be matched.
#[derive(Debug, Default)]
pub(crate) struct Router {
    exact: HashMap<Box<[u8]>, Paths>,
    wildcards: HashMap<Box<[u8]>, Paths>,
    any: Paths,
    /// The path of each route.
    patterns: Vec<Pattern>,
    /// Whether any route wants something of a field.
    may_choose_by_fields: bool,
}

/// What of a request decides its route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteKey<'a> {
    /// In normal form (see [`weir_http::host`]).
    pub(crate) authority: Option<&'a [u8]>,
    /// In normal form (see [`weir_http::target::normalize`]).
    pub(crate) path: &'a str,
    pub(crate) method: Method,
    pub(crate) method_name: &'a [u8],
    pub(crate) fields: Fields<'a>,
    pub(crate) query: Option<&'a [u8]>,
}

/// The outcome of matching.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'r> {
    /// The index of the route.
    Route(usize),
    /// The methods that the path has, as the value of `Allow`.
    MethodNotAllowed(Cow<'r, str>),
    /// No route has this path.
    Nothing,
}

/// Two routes that no request can tell apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteConflict {
    /// Index into the routes of the settings.
    pub route: usize,
    /// What the radix tree says about it.
    pub reason: String,
}

impl Router {
    pub(crate) fn new(routes: &[Route]) -> Result<Self, RouteConflict> {
        let mut drafts: HashMap<&HostPattern, Vec<usize>> = HashMap::new();
        for (index, route) in routes.iter().enumerate() {
            drafts.entry(&route.host).or_default().push(index);
        }
        let mut tables = Self {
            patterns: routes
                .iter()
                .map(|route| Pattern::new(&route.path))
                .collect(),
            may_choose_by_fields: routes
                .iter()
                .any(|route| !route.conditions.headers.is_empty()),
            ..Self::default()
        };
        for (pattern, indexes) in drafts {
            let paths = Paths::new(routes, &indexes)?;
            match pattern {
                HostPattern::Any => tables.any = paths,
                HostPattern::Exact(name) => {
                    drop(tables.exact.insert(name.as_bytes().into(), paths));
                }
                HostPattern::Wildcard(suffix) => {
                    drop(tables.wildcards.insert(suffix.as_bytes().into(), paths));
                }
            }
        }
        Ok(tables)
    }

    /// The route for a request.
    pub(crate) fn find(&self, asked: &RouteKey<'_>) -> Found<'_> {
        let mut refused = Found::Nothing;
        let found = self.search(asked.authority, |paths| match paths.find(asked) {
            found @ Found::Route(_) => Some(found),
            other => {
                if refused == Found::Nothing {
                    refused = other;
                }
                None
            }
        });
        found.unwrap_or(refused)
    }

    /// Whether `is_it` says yes to a route that a request with this host, path and method may take, whatever its fields and
    /// query are.
    pub(crate) fn may_take(
        &self,
        asked: &RouteKey<'_>,
        mut is_it: impl FnMut(usize) -> bool,
    ) -> bool {
        let found = self.search(asked.authority, |paths| paths.may_take(asked, &mut is_it));
        found.unwrap_or(false)
    }

    /// Whether [`Router::chosen_by`] ever has anything to say.
    pub(crate) fn may_choose_by_fields(&self) -> bool {
        self.may_choose_by_fields
    }

    /// The fields that have a say in what is found for a request with this host, path, query and method, even if nothing is: what
    /// a cache behind has to know of the answer (RFC 9110 §12.5.5).
    pub(crate) fn chosen_by(&self, asked: &RouteKey<'_>) -> Vec<&str> {
        let mut names = BTreeSet::new();
        let _: Option<()> =
            self.search(asked.authority, |paths| paths.chosen_by(asked, &mut names));
        names.into_iter().collect()
    }

    /// The value of the parameter `name` in the path of `route`, which serves `path`.
    pub(crate) fn parameter<'p>(&self, path: &'p str, route: usize, name: &str) -> Option<&'p str> {
        self.patterns.get(route)?.value(path, name)
    }

    /// All parameters that the path of `route` has, with their values.
    pub(crate) fn parameters(&self, path: &str, route: usize) -> Vec<(Box<str>, Box<str>)> {
        let mut found = Vec::new();
        if let Some(pattern) = self.patterns.get(route) {
            pattern.read(path, |name, value| found.push((name.into(), value.into())));
        }
        found
    }

    /// The first answer of the tables that serve a host, the most specific one first.
    fn search<'r, T>(
        &'r self,
        authority: Option<&[u8]>,
        mut visit: impl FnMut(&'r Paths) -> Option<T>,
    ) -> Option<T> {
        let has_names = !(self.exact.is_empty() && self.wildcards.is_empty());
        // The authority was checked when the head was read, so it has a host.
        let host = authority
            .filter(|_| has_names)
            .and_then(|authority| host::name(authority).ok());
        if let Some(host) = host.filter(|host| host.len() <= HOST_BYTES_MAX) {
            if let Some(found) = self.exact.get(host).and_then(&mut visit) {
                return Some(found);
            }
            for dot in memchr::memchr_iter(b'.', host) {
                if let Some(found) = self.wildcards.get(&host[dot + 1..]).and_then(&mut visit) {
                    return Some(found);
                }
            }
        }
        visit(&self.any)
    }
}

/// Whether both routes serve some request, and no rule says which one gets it.
pub(crate) fn overlap(one: &Route, other: &Route) -> bool {
    let serves = |route: &Route, method: &String| {
        let methods = route.methods.as_ref();
        methods.is_none_or(|own| {
            own.contains(method) || (method == "HEAD" && own.iter().any(|m| m == "GET"))
        })
    };
    let have_common = match (&one.methods, &other.methods) {
        (Some(methods), Some(_)) => methods.iter().any(|method| serves(other, method)),
        _ => true,
    };
    let have_head = |route| serves(route, &"HEAD".to_owned());
    one.host == other.host
        && shape(&one.path) == shape(&other.path)
        && (have_common || (have_head(one) && have_head(other)))
        && one.conditions.rank() == other.conditions.rank()
        && !one.conditions.exclude(&other.conditions)
}

/// The path without the names of its parameters: it decides whether two patterns match the same paths.
fn shape(pattern: &str) -> String {
    let mut shape = String::with_capacity(pattern.len());
    let mut inside = false;
    for c in pattern.chars() {
        match c {
            '{' => inside = true,
            '}' => inside = false,
            '*' if inside => {}
            c if !inside => {
                shape.push(c);
                continue;
            }
            _ => continue,
        }
        shape.push(c);
    }
    shape
}

#[cfg(test)]
mod tests;
