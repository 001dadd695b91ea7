//! `[upstream.NAME]`: servers, and who of them is asked. What it does for itself is declared in [`super::care`].

use weir_gateway::settings::Upstream;
use weir_policy::balance::Method;

use super::care;
use super::cookie;
use super::{Form, Key, Kind, List, Needs, Preset, Section, forms, words};
use crate::config::address::SERVER_EXPECTED;

pub(crate) static UPSTREAM: Section = Section {
    example: "[upstream.app]",
    groups: &[OF_SERVERS, care::OF_UPSTREAM],
    needs: Needs::Nothing,
};
/// What it says of its servers.
pub(crate) const OF_SERVERS: &[&Key] = &[
    &SERVERS,
    &BALANCE,
    &HASH_ON,
    &STICKY,
    &IDLE_CONNECTIONS,
    &IDLE_TIMEOUT,
];
pub(crate) static SERVERS: Key = Key {
    name: "servers",
    kind: Kind::List(&LIST_OF_SERVERS),
    preset: Preset::Required("a list of servers such as [\"127.0.0.1:3000\"]"),
    doc: "Who is asked. None twice.",
};
static LIST_OF_SERVERS: List = List {
    of: Kind::AnyOf(
        SERVER_EXPECTED,
        &[Kind::Text(&forms::SERVER), Kind::Table(&SERVER)],
    ),
    noun: "servers",
    expected: "servers such as [\"127.0.0.1:3000\"]",
    is_never_empty: true,
};
pub(crate) static BALANCE: Key = Key {
    name: "balance",
    kind: Kind::Words(&words::<_, 5>(Method::NAMES)),
    preset: Preset::Text("round-robin"),
    doc: "Who gets the next request, see below.",
};
pub(crate) static HASH_ON: Key = Key {
    name: "hash_on",
    kind: Kind::Text(&PART),
    preset: Preset::Text("client-address"),
    doc: "The part of a request that is hashed, see below. Only with `balance = \"hash\"`.",
};
static PART: Form = Form {
    noun: "`\"client-address\"`, `\"host\"`, `\"path\"`, `\"target\"`, `\"header:NAME\"`, `\"cookie:NAME\"` or `\"query:NAME\"`",
    expected: HASH_ON_EXPECTED,
    pattern: Some(PART_PATTERN),
};
pub(crate) const PART_PATTERN: &str =
    "^(client-address|host|path|target|(header|cookie|query):.+)$";
/// What a part to hash looks like.
pub(crate) const HASH_ON_EXPECTED: &str = "one of \"client-address\", \"host\", \"path\", \"target\", \"header:NAME\", \
                                           \"cookie:NAME\", \"query:NAME\"";
pub(crate) static STICKY: Key = Key {
    name: "sticky",
    kind: Kind::Table(&SESSIONS),
    preset: Preset::Said("off"),
    doc: "A client comes back to the server that has served it, see [Sticky sessions](upstreams.md#sticky-sessions).",
};
pub(crate) static SESSIONS: Section = Section {
    example: "{ cookie = \"weir\" }",
    groups: &[&[
        &cookie::COOKIE,
        &SECRET,
        &cookie::MAX_AGE,
        &cookie::DOMAIN,
        &cookie::SAME_SITE,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static SECRET: Key = Key {
    name: "secret",
    kind: Kind::Text(&forms::SECRET),
    preset: Preset::Said("none"),
    doc: "What the value is made with of the address of the server. Without one, somebody who tries all addresses finds out whose it is. The same on gateways that share clients.",
};
pub(crate) static IDLE_CONNECTIONS: Key = Key {
    name: "idle_connections",
    kind: Kind::Integer(0..=65_536),
    preset: Preset::Integer(Upstream::IDLE_CONNECTIONS as u64),
    doc: "Connections without a request that each worker keeps to each server.",
};
pub(crate) static IDLE_TIMEOUT: Key = Key {
    name: "idle_timeout",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Upstream::IDLE_TIMEOUT),
    doc: "How long such a connection is kept.",
};

pub(crate) static SERVER: Section = Section {
    example: "{ address = \"127.0.0.1:3000\" }",
    groups: &[&[&ADDRESS, &WEIGHT]],
    needs: Needs::Nothing,
};
pub(crate) static ADDRESS: Key = Key {
    name: "address",
    kind: Kind::Text(&forms::SERVER),
    preset: Preset::Required(SERVER_EXPECTED),
    doc: "`HOST:PORT`, with or without `http://` in front, or `unix:PATH`.",
};
pub(crate) static WEIGHT: Key = Key {
    name: "weight",
    kind: Kind::Integer(1..=1000),
    preset: Preset::Integer(1),
    doc: "How much of the load it gets, beside the others.",
};
