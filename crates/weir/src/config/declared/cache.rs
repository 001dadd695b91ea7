//! `[cache]`, and the `cache` of a route.

use std::time::Duration;

use weir_cache::policy::{RequestCookie, SetCookie};
use weir_gateway::settings::CacheStorage;
use weir_http::Method;

use super::{Form, Key, Kind, List, Named, Needs, Preset, Section, forms, words};

const MEMORY: Kind = Kind::Size(1 << 20..=1 << 44);
const SPAN: Kind = Kind::Duration(Duration::ZERO..=Duration::from_secs(10 * 365 * 86_400));

pub(crate) static STORAGE: Section = Section {
    example: "[cache]",
    groups: &[&[&STORAGE_MEMORY, &TRANSIENT, &DISK]],
    needs: Needs::Nothing,
};
pub(crate) static STORAGE_MEMORY: Key = Key {
    name: "memory",
    kind: MEMORY,
    preset: Preset::Size(CacheStorage::MEMORY_BYTES),
    doc: "RAM for everything stored, bookkeeping included. One object takes at most an eighth of it.",
};
pub(crate) static TRANSIENT: Key = Key {
    name: "transient",
    kind: MEMORY,
    preset: Preset::Said("a quarter of `memory`, at least `\"16MiB\"`"),
    doc: "RAM for what is held for clients and not stored, see [What clients hold](cache.md#what-clients-hold).",
};
pub(crate) static DISK: Key = Key {
    name: "disk",
    kind: Kind::Table(&ON_DISK),
    preset: Preset::Said("none"),
    doc: "`{ path, size }`: a place for what was used in RAM and had to make room, and for what RAM does not take.",
};

pub(crate) static ON_DISK: Section = Section {
    example: "{ path = \"cache\", size = \"10GiB\" }",
    groups: &[&[&DISK_PATH, &DISK_SIZE]],
    needs: Needs::Nothing,
};
pub(crate) static DISK_PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&forms::DIRECTORY),
    preset: Preset::Required(forms::DIRECTORY.expected),
    doc: "A directory of its own. It is made when it is not there.",
};
pub(crate) static DISK_SIZE: Key = Key {
    name: "size",
    kind: Kind::Size(1 << 20..=1 << 50),
    preset: Preset::Required("a size such as \"10GiB\""),
    doc: "All files together, at least half of `memory`. One object takes at most a quarter of it.",
};

/// The `cache` of a route.
pub(crate) const OF_ROUTE: Kind = Kind::AnyOf(
    "true, false or a table such as `{ ttl = \"1d\" }`",
    &[Kind::Boolean, Kind::Table(&POLICY)],
);
pub(crate) static POLICY: Section = Section {
    example: "{ ttl = \"1d\" }",
    groups: &[&[
        &TTL,
        &FORCE_TTL,
        &STALE_WHILE_REVALIDATE,
        &STALE_IF_ERROR,
        &STALE_IF_UNREACHABLE,
        &KEY,
        &BYPASS,
        &METHODS,
        &SET_COOKIE,
        &REQUEST_COOKIE,
        &OBEY_CLIENTS,
        &IGNORE_LANGUAGE_ORDER,
        &MIN_USES,
        &MAX_OBJECT,
        &MAX_VARIANTS,
        &MAX_MEMORY,
        &REFRESH_AHEAD,
        &COLLAPSE_WAIT,
    ]],
    needs: Needs::Nothing,
};

const TTLS: Kind = Kind::AnyOf(
    "a duration such as \"1d\", or durations by status such as `{ 200 = \"1d\", 404 = \"1m\", any = \"10s\" }`",
    &[SPAN, Kind::Named(&BY_STATUS)],
);
static BY_STATUS: Named = Named {
    example: "{ 200 = \"1d\", 404 = \"1m\", any = \"10s\" }",
    names: "^([2-5][0-9][0-9]|[2-5]xx|any)$",
    values: SPAN,
};
pub(crate) static TTL: Key = Key {
    name: "ttl",
    kind: TTLS,
    preset: Preset::Said("what the origin says"),
    doc: "For responses of which the origin does not say how long they are fresh. In a table by status: `200`, `4xx`, `any`. A duration alone is for 200, 203, 204, 301, 302, 307 and 308.",
};
pub(crate) static FORCE_TTL: Key = Key {
    name: "force_ttl",
    kind: TTLS,
    preset: Preset::Said("none"),
    doc: "For what may be stored, whatever the origin says of freshness. A duration alone is for 2xx, 3xx, 404 and 410: an error is kept where its status is named (`500`, `4xx`, `any`), or when the origin says so.",
};
pub(crate) static STALE_WHILE_REVALIDATE: Key = Key {
    name: "stale_while_revalidate",
    kind: SPAN,
    preset: Preset::Said("what the origin says"),
    doc: "Serve stale for so long while one request refreshes. This and the next two are for 2xx, 3xx, 404 and 410.",
};
pub(crate) static STALE_IF_ERROR: Key = Key {
    name: "stale_if_error",
    kind: SPAN,
    preset: Preset::Said("what the origin says"),
    doc: "Serve stale for so long when the origin answers 500, 502, 503 or 504.",
};
pub(crate) static STALE_IF_UNREACHABLE: Key = Key {
    name: "stale_if_unreachable",
    kind: SPAN,
    preset: Preset::Duration(Duration::from_secs(3600)),
    doc: "Serve stale for so long when the origin cannot be reached.",
};
pub(crate) static KEY: Key = Key {
    name: "key",
    kind: Kind::Table(&KEY_PARTS),
    preset: Preset::Said("host, path, query"),
    doc: "What two requests must have in common to share a response.",
};
pub(crate) static BYPASS: Key = Key {
    name: "bypass",
    kind: Kind::List(&CONDITIONS),
    preset: Preset::Toml("[]"),
    doc: "Requests with one of these are neither answered from the cache nor stored.",
};
static CONDITIONS: List = List {
    of: Kind::Text(&CONDITION),
    noun: "`\"header:NAME\"`, `\"header:NAME=VALUE\"`, `\"cookie:NAME\"`, `\"query:NAME\"`",
    expected: "conditions such as [\"header:authorization\", \"cookie:session\", \"query:nocache\"]",
    is_never_empty: false,
};
static CONDITION: Form = Form {
    noun: "condition",
    expected: "a condition such as \"cookie:session\"",
    pattern: Some("^(header|cookie|query):."),
};
pub(crate) static METHODS: Key = Key {
    name: "methods",
    kind: Kind::List(&LIST_OF_METHODS),
    preset: Preset::Toml("[\"GET\", \"HEAD\"]"),
    doc: "With `\"POST\"`, a POST is answered by what an equal POST was: its body, of up to 64 KiB and announced length, and all its `Content-` fields but the length are part of the key, and it ends nothing that is stored. What else the origin reads, such as `SOAPAction`, belongs into `key.headers`. GET and HEAD always are among them.",
};
pub(crate) const METHOD_NAMES: &[(&str, Method)] = &[
    ("GET", Method::Get),
    ("HEAD", Method::Head),
    ("POST", Method::Post),
];
static LIST_OF_METHODS: List = List {
    of: Kind::Words(&words::<_, 3>(METHOD_NAMES)),
    noun: "`\"GET\"`, `\"HEAD\"`, `\"POST\"`",
    expected: "methods such as [\"GET\", \"HEAD\", \"POST\"]",
    is_never_empty: false,
};
pub(crate) static SET_COOKIE: Key = Key {
    name: "set_cookie",
    kind: Kind::Words(&words::<_, 3>(SET_COOKIES)),
    preset: Preset::Text("store-if-origin-says"),
    doc: "What becomes of a [response that sets a cookie](cache.md#cookies).",
};
pub(crate) const SET_COOKIES: &[(&str, SetCookie)] = &[
    ("store-if-origin-says", SetCookie::StoreIfOriginSays),
    ("store", SetCookie::Store),
    ("refuse", SetCookie::Refuse),
];
pub(crate) static REQUEST_COOKIE: Key = Key {
    name: "request_cookie",
    kind: Kind::Words(&words::<_, 3>(REQUEST_COOKIES)),
    preset: Preset::Text("store-if-said"),
    doc: "What becomes of the response to a [request with cookies](cache.md#cookies).",
};
pub(crate) const REQUEST_COOKIES: &[(&str, RequestCookie)] = &[
    ("store-if-said", RequestCookie::StoreIfSaid),
    ("store", RequestCookie::Store),
    ("refuse", RequestCookie::Refuse),
];
pub(crate) static OBEY_CLIENTS: Key = Key {
    name: "obey_clients",
    kind: Kind::Boolean,
    preset: Preset::Boolean(true),
    doc: "Whether `Cache-Control` of a request counts.",
};
pub(crate) static IGNORE_LANGUAGE_ORDER: Key = Key {
    name: "ignore_language_order",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "Whether `Accept-Language: de, en` gets what is stored for `en, de`. RFC 9110 gives the order no meaning, but many origins take the first.",
};
pub(crate) static MIN_USES: Key = Key {
    name: "min_uses",
    kind: Kind::Integer(1..=1000),
    preset: Preset::Integer(1),
    doc: "Stored at the earliest when asked for the n-th time.",
};
pub(crate) static MAX_OBJECT: Key = Key {
    name: "max_object",
    kind: Kind::Size(0..=1 << 50),
    preset: Preset::Size(1 << 30),
    doc: "Larger bodies are passed on.",
};
pub(crate) static MAX_VARIANTS: Key = Key {
    name: "max_variants",
    kind: Kind::Integer(1..=1000),
    preset: Preset::Integer(32),
    doc: "Variants of one key in memory, and on disk; the oldest makes room.",
};
pub(crate) static MAX_MEMORY: Key = Key {
    name: "max_memory",
    kind: MEMORY,
    preset: Preset::Said("all"),
    doc: "What the route stores takes at most so much of `cache.memory`; its own objects make room, the oldest first unless they are used.",
};
pub(crate) static REFRESH_AHEAD: Key = Key {
    name: "refresh_ahead",
    kind: Kind::Share,
    preset: Preset::Said("never"),
    doc: "Refresh in the background once this share of the lifetime is over, what was asked for more than once in it.",
};
pub(crate) static COLLAPSE_WAIT: Key = Key {
    name: "collapse_wait",
    kind: SPAN,
    preset: Preset::Said(
        "twice what half of the route's answers take, at least `\"100ms\"`; `\"1s\"` before there is one",
    ),
    doc: "How long requests wait for another one that asks for the same. Then one of them asks too, and all go by whichever answer comes first; if that one is late as well, the next asks after four times as long. Nobody does while the upstream has no place in its `concurrency`, nor when half of `timeout.response` is over. An error (5xx) is waited for once: then all who waited ask.",
};

pub(crate) static KEY_PARTS: Section = Section {
    example: "{ query = [\"page\"], headers = [\"x-tenant\"] }",
    groups: &[&[&KEY_HOST, &QUERY, &QUERY_EXCEPT, &HEADERS, &COOKIES]],
    needs: Needs::Nothing,
};
pub(crate) static KEY_HOST: Key = Key {
    name: "host",
    kind: Kind::Boolean,
    preset: Preset::Boolean(true),
    doc: "Where it is `false`, the name of the upstream takes the place of the host: routes to one upstream share what is stored, routes to others do not.",
};
pub(crate) static QUERY: Key = Key {
    name: "query",
    kind: Kind::AnyOf(
        "true, false, \"sorted\" or a list of query parameters",
        &[
            Kind::Boolean,
            Kind::Words(&["sorted"]),
            Kind::List(&PARAMETERS),
        ],
    ),
    preset: Preset::Boolean(true),
    doc: "All of the query as it was sent, none of it, its parameters sorted, or these parameters alone.",
};
pub(crate) static QUERY_EXCEPT: Key = Key {
    name: "query_except",
    kind: Kind::List(&PARAMETERS),
    preset: Preset::Said("none"),
    doc: "All of the query but these parameters. Not beside `query`.",
};
static PARAMETERS: List = List {
    of: Kind::Text(&forms::NAME),
    noun: "query parameters",
    expected: "query parameters",
    is_never_empty: false,
};
pub(crate) static HEADERS: Key = Key {
    name: "headers",
    kind: Kind::List(&FIELDS),
    preset: Preset::Toml("[]"),
    doc: "These fields of the request besides.",
};
static FIELDS: List = List {
    of: Kind::Text(&forms::NAME),
    noun: "names of fields",
    expected: "field names",
    is_never_empty: false,
};
pub(crate) static COOKIES: Key = Key {
    name: "cookies",
    kind: Kind::List(&LIST_OF_COOKIES),
    preset: Preset::Toml("[]"),
    doc: "These cookies besides.",
};
static LIST_OF_COOKIES: List = List {
    of: Kind::Text(&forms::NAME),
    noun: "names of cookies",
    expected: "cookies",
    is_never_empty: false,
};
