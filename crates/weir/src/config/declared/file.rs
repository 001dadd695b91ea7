//! The sections of a file.

use super::route::error_pages::ERROR_PAGES;
use super::{Key, Kind, List, Named, Needs, Preset, Section};
use super::{cache, clients, forms, kv, log, queue, route, server, table, upstream};

/// The file, whose keys are its sections.
pub(crate) static FILE: Section = Section {
    example: "[server]",
    groups: &[&[
        &SERVER,
        &LISTENER,
        &ADMIN,
        &LOG,
        &ACCESS_LOG,
        &REQUEST_ID,
        &RESPONSE_HEADERS,
        &LIMITS,
        &TRUSTED_PROXIES,
        &TIMEOUTS,
        &CACHE,
        &DNS,
        &ERROR_PAGES,
        &UPSTREAM,
        &QUEUE,
        &KV,
        &TABLE,
        &ROUTE,
        &INCLUDE,
    ]],
    // With guard's interface all routes may be posted.
    needs: Needs::AnyOf(&[&ROUTE, &ADMIN]),
};

pub(crate) static SERVER: Key = Key {
    name: "server",
    kind: Kind::Table(&server::SERVER),
    preset: Preset::Toml("{}"),
    doc: "The process.",
};
pub(crate) static LISTENER: Key = Key {
    name: "listener",
    kind: Kind::Tables(
        &server::LISTENER,
        r#"add `[[listener]]` and below it `address = "127.0.0.1:8080"`"#,
    ),
    preset: Preset::Required("at least one"),
    doc: "Where clients connect. At least one.",
};
pub(crate) static ADMIN: Key = Key {
    name: "admin",
    kind: Kind::Table(&server::ADMIN),
    preset: Preset::Said("none"),
    doc: "The admin listener. Without this section there is none.",
};
pub(crate) static LOG: Key = Key {
    name: "log",
    kind: Kind::Table(&server::LOG),
    preset: Preset::Toml("{}"),
    doc: "The messages on standard error.",
};
pub(crate) static ACCESS_LOG: Key = Key {
    name: "access_log",
    kind: Kind::Table(&log::ACCESS_LOG),
    preset: Preset::Said("none"),
    doc: "The access log. Without this section nothing is logged.",
};
pub(crate) static REQUEST_ID: Key = Key {
    name: "request_id",
    kind: Kind::Table(&log::REQUEST_ID),
    preset: Preset::Said("none"),
    doc: "By what each request is known, here and behind, see [request ids](observing.md#request-ids). Without this section no field is added.",
};
pub(crate) static RESPONSE_HEADERS: Key = Key {
    name: "response_headers",
    kind: Kind::Table(&route::ANSWER_EDITS),
    preset: Preset::Toml("{}"),
    doc: "Changes to the answers of all routes, as in a [route](routing.md#response-headers). What a route says of a field goes before. `always` holds for requests without a route too.",
};
pub(crate) static LIMITS: Key = Key {
    name: "limits",
    kind: Kind::Table(&clients::LIMITS),
    preset: Preset::Toml("{}"),
    doc: "What clients may take. The defaults are meant for a listener on the open internet.",
};
pub(crate) static TRUSTED_PROXIES: Key = Key {
    name: "trusted_proxies",
    kind: Kind::Table(&clients::TRUSTED_PROXIES),
    preset: Preset::Said("none"),
    doc: "Balancers and proxies in front of weir, whose word for the client is taken.",
};
pub(crate) static TIMEOUTS: Key = Key {
    name: "timeouts",
    kind: Kind::Table(&clients::TIMEOUTS),
    preset: Preset::Toml("{}"),
    doc: "Deadlines on clients.",
};
pub(crate) static CACHE: Key = Key {
    name: "cache",
    kind: Kind::Table(&cache::STORAGE),
    preset: Preset::Said("256 MiB of RAM, when a route has a `cache`"),
    doc: "Where routes with `cache` keep what they store.",
};
pub(crate) static DNS: Key = Key {
    name: "dns",
    kind: Kind::Table(&server::DNS),
    preset: Preset::Said("those of `/etc/resolv.conf`"),
    doc: "Who is asked for the addresses of names.",
};
pub(crate) static UPSTREAM: Key = Key {
    name: "upstream",
    kind: Kind::Named(&UPSTREAMS),
    preset: Preset::Said("none"),
    doc: "Groups of equivalent servers, by name.",
};
static UPSTREAMS: Named = Named {
    example: "[upstream.app]",
    names: "^[0-9A-Za-z._-]+$",
    values: Kind::Table(&upstream::UPSTREAM),
};
pub(crate) static QUEUE: Key = Key {
    name: "queue",
    kind: Kind::Named(&queue::QUEUES),
    preset: Preset::Said("none"),
    doc: "Where deferred requests wait, by name.",
};
pub(crate) static KV: Key = Key {
    name: "kv",
    kind: Kind::Table(&kv::STORE),
    preset: Preset::Said("none"),
    doc: "The key-value store of routes with `kv`.",
};
pub(crate) static TABLE: Key = Key {
    name: "table",
    kind: Kind::Named(&table::TABLES),
    preset: Preset::Said("none"),
    doc: "Tables of the events of users, by name.",
};
pub(crate) static ROUTE: Key = Key {
    name: "route",
    kind: Kind::Tables(
        &route::ROUTE,
        r#"add `[[route]]` and below it `path = "/{*rest}"` and `upstream = "NAME"`"#,
    ),
    preset: Preset::Required("at least one"),
    doc: "What is done with which requests. At least one, but with `admin.guard_api`.",
};
pub(crate) static INCLUDE: Key = Key {
    name: "include",
    kind: Kind::AnyOf(
        "a path such as \"conf.d/*.toml\", or a list of such paths",
        &[Kind::Text(&forms::INCLUDED), Kind::List(&INCLUDED)],
    ),
    preset: Preset::Said("none"),
    doc: "Other files that belong to this one, see [including](config.md#including).",
};
static INCLUDED: List = List {
    of: Kind::Text(&forms::INCLUDED),
    noun: "such paths",
    expected: "paths",
    is_never_empty: false,
};
