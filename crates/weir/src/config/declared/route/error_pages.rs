//! `error_pages`: what a client reads with an error, of a route and of the file.

use crate::config::declared::care::fallback::{BODY, CONTENT_TYPE, FILE, JSON};
use crate::config::declared::{Key, Kind, Named, Needs, Preset, Section};

pub(crate) static ERROR_PAGES: Key = Key {
    name: "error_pages",
    kind: Kind::Named(&PAGES),
    preset: Preset::Toml("{}"),
    doc: "What a client reads with an error, by status, see [error pages](routing.md#error_pages). Those of the file come after those of the route.",
};
static PAGES: Named = Named {
    example: "{ 404 = { file = \"404.html\" } }",
    names: "^[45]([0-9][0-9]|xx)$",
    values: Kind::Table(&PAGE),
};
pub(crate) static PAGE: Section = Section {
    example: "{ file = \"404.html\" }",
    groups: &[&[&BODY, &JSON, &FILE, &CONTENT_TYPE, &UPSTREAM_TOO]],
    needs: Needs::OneOf(&[&BODY, &JSON, &FILE]),
};
pub(crate) static UPSTREAM_TOO: Key = Key {
    name: "replace_upstream",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "Whether it also takes the place of what the upstream sends with such a status.",
};
