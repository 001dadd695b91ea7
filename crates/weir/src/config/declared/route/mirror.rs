//! `mirror`: who gets copies of the requests of a route.

use weir_gateway::settings::Mirror;

use crate::config::declared::{Key, Kind, List, Needs, Preset, Section, forms};

pub(crate) static MIRROR: Key = Key {
    name: "mirror",
    kind: Kind::Table(&RULE),
    preset: Preset::Said("off"),
    doc: "Another upstream that gets copies of requests, see [Mirror](routing.md#mirror).",
};
pub(crate) static RULE: Section = Section {
    example: "{ upstream = \"shadow\", share = 0.1 }",
    groups: &[&[&UPSTREAM, &SHARE, &METHODS, &BODY, &IN_FLIGHT]],
    needs: Needs::Nothing,
};
pub(crate) static UPSTREAM: Key = Key {
    name: "upstream",
    kind: Kind::Text(&forms::UPSTREAM_NAME),
    preset: Preset::Required("the name of an upstream"),
    doc: "Who gets them: none that the route forwards to.",
};
pub(crate) static SHARE: Key = Key {
    name: "share",
    kind: Kind::Number(0.0001..=1.0),
    preset: Preset::Number(1.0),
    doc: "Of the requests that are forwarded.",
};
pub(crate) static METHODS: Key = Key {
    name: "methods",
    kind: Kind::List(&LIST_OF_METHODS),
    preset: Preset::Toml("[\"GET\", \"HEAD\"]"),
    doc: "Requests of which methods. Name one that changes something only if the other upstream may change it too.",
};
static LIST_OF_METHODS: List = List {
    of: Kind::Text(&forms::METHOD),
    noun: "methods in upper case",
    expected: "methods such as [\"GET\", \"POST\"]",
    is_never_empty: true,
};
pub(crate) static BODY: Key = Key {
    name: "body",
    kind: Kind::Size(0..=16 << 20),
    preset: Preset::Size(Mirror::BODY_BYTES),
    doc: "A request with a larger body is not copied.",
};
pub(crate) static IN_FLIGHT: Key = Key {
    name: "in_flight",
    kind: Kind::Integer(1..=100_000),
    preset: Preset::Integer(Mirror::IN_FLIGHT as u64),
    doc: "Copies under way at once, of all workers. Beyond that, requests are not copied.",
};
