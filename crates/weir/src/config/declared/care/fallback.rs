//! `fallback`: what a client gets whose request was refused or failed.

use weir_gateway::settings::FallbackOn;

use crate::config::declared::route::ANSWER_STATUSES;
use crate::config::declared::{Key, Kind, Needs, Preset, Section, forms, words};

pub(crate) static FALLBACK: Key = Key {
    name: "fallback",
    kind: Kind::Table(&RULE),
    preset: Preset::Said("off"),
    doc: "What a client gets whose request was refused or failed, see [fallback](refusing.md#fallback).",
};
pub(crate) static RULE: Section = Section {
    example: "{ status = 503, body = \"busy\" }",
    groups: &[&[
        &ON,
        &STALE,
        &UPSTREAM,
        &STATUS,
        &CONTENT_TYPE,
        &BODY,
        &JSON,
        &FILE,
    ]],
    needs: Needs::AnyOf(&[&STALE, &UPSTREAM, &STATUS, &BODY, &JSON, &FILE]),
};
pub(crate) static ON: Key = Key {
    name: "on",
    kind: Kind::Words(&words::<_, 3>(CASES)),
    preset: Preset::Text("any"),
    doc: "Which requests get it: all of them, those that were not sent on because a breaker is open or there is no place, or the others.",
};
pub(crate) const CASES: &[(&str, FallbackOn)] = &[
    ("any", FallbackOn::Any),
    ("refused", FallbackOn::Refused),
    ("failed", FallbackOn::Failed),
];
pub(crate) static STALE: Key = Key {
    name: "stale",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "A stored response, however stale. Needs a `cache` on the route.",
};
pub(crate) static UPSTREAM: Key = Key {
    name: "upstream",
    kind: Kind::Text(&forms::UPSTREAM_NAME),
    preset: Preset::Said("none"),
    doc: "What another upstream answers, if the request is whole here, and no endpoint has seen it or it may be repeated. That one's own `concurrency`, `ejection` and `breaker` hold.",
};
pub(crate) static STATUS: Key = Key {
    name: "status",
    kind: ANSWER_STATUSES,
    preset: Preset::Said("503 if there is a body"),
    doc: "The status of a fixed answer.",
};
pub(crate) static CONTENT_TYPE: Key = Key {
    name: "content_type",
    kind: Kind::Text(&forms::MEDIA_TYPE),
    preset: Preset::Said(
        "`text/plain; charset=utf-8` for a `body`, `application/json` for `json`, for a `file` by `.html`, `.json` or `.txt`",
    ),
    doc: "The type of its body. A file with another name needs it.",
};
pub(crate) static BODY: Key = Key {
    name: "body",
    kind: Kind::Text(&forms::STRING),
    preset: Preset::Said("empty"),
    doc: "Its body. One of `body`, `json` and `file`.",
};
pub(crate) static JSON: Key = Key {
    name: "json",
    kind: Kind::Json("a table or a list such as `{ error = \"busy\" }`"),
    preset: Preset::Said("none"),
    doc: "Its body, written as JSON.",
};
pub(crate) static FILE: Key = Key {
    name: "file",
    kind: Kind::Text(&forms::ANSWER_FILE),
    preset: Preset::Said("none"),
    doc: "Its body is in this file beside the config, of up to 1 MiB. It is read with the configuration, at the start and in a reload.",
};
