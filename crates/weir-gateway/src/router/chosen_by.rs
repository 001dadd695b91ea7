//! By what of a request its route is chosen, for caches behind that must tell such requests apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::router::pattern::Pattern;
use crate::router::shape;
use crate::settings::Route;

/// The fields of requests by which a route is chosen and not another one: what a cache behind has to know of its answers
/// (RFC 9110 §12.5.5).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChosenBy<'r> {
    /// For all of its requests.
    pub(crate) all: Vec<&'r str>,
    /// For those that one of these routes may take as well ([`Router::may_take`]).
    pub(crate) some: BTreeMap<&'r str, Vec<usize>>,
}

impl<'r> ChosenBy<'r> {
    /// Those of `route`, which is one of `routes`.
    pub(crate) fn of(route: &Route, routes: &'r [Route]) -> Self {
        let pattern = Pattern::new(&route.path);
        let rivals = routes.iter().enumerate().filter(|(_, other)| {
            other.host.overlaps(&route.host) && Pattern::new(&other.path).overlaps(&pattern)
        });
        let mut all = BTreeSet::new();
        let mut some: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, other) in rivals {
            let serves_all = other.host == route.host
                && shape(&other.path) == shape(&route.path)
                && (other.methods.is_none() || other.methods == route.methods);
            for (name, _) in &other.conditions.headers {
                if serves_all {
                    all.insert(name.as_str());
                } else {
                    some.entry(name).or_default().push(index);
                }
            }
        }
        some.retain(|name, _| !all.contains(name));
        Self {
            all: all.into_iter().collect(),
            some,
        }
    }
}
