//! `headers` and `query`: what a route wants of a request besides host, path and method.

use crate::config::declared::{Key, Kind, Named, Preset, forms};

pub(crate) static HEADERS_WANTED: Key = Key {
    name: "headers",
    kind: Kind::Named(&FIELDS_WANTED),
    preset: Preset::Toml("{}"),
    doc: "What fields of the request must be, as in `{ X-Beta = \"1\" }`, see [Conditions](routing.md#routing).",
};
pub(crate) static QUERY_WANTED: Key = Key {
    name: "query",
    kind: Kind::Named(&PARAMETERS_WANTED),
    preset: Preset::Toml("{}"),
    doc: "What parameters of the query must be, as in `{ debug = true }`.",
};
static FIELDS_WANTED: Named = Named {
    example: "{ X-Beta = \"1\" }",
    names: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    values: WANTED,
};
static PARAMETERS_WANTED: Named = Named {
    example: "{ debug = true }",
    names: "",
    values: WANTED,
};
const WANTED: Kind = Kind::AnyOf(
    "a value such as \"1\", or true for any, or false for none",
    &[Kind::Boolean, Kind::Text(&forms::STRING)],
);
