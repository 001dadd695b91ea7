//! `[[route]]`: which requests, and what is done with them. What spares the upstream is declared in [`super::care`].

pub(crate) mod conditions;
pub(crate) mod cors;
pub(crate) mod error_pages;
pub(crate) mod mirror;
pub(crate) mod rewrite;
pub(crate) mod split;

use std::time::Duration;

use weir_gateway::settings::Forward;

use super::clients::BODY_BYTES;
use super::{Key, Kind, List, Named, Needs, Preset, Section, forms};
use super::{cache, care, compress, kv, queue, table};
use crate::config::pattern::{LOCATION_EXPECTED, PATH_EXPECTED};

pub(crate) static ROUTE: Section = Section {
    example: "[[route]]",
    groups: &[OF_ANY, FORWARD, care::OF_ROUTE],
    needs: Needs::OneOf(ACTIONS),
};
/// What every route may have.
pub(crate) const OF_ANY: &[&Key] = &[
    &NAME,
    &PATH,
    &HOST,
    &METHODS,
    &conditions::HEADERS_WANTED,
    &conditions::QUERY_WANTED,
    &cors::CORS,
    &error_pages::ERROR_PAGES,
    &care::rate::RATE,
    &BODY_LIMIT,
    &RESPONSE_HEADERS,
    &queue::DEFER,
    &UPSTREAM,
    &split::SPLIT,
    &REDIRECT,
    &kv::KV,
    &table::COLLECT,
    &RESPOND,
];
/// What a route does: exactly one of these.
pub(crate) const ACTIONS: &[&Key] = &[
    &UPSTREAM,
    &split::SPLIT,
    &REDIRECT,
    &RESPOND,
    &kv::KV,
    &table::COLLECT,
];
/// What a route may have that forwards, besides [`care::OF_ROUTE`].
pub(crate) const FORWARD: &[&Key] = &[
    &split::STICKY,
    &mirror::MIRROR,
    &STRIP_PREFIX,
    &rewrite::REWRITE,
    &REQUEST_HEADERS,
    &TIMEOUT,
    &REQUEST_BUFFER,
    &RESPONSE_BUFFER,
    &CACHE,
    &COMPRESS,
    &UPGRADE,
];

/// What has no meaning for requests that are delivered later: nobody waits for the answer.
pub(crate) const NOT_DEFERRED: &[&Key] = &[
    &split::STICKY,
    &mirror::MIRROR,
    &REQUEST_BUFFER,
    &RESPONSE_BUFFER,
    &CACHE,
    &COMPRESS,
    &UPGRADE,
    &care::PRIORITY,
    &care::retry::HEDGE,
    &care::fallback::FALLBACK,
];

pub(crate) static NAME: Key = Key {
    name: "name",
    kind: Kind::Text(&forms::ROUTE_NAME),
    preset: Preset::Said("host and path"),
    doc: "The label in metrics and logs.",
};
pub(crate) static PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&forms::PATH),
    preset: Preset::Required(PATH_EXPECTED),
    doc: "`{name}` stands for one segment, `{*rest}` for all that follow.",
};
pub(crate) static HOST: Key = Key {
    name: "host",
    kind: Kind::Text(&forms::HOST),
    preset: Preset::Said("any host"),
    doc: "Whom the request is for.",
};
pub(crate) static METHODS: Key = Key {
    name: "methods",
    kind: Kind::List(&LIST_OF_METHODS),
    preset: Preset::Said("any method"),
    doc: "GET brings HEAD along.",
};
static LIST_OF_METHODS: List = List {
    of: Kind::Text(&forms::METHOD),
    noun: "methods in upper case",
    expected: "methods such as [\"GET\", \"HEAD\"]",
    is_never_empty: true,
};
pub(crate) static BODY_LIMIT: Key = Key {
    name: "body_limit",
    kind: BODY_BYTES,
    preset: Preset::Said("`limits.body`"),
    doc: "Bytes of a request body. More is 413; `\"0\"` allows none.",
};
pub(crate) static UPSTREAM: Key = Key {
    name: "upstream",
    kind: Kind::Text(&forms::UPSTREAM_NAME),
    preset: Preset::Said(""),
    doc: "Whom to forward to.",
};
pub(crate) static REDIRECT: Key = Key {
    name: "redirect",
    kind: Kind::Table(&REDIRECTION),
    preset: Preset::Said(""),
    doc: "Where to send the client, see below.",
};
pub(crate) static RESPOND: Key = Key {
    name: "respond",
    kind: Kind::Table(&ANSWER),
    preset: Preset::Said(""),
    doc: "A fixed answer, see below.",
};

pub(crate) static STRIP_PREFIX: Key = Key {
    name: "strip_prefix",
    kind: Kind::Text(&forms::PATH_PREFIX),
    preset: Preset::Said("none"),
    doc: "Whole leading segments of `path`, cut off before forwarding, see [Normal form](routing.md#routing). What remains begins with `/`.",
};
pub(crate) static REQUEST_HEADERS: Key = Key {
    name: "request_headers",
    kind: Kind::Table(&EDITS),
    preset: Preset::Toml("{}"),
    doc: "`{ set = { NAME = \"value\" }, add = { NAME = \"value\" }, remove = [\"NAME\"] }`: changes to the forwarded request, after weir's own. Values may have [variables](observing.md#variables).",
};
pub(crate) static RESPONSE_HEADERS: Key = Key {
    name: "response_headers",
    kind: Kind::Table(&ANSWER_EDITS),
    preset: Preset::Toml("{}"),
    doc: "The same for what the route answers, after weir's own, and `always` for what is answered in its place, see [below](routing.md#response-headers).",
};
pub(crate) static TIMEOUT: Key = Key {
    name: "timeout",
    kind: Kind::Table(&TIMEOUTS),
    preset: Preset::Toml("{}"),
    doc: "Deadlines on the upstream, see below.",
};
/// Bodies held for slow clients. More than this is not for memory.
const BUFFER: Kind = Kind::Size(0..=64 << 20);
pub(crate) static REQUEST_BUFFER: Key = Key {
    name: "request_buffer",
    kind: BUFFER,
    preset: Preset::Size(Forward::REQUEST_BUFFER),
    doc: "Bytes of a request body that are collected before an upstream with a limit or a breaker is asked, see [slow clients](refusing.md#slow-clients).",
};
pub(crate) static RESPONSE_BUFFER: Key = Key {
    name: "response_buffer",
    kind: BUFFER,
    preset: Preset::Size(Forward::RESPONSE_BUFFER),
    doc: "Bytes of a response that are read ahead of its client from an upstream with a limit.",
};
pub(crate) static CACHE: Key = Key {
    name: "cache",
    kind: cache::OF_ROUTE,
    preset: Preset::Boolean(false),
    doc: "What is remembered, see below.",
};
pub(crate) static COMPRESS: Key = Key {
    name: "compress",
    kind: compress::OF_ROUTE,
    preset: Preset::Boolean(false),
    doc: "What is sent compressed to clients that take it, see [compress](cache.md#compress).",
};
pub(crate) static UPGRADE: Key = Key {
    name: "upgrade",
    kind: Kind::List(&PROTOCOLS),
    preset: Preset::Toml("[\"websocket\"]"),
    doc: "What clients may upgrade to. `[]` allows nothing; `\"h2c\"` is refused.",
};
static PROTOCOLS: List = List {
    of: Kind::Text(&forms::PROTOCOL),
    noun: "protocols",
    expected: "protocols such as [\"websocket\"]",
    is_never_empty: false,
};

pub(crate) static TIMEOUTS: Section = Section {
    example: "{ response = \"30s\" }",
    groups: &[&[&CONNECT, &RESPONSE, &IDLE]],
    needs: Needs::Nothing,
};
pub(crate) static CONNECT: Key = Key {
    name: "connect",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_millis(1500)),
    doc: "Until a connection to a server stands. Late: the next server, or 504. A server whose queue of connections is full lets the first attempt drop; the system repeats it after 1 s.",
};
pub(crate) static RESPONSE: Key = Key {
    name: "response",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(30)),
    doc: "From the end of the request to the end of the response head; an interim response starts it again. Late: 504.",
};
pub(crate) static IDLE: Key = Key {
    name: "idle",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(30)),
    doc: "Between two reads of the response body, or two writes of the request. Late: 504, or the response is broken off when it has begun. A stream of events has the longer of this and `timeouts.tunnel`.",
};

pub(crate) static EDITS: Section = Section {
    example: "{ set = { x-a = \"1\" }, remove = [\"x-b\"] }",
    groups: &[CHANGES],
    needs: Needs::Nothing,
};
/// What may be changed of any message.
const CHANGES: &[&Key] = &[&SET, &ADD, &REMOVE];
pub(crate) static ANSWER_EDITS: Section = Section {
    example: "{ set = { x-a = \"1\" }, always = { x-b = \"2\" } }",
    groups: &[CHANGES, &[&ALWAYS]],
    needs: Needs::Nothing,
};
/// Fields and their values.
static FIELDS: Named = Named {
    example: "{ x-a = \"1\" }",
    names: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    values: Kind::Text(&forms::STRING),
};
pub(crate) static SET: Key = Key {
    name: "set",
    kind: Kind::Named(&FIELDS),
    preset: Preset::Toml("{}"),
    doc: "Fields and their values. Each takes the place of all fields of that name.",
};
pub(crate) static ADD: Key = Key {
    name: "add",
    kind: Kind::Named(&FIELDS),
    preset: Preset::Toml("{}"),
    doc: "Fields and their values. Each is added behind those of that name.",
};
pub(crate) static ALWAYS: Key = Key {
    name: "always",
    kind: Kind::Named(&FIELDS),
    preset: Preset::Toml("{}"),
    doc: "Like `set`, and also on errors, refusals and fixed fallbacks. Only for responses.",
};
pub(crate) static REMOVE: Key = Key {
    name: "remove",
    kind: Kind::List(&REMOVED),
    preset: Preset::Toml("[]"),
    doc: "Fields that are left out.",
};
static REMOVED: List = List {
    of: Kind::Text(&forms::FIELD_NAME),
    noun: "names of fields",
    expected: "field names",
    is_never_empty: false,
};

pub(crate) static REDIRECTION: Section = Section {
    example: "{ to = \"/new\" }",
    groups: &[&[&TO, &REDIRECT_STATUS]],
    needs: Needs::Nothing,
};
pub(crate) static TO: Key = Key {
    name: "to",
    kind: Kind::Text(&forms::LOCATION),
    preset: Preset::Required(LOCATION_EXPECTED),
    doc: "The `Location`. `{name}` stands for a parameter of the route's path, and `{host}`, `{path}` and `{scheme}` for those of the request, as in `https://{host}{path}`. The request's query is appended unless `to` has one.",
};
pub(crate) static REDIRECT_STATUS: Key = Key {
    name: "status",
    kind: Kind::Integers(&[301, 302, 303, 307, 308]),
    preset: Preset::Integer(301),
    doc: "The status.",
};

/// Statuses of fixed answers.
pub(super) const ANSWER_STATUSES: Kind = Kind::Integer(200..=599);

pub(crate) static ANSWER: Section = Section {
    example: "{ status = 200, body = \"text\" }",
    groups: &[&[&ANSWER_STATUS, &BODY, &CONTENT_TYPE, &HEADERS]],
    needs: Needs::Nothing,
};
pub(crate) static ANSWER_STATUS: Key = Key {
    name: "status",
    kind: ANSWER_STATUSES,
    preset: Preset::Integer(200),
    doc: "The status.",
};
pub(crate) static BODY: Key = Key {
    name: "body",
    kind: Kind::Text(&forms::STRING),
    preset: Preset::Text(""),
    doc: "The body. Must be empty with 204 and 304.",
};
pub(crate) static CONTENT_TYPE: Key = Key {
    name: "content_type",
    kind: Kind::Text(&forms::MEDIA_TYPE),
    preset: Preset::Said("`text/plain; charset=utf-8` when there is a body"),
    doc: "The type of the body.",
};
pub(crate) static HEADERS: Key = Key {
    name: "headers",
    kind: Kind::Named(&FIELDS),
    preset: Preset::Toml("{}"),
    doc: "Other fields and their values.",
};
