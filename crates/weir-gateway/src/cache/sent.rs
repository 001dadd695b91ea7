//! The fields of a request as its origin is sent them. By those it chooses among the variants of a response, and not by what
//! the client sent: an address in `X-Forwarded-For`, a field that the route sets or removes.
//!
//! Most fields are passed on as they come, and then the client's head is looked at. Only for the others is the head made that
//! the origin is sent, by what makes it when the request is forwarded; once for each request, into memory that the next one
//! uses again.

use weir_http::{Fields, forward};

use crate::exchange::Exchange;
use crate::serving::Cached;
use crate::upstream::relay;

/// Whether the origin is sent one of the fields `names` otherwise than its client sent it.
pub(super) fn differs<'n>(on: Cached<'_>, mut names: impl Iterator<Item = &'n [u8]>) -> bool {
    let edits = on.asks.drops();
    names.any(|name| !forward::passes_as_sent(name) || edits.drops(name))
}

/// Makes the head that the origin is sent, where it `differs` and has not been made.
pub(super) fn prepare(x: &mut Exchange, on: Cached<'_>, differs: bool) {
    if !differs || !x.recall.sent.head.is_empty() {
        return;
    }
    let Some(client) = x.recall.sent.client else {
        return;
    };
    relay::fill(x, on.by);
    let mut sent = std::mem::take(&mut x.recall.sent);
    // The client's own conditions are no part of what a variant is chosen by.
    let path = relay::asked_path(x, on.by);
    let rewrite = relay::rewrite(x, on.by, (&path, client.as_bytes()), Some(b""));
    forward::write_request(&x.request, &x.head, &rewrite, &mut sent.head);
    Fields::scan(&sent.head, &mut sent.table);
    x.recall.sent = sent;
}

/// The fields to choose a variant by: those that the origin is sent, once they are made, where it `differs`.
pub(super) fn fields(x: &Exchange, differs: bool) -> Fields<'_> {
    let sent = &x.recall.sent;
    if differs && !sent.head.is_empty() {
        Fields::new(&sent.head, &sent.table)
    } else {
        x.request.view(&x.head)
    }
}
