//! `split`: the upstreams that share the requests of a route; and `sticky`, by what a client stays with one of them.

use crate::config::declared::upstream::{HASH_ON_EXPECTED, PART_PATTERN};
use crate::config::declared::{Form, Key, Kind, Named, Needs, Preset, Section, cookie};

pub(crate) static SPLIT: Key = Key {
    name: "split",
    kind: Kind::Named(&SHARES),
    preset: Preset::Said(""),
    doc: "Whom to forward to, by shares, see [Split](routing.md#split).",
};
/// The most upstreams of one split.
pub(crate) const SIDES_MAX: usize = 16;
static SHARES: Named = Named {
    example: "{ stable = 95, next = 5 }",
    names: "^[0-9A-Za-z._-]+$",
    values: Kind::Number(0.0..=1_000_000.0),
};

pub(crate) static STICKY: Key = Key {
    name: "sticky",
    kind: Kind::Table(&RULE),
    preset: Preset::Said("each request is drawn anew"),
    doc: "Who stays with an upstream of the `split`, see [Split](routing.md#split).",
};
pub(crate) static RULE: Section = Section {
    example: "{ cookie = \"version\" }",
    groups: &[&[
        &HASH_ON,
        &COOKIE,
        &cookie::MAX_AGE,
        &cookie::DOMAIN,
        &cookie::SAME_SITE,
    ]],
    needs: Needs::OneOf(&[&COOKIE, &HASH_ON]),
};
pub(crate) static HASH_ON: Key = Key {
    name: "hash_on",
    kind: Kind::Text(&PART),
    preset: Preset::Said(""),
    doc: "All requests with the same part go to the same upstream, and those without it are drawn one by one.",
};
static PART: Form = Form {
    noun: "part of a request, as in [`hash_on`](upstreams.md#upstreamname) of an upstream",
    expected: HASH_ON_EXPECTED,
    pattern: Some(PART_PATTERN),
};
pub(crate) static COOKIE: Key = Key {
    name: "cookie",
    kind: Kind::Text(&crate::config::declared::forms::NAME),
    preset: Preset::Said(""),
    doc: "A client is given a number in this cookie, which says where it belongs. Nobody else uses the name: weir takes it out of requests.",
};
