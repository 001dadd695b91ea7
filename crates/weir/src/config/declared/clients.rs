//! `[limits]`, `[trusted_proxies]` and `[timeouts]`: the clients.

use std::time::Duration;

use super::{Key, Kind, List, Needs, Preset, Section, forms};
use crate::config::address::NETWORKS_EXPECTED;

/// Every bound on a body: a pebibyte, which is as good as none.
pub(super) const BODY_BYTES: Kind = Kind::Size(0..=1 << 50);

pub(crate) static LIMITS: Section = Section {
    example: "[limits]",
    groups: &[&[
        &CONNECTIONS,
        &CONNECTIONS_PER_ADDRESS,
        &HEADER_BYTES,
        &HEADER_COUNT,
        &BODY,
        &BODY_RATE,
        &HELD_BODIES,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static CONNECTIONS: Key = Key {
    name: "connections",
    kind: Kind::Integer(1..=u32::MAX as u64),
    preset: Preset::Integer(65_536),
    doc: "Client connections of the process. Beyond it: 503 and close.",
};
pub(crate) static CONNECTIONS_PER_ADDRESS: Key = Key {
    name: "connections_per_address",
    kind: Kind::Integer(1..=u32::MAX as u64),
    preset: Preset::Said("1024, except from loopback"),
    doc: "Connections of one client address. Beyond it: 503 and close.",
};
pub(crate) static HEADER_BYTES: Key = Key {
    name: "header_bytes",
    kind: Kind::Size(1 << 10..=64 << 10),
    preset: Preset::Size(32 << 10),
    doc: "The head of a request. Beyond it: 431, or 414 when the request line alone is longer.",
};
pub(crate) static HEADER_COUNT: Key = Key {
    name: "header_count",
    kind: Kind::Integer(1..=weir_http::HeadLimits::FIELDS_CEILING as u64),
    preset: Preset::Integer(100),
    doc: "Fields in the head of a request. Beyond it: 431.",
};
pub(crate) static BODY: Key = Key {
    name: "body",
    kind: BODY_BYTES,
    preset: Preset::Size(1 << 30),
    doc: "The body of a request. Beyond it: 413.",
};
pub(crate) static BODY_RATE: Key = Key {
    name: "body_rate",
    kind: Kind::Size(0..=1 << 30),
    preset: Preset::Size(500),
    doc: "What a client has to send of a body in a second. Slower: 408 and close.",
};
/// At 0 nothing is held but what fits into one buffer.
pub(crate) static HELD_BODIES: Key = Key {
    name: "held_bodies",
    kind: Kind::Size(0..=1 << 40),
    preset: Preset::Size(128 << 20),
    doc: "All bodies that are held for [slow clients](refusing.md#slow-clients). Beyond it: nothing more is held.",
};

pub(crate) static TRUSTED_PROXIES: Section = Section {
    example: "[trusted_proxies]",
    groups: &[&[&NETWORKS]],
    needs: Needs::Nothing,
};
pub(crate) static NETWORKS: Key = Key {
    name: "networks",
    kind: Kind::List(&LIST_OF_NETWORKS),
    preset: Preset::Required(NETWORKS_EXPECTED),
    doc: "Where they are, as in `[\"10.0.0.5\", \"2001:db8:0:1::/64\"]`.",
};
static LIST_OF_NETWORKS: List = List {
    of: Kind::Text(&forms::NETWORK),
    noun: "networks or addresses",
    expected: "networks such as [\"10.0.0.0/8\", \"::1\"]",
    is_never_empty: false,
};

pub(crate) static TIMEOUTS: Section = Section {
    example: "[timeouts]",
    groups: &[&[
        &HEAD,
        &IDLE,
        &BODY_PAUSE,
        &SEND,
        &TUNNEL,
        &DRAIN_DELAY,
        &DRAIN,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static HEAD: Key = Key {
    name: "head",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(10)),
    doc: "From the first byte of a request head to its end. Late: 408 and close.",
};
pub(crate) static IDLE: Key = Key {
    name: "idle",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(60)),
    doc: "An open connection without a request. Late: close.",
};
pub(crate) static BODY_PAUSE: Key = Key {
    name: "body",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(30)),
    doc: "Between two reads of a request body. Late: 408 and close; when the response has begun, it is broken off.",
};
pub(crate) static SEND: Key = Key {
    name: "send",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(30)),
    doc: "Until the client takes what is being sent, at most 32 KiB of body at a time. Late: the connection is broken off.",
};
pub(crate) static TUNNEL: Key = Key {
    name: "tunnel",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(3600)),
    doc: "An upgraded connection without a byte in either direction, or a stream of events (`text/event-stream`) without an event. Late: close.",
};
pub(crate) static DRAIN_DELAY: Key = Key {
    name: "drain_delay",
    kind: Kind::Duration(Duration::ZERO..=Duration::from_secs(3600)),
    preset: Preset::Duration(Duration::ZERO),
    doc: "From SIGTERM until draining begins. Meanwhile `/healthz` says 503 and everything else goes on, so that balancers leave.",
};
pub(crate) static DRAIN: Key = Key {
    name: "drain",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(30)),
    doc: "From the beginning of draining until what still runs is cut off. Late: exit status 3.",
};
