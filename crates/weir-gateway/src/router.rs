//! Which route a request takes: host, then path, then what is wanted of fields and query, then method. The most specific
//! route wins, whatever the order in the file.
//!
//! Hosts are tried from the most to the least specific: the exact name, `*.` patterns from the longest, any. Within a
//! host, the radix tree prefers static segments to `{name}`, and that to `{*rest}`. A route whose conditions do not hold is
//! not there for the request: the next one of its path is tried, and then less specific paths. Of those that are there, the
//! one with more conditions wins. A path that is there only with other methods is a 405, unless a less specific host serves
//! it.

mod chosen_by;
mod pattern;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use weir_http::{Fields, Method, host};

pub(crate) use crate::router::chosen_by::ChosenBy;
use crate::router::pattern::{Openness, Pattern};
use crate::settings::{Conditions, HostPattern, Route};

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

/// The paths of one host.
///
/// The radix tree refuses a parameter and a catch-all at the same position, although the length of a path can tell them
/// apart. So each position of a catch-all has a tree of its own, and the most specific match of all trees counts.
#[derive(Debug, Default)]
struct Paths {
    trees: Vec<matchit::Router<usize>>,
    nodes: Vec<Node>,
}

/// The routes that share one path.
#[derive(Debug)]
struct Node {
    pattern: Pattern,
    openness: Vec<Openness>,
    /// The most specific conditions first.
    routes: Vec<Entry>,
    /// The methods of all of them, if none has conditions.
    allow: Option<String>,
    /// Less specific nodes that may serve the same, the most specific first. Only where every route has conditions.
    behind: Vec<usize>,
}

#[derive(Debug)]
struct Entry {
    route: usize,
    /// `None` is any method.
    methods: Option<Vec<String>>,
    conditions: Conditions,
    /// Whether its path has a catch-all, which stands for nothing here: an exact path is more specific.
    is_base: bool,
}

impl Paths {
    fn new(routes: &[Route], indexes: &[usize]) -> Result<Self, RouteConflict> {
        let own = indexes
            .iter()
            .map(|&route| (route, routes[route].path.as_str(), false));
        // `/{*rest}` serves `/` too, but the tree needs at least one byte for the rest.
        let bases = own
            .clone()
            .filter_map(|(route, path, _)| Some((route, path.split_once("{*")?.0, true)));
        // Routes that differ only in their methods or conditions share a node.
        let mut nodes: Vec<(&str, Node)> = Vec::new();
        let mut by_shape: HashMap<String, usize> = HashMap::new();
        for (route, pattern, is_base) in own.chain(bases) {
            let place = *by_shape.entry(shape(pattern)).or_insert_with(|| {
                nodes.push((pattern, Node::new(pattern)));
                nodes.len() - 1
            });
            nodes[place].1.add(route, &routes[route], is_base);
        }
        let mut trees = BTreeMap::<Option<usize>, matchit::Router<usize>>::new();
        for (place, (pattern, node)) in nodes.iter_mut().enumerate() {
            node.settle();
            let mut openness = node.openness.iter();
            let catch_all_at = openness.position(|&segment| segment == Openness::CatchAll);
            let inserted = trees
                .entry(catch_all_at)
                .or_default()
                .insert(*pattern, place);
            inserted.map_err(|error| RouteConflict {
                route: node.routes[0].route,
                reason: error.to_string(),
            })?;
        }
        let mut paths = Self {
            trees: trees.into_values().collect(),
            nodes: nodes.into_iter().map(|(_, node)| node).collect(),
        };
        for place in 0..paths.nodes.len() {
            paths.nodes[place].behind = paths.behind(place);
        }
        Ok(paths)
    }

    /// What is tried when no route of a node is there for a request.
    fn behind(&self, place: usize) -> Vec<usize> {
        let node = &self.nodes[place];
        if !node.routes.iter().all(|entry| !entry.conditions.is_empty()) {
            return Vec::new();
        }
        let is_behind = |&other: &usize| {
            let other = &self.nodes[other];
            other.openness > node.openness && other.pattern.overlaps(&node.pattern)
        };
        let mut behind: Vec<usize> = (0..self.nodes.len()).filter(is_behind).collect();
        behind.sort_by(|&one, &other| self.nodes[one].openness.cmp(&self.nodes[other].openness));
        behind
    }

    /// The nodes that serve a path, as long as a request may find no route at the ones before.
    fn at<'r, 'p>(&'r self, path: &'p str) -> impl Iterator<Item = &'r Node> + use<'r, 'p> {
        let matches = self.trees.iter().filter_map(|tree| tree.at(path).ok());
        let nodes = matches.map(|matched| &self.nodes[*matched.value]);
        let first = nodes.min_by(|one, other| one.openness.cmp(&other.openness));
        let behind = first.map_or(&[][..], |first| &first.behind);
        let behind = behind.iter().map(|&place| &self.nodes[place]);
        first
            .into_iter()
            .chain(behind.filter(move |node| node.pattern.serves(path)))
    }

    fn find(&self, asked: &RouteKey<'_>) -> Found<'_> {
        for node in self.at(asked.path) {
            let mut is_there = false;
            for entry in &node.routes {
                if entry.conditions.is_empty() || entry.conditions.hold(asked.fields, asked.query) {
                    is_there = true;
                    if entry.serves(asked.method, asked.method_name) {
                        return Found::Route(entry.route);
                    }
                }
            }
            if is_there {
                return Found::MethodNotAllowed(node.allow(asked));
            }
        }
        Found::Nothing
    }

    /// See [`Router::may_take`]; `None` when a less specific host may serve it too.
    fn may_take(
        &self,
        asked: &RouteKey<'_>,
        is_it: &mut impl FnMut(usize) -> bool,
    ) -> Option<bool> {
        for node in self.at(asked.path) {
            let serving = |entry: &&Entry| entry.serves(asked.method, asked.method_name);
            for entry in node.routes.iter().filter(serving) {
                if is_it(entry.route) {
                    return Some(true);
                }
                if entry.conditions.is_empty() {
                    return Some(false);
                }
            }
        }
        None
    }
}

impl Node {
    fn new(pattern: &str) -> Self {
        let pattern = Pattern::new(pattern);
        Self {
            openness: pattern.openness(),
            pattern,
            routes: Vec::new(),
            allow: None,
            behind: Vec::new(),
        }
    }

    fn add(&mut self, route: usize, settings: &Route, is_base: bool) {
        self.routes.push(Entry {
            route,
            methods: settings.methods.clone(),
            conditions: settings.conditions.clone(),
            is_base,
        });
    }

    /// All routes are there.
    fn settle(&mut self) {
        self.routes
            .sort_by_key(|entry| (entry.is_base, Reverse(entry.conditions.rank())));
        let is_plain = self.routes.iter().all(|entry| entry.conditions.is_empty());
        self.allow = is_plain.then(|| allow_value(self.routes.iter()));
    }

    fn allow(&self, asked: &RouteKey<'_>) -> Cow<'_, str> {
        let holds = |entry: &&Entry| entry.conditions.hold(asked.fields, asked.query);
        match &self.allow {
            Some(allow) => Cow::Borrowed(allow),
            None => Cow::Owned(allow_value(self.routes.iter().filter(holds))),
        }
    }
}

fn allow_value<'e>(entries: impl Iterator<Item = &'e Entry>) -> String {
    let mut methods: Vec<&str> = Vec::new();
    for method in entries.flat_map(|entry| entry.methods.iter().flatten()) {
        let implied = (method == "GET").then_some("HEAD");
        for method in std::iter::once(method.as_str()).chain(implied) {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
    }
    methods.join(", ")
}

impl Entry {
    fn serves(&self, method: Method, method_name: &[u8]) -> bool {
        let Some(methods) = &self.methods else {
            return true;
        };
        methods
            .iter()
            .any(|own| own.as_bytes() == method_name || (method == Method::Head && own == "GET"))
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
