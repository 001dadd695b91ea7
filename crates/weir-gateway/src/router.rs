//! Which route a request takes: host, then path, then method. The most specific route wins, whatever the order in the
//! file.
//!
//! Hosts are tried from the most to the least specific: the exact name, `*.` patterns from the longest, any. Within a
//! host, the radix tree prefers static segments to `{name}`, and that to `{*rest}`. A path that exists only with other
//! methods is a 405, unless a less specific host serves it.

use std::collections::{BTreeMap, HashMap};

use weir_http::{Method, host};

use crate::settings::{HostPattern, Route};

/// The longest host that DNS allows; a longer one has no route of its own.
const HOST_BYTES_MAX: usize = 255;

/// The routes of a configuration, ready to be matched.
#[derive(Debug, Default)]
pub(crate) struct Router {
    exact: HashMap<Box<[u8]>, Paths>,
    wildcards: HashMap<Box<[u8]>, Paths>,
    any: Paths,
}

/// The outcome of matching.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'r> {
    /// The index of the route.
    Route(usize),
    /// The methods that the path has, as the value of `Allow`.
    MethodNotAllowed(&'r str),
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
        let mut tables = Self::default();
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

    /// The route for a request; `authority` is in normal form (see [`weir_http::host`]), as is `path` (see
    /// [`weir_http::target::normalize`]).
    pub(crate) fn find(
        &self,
        authority: Option<&[u8]>,
        path: &str,
        method: Method,
        method_name: &[u8],
    ) -> Found<'_> {
        let mut refused = Found::Nothing;
        let found = self.search(authority, |paths| {
            match paths.find(path, method, method_name) {
                found @ Found::Route(_) => Some(found),
                other => {
                    if refused == Found::Nothing {
                        refused = other;
                    }
                    None
                }
            }
        });
        found.unwrap_or(refused)
    }

    /// The value of the parameter `name` in the path of `route`.
    pub(crate) fn parameter<'p>(
        &self,
        authority: Option<&[u8]>,
        path: &'p str,
        route: usize,
        name: &str,
    ) -> Option<&'p str> {
        self.search(authority, |paths| {
            let matched = paths.at(path)?;
            let entry = matched
                .value
                .routes
                .iter()
                .find(|entry| entry.route == route)?;
            // Routes that share a node may name the same parameter differently, so its position counts.
            let place = entry.parameters.iter().position(|own| own == name)?;
            matched.params.iter().nth(place).map(|(_, value)| value)
        })
    }

    /// All parameters that the path of `route` has, with their values.
    pub(crate) fn parameters(
        &self,
        authority: Option<&[u8]>,
        path: &str,
        route: usize,
    ) -> Vec<(Box<str>, Box<str>)> {
        let found = self.search(authority, |paths| {
            let matched = paths.at(path)?;
            let mut entries = matched.value.routes.iter();
            let entry = entries.find(|entry| entry.route == route)?;
            let values = matched.params.iter().map(|(_, value)| Box::from(value));
            let names = entry.parameters.iter().map(|name| Box::from(name.as_str()));
            Some(names.zip(values).collect())
        });
        found.unwrap_or_default()
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
    trees: Vec<matchit::Router<Node>>,
}

/// The routes that share one path.
#[derive(Debug)]
struct Node {
    /// How general each segment is. Compared from the first segment on; less is more specific.
    openness: Vec<Openness>,
    routes: Vec<Entry>,
    allow: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Openness {
    Static,
    Parameter,
    CatchAll,
}

#[derive(Debug)]
struct Entry {
    route: usize,
    /// `None` is any method.
    methods: Option<Vec<String>>,
    /// The names of the path's parameters, in order.
    parameters: Vec<String>,
}

impl Paths {
    fn new(routes: &[Route], indexes: &[usize]) -> Result<Self, RouteConflict> {
        let own = indexes
            .iter()
            .map(|&route| (route, routes[route].path.as_str()));
        // `/{*rest}` serves `/` too, but the tree needs at least one byte for the rest.
        let bases = own
            .clone()
            .filter_map(|(route, path)| Some((route, path.split_once("{*")?.0)));
        // Routes that differ only in their methods share a node, in the order of the file.
        let mut nodes: Vec<(&str, Node)> = Vec::new();
        for (route, pattern) in own.chain(bases) {
            let entry = Entry::new(route, &routes[route]);
            match nodes
                .iter_mut()
                .find(|(other, _)| shape(other) == shape(pattern))
            {
                Some((_, node)) => node.routes.push(entry),
                None => nodes.push((pattern, Node::new(pattern, entry))),
            }
        }
        let mut trees = BTreeMap::<Option<usize>, matchit::Router<Node>>::new();
        for (pattern, mut node) in nodes {
            node.allow = node.allow_value();
            let catch_all_at = node
                .openness
                .iter()
                .position(|&segment| segment == Openness::CatchAll);
            let route = node.routes[0].route;
            let inserted = trees.entry(catch_all_at).or_default().insert(pattern, node);
            inserted.map_err(|error| RouteConflict {
                route,
                reason: error.to_string(),
            })?;
        }
        Ok(Self {
            trees: trees.into_values().collect(),
        })
    }

    fn at<'r, 'p>(&'r self, path: &'p str) -> Option<matchit::Match<'r, 'p, &'r Node>> {
        let matches = self.trees.iter().filter_map(|tree| tree.at(path).ok());
        matches.min_by(|one, other| one.value.openness.cmp(&other.value.openness))
    }

    fn find(&self, path: &str, method: Method, method_name: &[u8]) -> Found<'_> {
        let Some(matched) = self.at(path) else {
            return Found::Nothing;
        };
        let node = matched.value;
        match node
            .routes
            .iter()
            .find(|entry| entry.serves(method, method_name))
        {
            Some(entry) => Found::Route(entry.route),
            None => Found::MethodNotAllowed(&node.allow),
        }
    }
}

impl Node {
    fn new(pattern: &str, entry: Entry) -> Self {
        let openness = |segment: &str| match segment {
            segment if segment.contains("{*") => Openness::CatchAll,
            segment if segment.contains('{') => Openness::Parameter,
            _ => Openness::Static,
        };
        let openness = pattern.split('/').skip(1).map(openness).collect();
        Self {
            openness,
            routes: vec![entry],
            allow: String::new(),
        }
    }

    fn allow_value(&self) -> String {
        let mut methods: Vec<&str> = Vec::new();
        for method in self
            .routes
            .iter()
            .flat_map(|entry| entry.methods.iter().flatten())
        {
            let implied = (method == "GET").then_some("HEAD");
            for method in std::iter::once(method.as_str()).chain(implied) {
                if !methods.contains(&method) {
                    methods.push(method);
                }
            }
        }
        methods.join(", ")
    }
}

impl Entry {
    fn new(index: usize, route: &Route) -> Self {
        let names = route
            .path
            .split('{')
            .skip(1)
            .filter_map(|part| part.split_once('}'));
        let parameters = names
            .map(|(name, _)| name.trim_start_matches('*').to_owned())
            .collect();
        Self {
            route: index,
            methods: route.methods.clone(),
            parameters,
        }
    }

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
