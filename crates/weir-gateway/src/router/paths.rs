//! The paths of one host: which routes of a path are there for a request, and which one takes it.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_http::Method;

use crate::router::pattern::{Openness, Pattern};
use crate::router::{Found, RouteConflict, RouteKey, shape};
use crate::settings::{Conditions, Route};

/// The paths of one host.
///
/// The radix tree refuses a parameter and a catch-all at the same position, although the length of a path can tell them
/// apart. So each position of a catch-all has a tree of its own, and the most specific match of all trees counts.
#[derive(Debug, Default)]
pub(super) struct Paths {
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
    pub(super) fn new(routes: &[Route], indexes: &[usize]) -> Result<Self, RouteConflict> {
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

    pub(super) fn find(&self, asked: &RouteKey<'_>) -> Found<'_> {
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

    /// See [`super::Router::may_take`]; `None` when a less specific host may serve it too.
    pub(super) fn may_take(
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

    /// Adds to `names` as [`super::Router::chosen_by`] says, along the way that [`Paths::find`] takes; `None` when less specific hosts have a
    /// say too.
    pub(super) fn chosen_by<'r>(
        &'r self,
        asked: &RouteKey<'_>,
        names: &mut BTreeSet<&'r str>,
    ) -> Option<()> {
        // Then less specific hosts are asked, too.
        let mut may_be_refused = false;
        for node in self.at(asked.path) {
            // The query is of the URL: what it rules out is out for every request that a cache takes for the same.
            let entries = node.routes.iter();
            let entries = entries.filter(|entry| entry.conditions.query_holds(asked.query));
            let (serving, others): (Vec<&Entry>, Vec<&Entry>) =
                entries.partition(|entry| entry.serves(asked.method, asked.method_name));
            for entry in serving {
                if entry.conditions.headers.is_empty() {
                    return (!may_be_refused).then_some(());
                }
                names.extend(entry.fields());
            }
            // Whichever of the others is there makes it a 405, with its methods in `Allow`.
            names.extend(others.iter().flat_map(|entry| entry.fields()));
            if others
                .iter()
                .any(|entry| entry.conditions.headers.is_empty())
            {
                return None;
            }
            may_be_refused |= !others.is_empty();
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
    /// The fields that it wants something of.
    fn fields(&self) -> impl Iterator<Item = &str> {
        self.conditions.headers.iter().map(|(name, _)| &**name)
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
