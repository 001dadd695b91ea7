//! `[queue.NAME]`: where deferred requests wait, and how they are delivered; and the `defer` of a route.

use std::time::Duration;

use super::{Form, Key, Kind, Named, Needs, Preset, Section, forms, sink};
use crate::config::units::ABOVE_ZERO;

const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) static QUEUES: Named = Named {
    example: "[queue.events]",
    names: "^[0-9A-Za-z_-][0-9A-Za-z._-]*$",
    values: Kind::Table(&QUEUE),
};
pub(crate) static QUEUE: Section = Section {
    example: "[queue.events]",
    groups: &[KEPT, DELIVERED, ELSEWHERE],
    needs: Needs::Nothing,
};
/// How messages are kept.
pub(crate) const KEPT: &[&Key] = &[
    &PATH,
    &DURABILITY,
    &SIZE,
    &MAX_AGE,
    &KEEP,
    &MESSAGE_SIZE,
    &IDEMPOTENCY_WINDOW,
];
/// Where else they go.
pub(crate) const ELSEWHERE: &[&Key] = &[&sink::LIVES, &sink::SINKS];
/// How they are delivered.
pub(crate) const DELIVERED: &[&Key] = &[
    &CONCURRENCY,
    &RATE,
    &TIMEOUT,
    &ATTEMPTS,
    &GIVE_UP,
    &BACKOFF,
    &BACKOFF_MAX,
    &ANSWERS,
];
pub(crate) static PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&forms::DIRECTORY),
    preset: Preset::Required(forms::DIRECTORY.expected),
    doc: "A directory of its own. It is made when it is not there. One process has it at a time.",
};
pub(crate) const DURABILITIES: &[(&str, weir_queue::Durability)] = &[
    ("memory", weir_queue::Durability::Memory),
    ("os", weir_queue::Durability::Os),
    ("group", weir_queue::Durability::Group),
    ("each", weir_queue::Durability::Each),
];
pub(crate) static DURABILITY: Key = Key {
    name: "durability",
    kind: Kind::Words(&["memory", "os", "group", "each"]),
    preset: Preset::Text("group"),
    doc: "When a request is acknowledged, see [durability](deferring.md#durability).",
};
pub(crate) static SIZE: Key = Key {
    name: "size",
    kind: Kind::Size(4 << 20..=1 << 50),
    preset: Preset::Size(4 << 30),
    doc: "Bytes of the directory, dead letters included. Beyond that requests are 503 with `Retry-After`.",
};
pub(crate) static MAX_AGE: Key = Key {
    name: "max_age",
    kind: Kind::Duration(ABOVE_ZERO..=YEAR),
    preset: Preset::Said("none"),
    doc: "While the oldest message waits for longer, requests are 503 with `Retry-After`.",
};
pub(crate) static KEEP: Key = Key {
    name: "keep",
    kind: Kind::Duration(Duration::ZERO..=YEAR),
    preset: Preset::Duration(Duration::from_secs(3600)),
    doc: "How long delivered messages stay, to be [replayed](deferring.md#replay). They go earlier when there is no room.",
};
pub(crate) static MESSAGE_SIZE: Key = Key {
    name: "message_size",
    kind: Kind::Size(1..=32 << 20),
    preset: Preset::Size(1 << 20),
    doc: "Bytes of the body of a request, of a batch as well. More is 413.",
};
pub(crate) static IDEMPOTENCY_WINDOW: Key = Key {
    name: "idempotency_window",
    kind: Kind::Duration(Duration::ZERO..=DAY),
    preset: Preset::Duration(Duration::from_secs(300)),
    doc: "How long an `Idempotency-Key` is known, see [sent twice](deferring.md#sent-twice).",
};
pub(crate) static CONCURRENCY: Key = Key {
    name: "concurrency",
    kind: Kind::Integer(1..=256),
    preset: Preset::Integer(16),
    doc: "Deliveries at once to each upstream, at most.",
};
pub(crate) static RATE: Key = Key {
    name: "rate",
    kind: Kind::Number(0.001..=1_000_000.0),
    preset: Preset::Said("none"),
    doc: "Deliveries a second to each upstream, at most.",
};
pub(crate) static TIMEOUT: Key = Key {
    name: "timeout",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(30)),
    doc: "How long an attempt may take.",
};
pub(crate) static ATTEMPTS: Key = Key {
    name: "attempts",
    kind: Kind::Integer(1..=1000),
    preset: Preset::Integer(16),
    doc: "Attempts after which a message is a [dead letter](deferring.md#dead-letters). While nothing else is delivered, none counts.",
};
pub(crate) static GIVE_UP: Key = Key {
    name: "give_up",
    kind: Kind::Duration(ABOVE_ZERO..=YEAR),
    preset: Preset::Duration(Duration::from_secs(3 * 24 * 3600)),
    doc: "How old a message that has failed may be. Then it is a dead letter too.",
};
pub(crate) static BACKOFF: Key = Key {
    name: "backoff",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(1)),
    doc: "The longest wait before the second attempt. It doubles with each, and the wait is at random below it.",
};
pub(crate) static BACKOFF_MAX: Key = Key {
    name: "backoff_max",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(600)),
    doc: "The longest wait before any.",
};
pub(crate) static ANSWERS: Key = Key {
    name: "answers",
    kind: Kind::Size(0..=1 << 20),
    preset: Preset::Size(0),
    doc: "Bytes of an upstream's answer that are kept for whoever asks for the [outcome](deferring.md#outcome). The newest 10000 in 16 MiB of RAM.",
};

/// The `defer` of a route.
pub(crate) static DEFER: Key = Key {
    name: "defer",
    kind: Kind::AnyOf(
        "the name of a queue, or a table such as `{ queue = \"events\", key = \"header:x-user\" }`",
        &[Kind::Text(&QUEUE_NAME), Kind::Table(&DEFERRAL)],
    ),
    preset: Preset::Said("off"),
    doc: "The queue that keeps the request, see [deferring](deferring.md). It is answered at once, and `upstream` gets it later.",
};
pub(crate) static QUEUE_NAME: Form = Form {
    noun: "name of a queue",
    expected: "the name of a queue",
    pattern: Some("^[0-9A-Za-z_-][0-9A-Za-z._-]*$"),
};
pub(crate) static DEFERRAL: Section = Section {
    example: "{ queue = \"events\" }",
    groups: &[&[&OF_QUEUE, &ORDER_KEY, &TTL, &BATCH]],
    needs: Needs::Nothing,
};
pub(crate) static OF_QUEUE: Key = Key {
    name: "queue",
    kind: Kind::Text(&QUEUE_NAME),
    preset: Preset::Required("the name of a queue"),
    doc: "Which one.",
};
pub(crate) static ORDER_KEY: Key = Key {
    name: "key",
    kind: Kind::Text(&PART),
    preset: Preset::Said("none"),
    doc: "What messages are ordered by: those with the same value are delivered one after the other. Without a value there is no order.",
};
static PART: Form = Form {
    noun: "`\"header:NAME\"`, `\"path:PARAMETER\"` or `\"json:/POINTER\"`",
    expected: KEY_EXPECTED,
    pattern: Some("^(header|path|json):.+$"),
};
pub(crate) const KEY_EXPECTED: &str =
    "one of \"header:NAME\", \"path:PARAMETER\" of the route's path, \"json:/POINTER\" (RFC 6901)";
pub(crate) static TTL: Key = Key {
    name: "ttl",
    kind: Kind::Duration(ABOVE_ZERO..=YEAR),
    preset: Preset::Said("none"),
    doc: "How long a message may wait. After that it is a dead letter.",
};
pub(crate) static BATCH: Key = Key {
    name: "batch",
    kind: Kind::Words(&["ndjson"]),
    preset: Preset::Said("none"),
    doc: "Each line of the body is a message of its own, with `Content-Type: application/json`. At most 10000.",
};
