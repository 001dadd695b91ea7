//! Pages for errors: in the place of weir's own words, and of what an upstream sends where the route says so.
//!
//! The status stays what it is, and so does all that a client goes by: `Allow`, `Retry-After`, `WWW-Authenticate`. A page is
//! never stored, neither here nor behind: what is stored is what the origin said.

use weir_http::Fields;
use weir_http::forward::write_field;

use crate::connection::After;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::respond;
use crate::serving::Serving;
use crate::settings::ErrorPage;
use crate::state::view::View;

const KEPT: [&[u8]; 3] = [b"allow", b"retry-after", b"www-authenticate"];

/// The page for an error of our own: that of the route, else that of the server.
pub(crate) fn of_failure<'v>(x: &Exchange, view: &'v View, status: u16) -> Option<&'v ErrorPage> {
    let snapshot = &view.snapshot;
    let route = x.facts.route.map(|route| &snapshot.routes[route].settings);
    let own = route.and_then(|route| route.error_pages.of(status));
    own.or_else(|| snapshot.error_pages.of(status))
}

/// The page that takes the place of what an upstream has sent with `status`. Routes have none unless one of their pages says
/// that it does.
pub(crate) fn of_upstream(at: Serving<'_>, status: u16) -> Option<&ErrorPage> {
    if status < 400 {
        return None;
    }
    let own = at.route.settings.error_pages.of(status);
    let page = own.or_else(|| at.view.snapshot.error_pages.of(status));
    page.filter(|page| page.replaces_upstream)
}

/// The lines of an error that hold for the page in its place too: they say when and how to come back.
pub(crate) fn kept_lines(fields: Fields<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (_, name, value) in fields.iter() {
        let is_name = |kept: &&[u8]| name.eq_ignore_ascii_case(kept);
        if KEPT.iter().any(is_name) {
            write_field(&mut lines, name, value);
        }
    }
    lines
}

/// Sends a page; `lines` of the head that it replaces still hold.
pub(crate) async fn send(
    x: &mut Exchange,
    at: Serving<'_>,
    (status, page): (u16, &ErrorPage),
    lines: &[u8],
) -> Result<After, Failure> {
    let after = respond::begin(x, at.worker, status);
    // Fields for what the route is there for would let others keep an error.
    x.outgoing.is_instead = true;
    let out = &mut x.outgoing.bytes;
    out.extend_from_slice(lines);
    write_field(out, b"Cache-Control", b"no-store");
    write_field(out, b"Content-Type", page.content_type.as_bytes());
    respond::finish(x, at.answering(), (status, after), &page.body).await?;
    Ok(after)
}
