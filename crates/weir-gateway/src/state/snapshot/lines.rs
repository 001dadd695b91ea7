//! What every answer of a route says, whoever has made it: lines of a head.

use weir_http::forward::write_field;

use crate::router::chosen_by;
use crate::settings::{Origins, Route};

/// The lines for the answers of `route`, which is one of `routes`.
pub(super) fn of(route: &Route, routes: &[Route]) -> Box<[u8]> {
    let mut lines = Vec::new();
    let mut names = chosen_by(route, routes);
    let cors = route.cors.as_deref();
    if cors.is_some_and(|cors| cors.origins != Origins::Any) {
        names.push("Origin");
    }
    if !names.is_empty() {
        write_field(&mut lines, b"Vary", names.join(", ").as_bytes());
    }
    lines.into()
}
