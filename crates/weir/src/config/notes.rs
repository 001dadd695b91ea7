//! What in a sound file is most likely not what was meant: told, and taken as it stands.

use weir_gateway::settings::{HostPattern, Route, Settings};

/// What to tell of the settings, each in a sentence.
pub(crate) fn of(settings: &Settings) -> Vec<String> {
    let routes = &settings.routes;
    let lone = routes
        .iter()
        .filter(|route| is_taken_for_prefix(route, routes));
    lone.map(|route| {
        let Route { name, path, .. } = route;
        format!(
            "the route {name:?} serves the path {path:?} alone, and nothing below it; for both write path = \"{path}{{*rest}}\""
        )
    })
    .collect()
}

/// Whether a path ends with a slash, which is a prefix to nginx, and nothing serves what is below it by name.
fn is_taken_for_prefix(route: &Route, routes: &[Route]) -> bool {
    let is_below = |other: &Route| {
        let has_host = other.host == route.host || other.host == HostPattern::Any;
        has_host && other.path.len() > route.path.len() && other.path.starts_with(&route.path)
    };
    route.path.ends_with('/') && !routes.iter().any(is_below)
}
