//! `cors`: which pages of other origins may read what a route answers.

use std::time::Duration;

use crate::config::declared::{Form, Key, Kind, List, Needs, Preset, Section, forms};

pub(crate) static CORS: Key = Key {
    name: "cors",
    kind: Kind::Table(&RULE),
    preset: Preset::Said("off"),
    doc: "Which pages of other origins may read the answers, see [CORS](routing.md#cors).",
};
pub(crate) static RULE: Section = Section {
    example: "{ origins = [\"https://app.example.com\"] }",
    groups: &[&[
        &ORIGINS,
        &METHODS,
        &HEADERS,
        &EXPOSE,
        &CREDENTIALS,
        &MAX_AGE,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static ORIGINS: Key = Key {
    name: "origins",
    kind: Kind::List(&LIST_OF_ORIGINS),
    preset: Preset::Required("a list of origins such as [\"https://app.example.com\"]"),
    doc: "Whose pages: scheme, host and port as a browser sends them. `\"https://*.example.com\"` is every name below `example.com`, `\"*\"` every page there is.",
};
pub(crate) static ORIGIN: Form = Form {
    noun: "origin",
    expected: ORIGIN_EXPECTED,
    pattern: Some("^(\\*|[a-z][a-z0-9+.-]*://[^/]+)$"),
};
/// What an origin looks like.
pub(crate) const ORIGIN_EXPECTED: &str =
    r#"an origin such as "https://app.example.com" or "https://*.example.com""#;
static LIST_OF_ORIGINS: List = List {
    of: Kind::Text(&ORIGIN),
    noun: "origins",
    expected: "origins such as [\"https://app.example.com\"]",
    is_never_empty: true,
};
pub(crate) static METHODS: Key = Key {
    name: "methods",
    kind: Kind::List(&LIST_OF_METHODS),
    preset: Preset::Said(
        "those of the route, else `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`",
    ),
    doc: "Methods that they may use. `[\"*\"]` is any, without `credentials`.",
};
static LIST_OF_METHODS: List = List {
    of: Kind::Text(&forms::METHOD),
    noun: "methods in upper case",
    expected: "methods such as [\"GET\", \"PUT\"]",
    is_never_empty: true,
};
pub(crate) static HEADERS: Key = Key {
    name: "headers",
    kind: Kind::List(&FIELDS),
    preset: Preset::Toml("[\"Content-Type\"]"),
    doc: "Fields that they may send. `[\"*\"]` is any but `Authorization`, without `credentials`.",
};
pub(crate) static EXPOSE: Key = Key {
    name: "expose",
    kind: Kind::List(&FIELDS),
    preset: Preset::Toml("[]"),
    doc: "Fields of answers that they may read, beyond those that every page may. `[\"*\"]` is any, without `credentials`.",
};
static FIELDS: List = List {
    of: Kind::Text(&forms::FIELD_NAME),
    noun: "names of fields",
    expected: "field names",
    is_never_empty: false,
};
pub(crate) static CREDENTIALS: Key = Key {
    name: "credentials",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "Whether they may send cookies and other credentials, and read what is answered to those. Not with `\"*\"` anywhere.",
};
pub(crate) static MAX_AGE: Key = Key {
    name: "max_age",
    kind: Kind::Duration(Duration::ZERO..=Duration::from_secs(24 * 3600)),
    preset: Preset::Duration(Duration::from_secs(600)),
    doc: "For how long a browser may remember that it may ask. Browsers have bounds of their own.",
};
