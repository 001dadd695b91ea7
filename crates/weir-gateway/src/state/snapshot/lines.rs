//! What every answer of a route says, whoever has made it: lines of a head.

use weir_http::forward::write_field;

use crate::settings::{Origins, Route};

/// The lines for the answers of `route`.
pub(super) fn of(route: &Route) -> Box<[u8]> {
    let mut lines = Vec::new();
    let cors = route.cors.as_deref();
    if cors.is_some_and(|cors| cors.origins != Origins::Any) {
        write_field(&mut lines, b"Vary", b"Origin");
    }
    lines.into()
}
