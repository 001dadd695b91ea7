//! `protect`, `concurrency` and `ejection` of an upstream.

use std::time::Duration;

use weir_policy::limit::{concurrency, queue};

use super::{COUNT, PAUSE, SHARE, WINDOW};
use crate::config::declared::{Key, Kind, Needs, Preset, Section};

pub(crate) static PROTECT: Key = Key {
    name: "protect",
    kind: Kind::Boolean,
    preset: Preset::Said("off"),
    doc: "`concurrency = \"adaptive\"` and `ejection = true`, as far as the upstream does not say these itself.",
};

const ADAPTIVE: Kind = Kind::Words(&["adaptive"]);
pub(crate) static CONCURRENCY: Key = Key {
    name: "concurrency",
    kind: Kind::AnyOf(
        "an integer from 1 to 1000000, \"adaptive\", false or a table such as `{ limit = 64, queue = 128 }`",
        &[COUNT, ADAPTIVE, Kind::False, Kind::Table(&LIMIT_AND_QUEUE)],
    ),
    preset: Preset::Boolean(false),
    doc: "How many requests are in flight at once, see [concurrency](refusing.md#concurrency).",
};
pub(crate) static LIMIT_AND_QUEUE: Section = Section {
    example: "{ limit = 64, queue = 128 }",
    groups: &[&[
        &LIMIT,
        &PER_ENDPOINT,
        &QUEUE,
        &STREAMS,
        &QUEUE_TARGET,
        &QUEUE_INTERVAL,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static LIMIT: Key = Key {
    name: "limit",
    kind: Kind::AnyOf(
        "an integer from 1 to 1000000, or \"adaptive\"",
        &[COUNT, ADAPTIVE],
    ),
    preset: Preset::Text("adaptive"),
    doc: "Requests that the upstream is at work on at once, until all of the response was read. An adaptive limit is 10,000 until there is [evidence](../decisions/0008-evidence-of-a-queue.md) that requests queue inside the service; then two and a half times what it holds without queueing and what it answers in 8 ms, 2 at least, until it can take all that is asked for again. Before, a surge waits for up to 80 ms while the service shows whether it can take so many.",
};
pub(crate) static PER_ENDPOINT: Key = Key {
    name: "per_endpoint",
    kind: COUNT,
    preset: Preset::Said("none"),
    doc: "Instead of `limit`: so many at each endpoint. What one has free is not for the others, and those of one that is down or out let nobody in.",
};
/// All of the memory, some 60 bytes a waiter, is taken at the start.
pub(crate) static QUEUE: Key = Key {
    name: "queue",
    kind: Kind::Integer(0..=65_536),
    preset: Preset::Integer(queue::Settings::WAITERS_MAX_DEFAULT as u64),
    doc: "Requests that may wait; never more than half the limit, or as many as an adaptive limit knows to be answered within `queue_target`.",
};
pub(crate) static STREAMS: Key = Key {
    name: "streams",
    kind: Kind::Integer(0..=1_000_000),
    preset: Preset::Integer(concurrency::Settings::STREAMS_MAX_DEFAULT as u64),
    doc: "Streams besides, see [slow clients](refusing.md#slow-clients). At 0 none is counted apart, and each keeps its place to its end.",
};
const QUEUE_WAIT: Kind = Kind::Duration(Duration::from_millis(1)..=Duration::from_secs(60));
pub(crate) static QUEUE_TARGET: Key = Key {
    name: "queue_target",
    kind: QUEUE_WAIT,
    preset: Preset::Duration(queue::Settings::TARGET_DEFAULT),
    doc: "The longest wait once the queue has had waiters for `queue_interval` who waited longer than this; then the newest goes first. It ends with a `queue_interval` in which less than a third are refused.",
};
pub(crate) static QUEUE_INTERVAL: Key = Key {
    name: "queue_interval",
    kind: QUEUE_WAIT,
    preset: Preset::Duration(queue::Settings::INTERVAL_DEFAULT),
    doc: "The longest wait before that; the oldest goes first.",
};

pub(crate) static EJECTION: Key = Key {
    name: "ejection",
    kind: Kind::AnyOf(
        "true, false or a table such as `{ max = 0.5, eject_for = \"5s\" }`",
        &[Kind::Boolean, Kind::Table(&EJECT)],
    ),
    preset: Preset::Boolean(false),
    doc: "When an endpoint that stands out is left out, see [ejection](refusing.md#ejection).",
};
pub(crate) static EJECT: Section = Section {
    example: "{ max = 0.5, eject_for = \"5s\" }",
    groups: &[&[
        &MAX,
        &CONSECUTIVE,
        &TIME_WINDOW,
        &MIN_REQUESTS,
        &FAILED_SHARE,
        &EJECT_FOR,
        &EJECT_FOR_MAX,
        &SLOW_FACTOR,
        &SLOW_MIN,
        &SLOW_START,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static MAX: Key = Key {
    name: "max",
    kind: Kind::Number(0.0..=1.0),
    preset: Preset::Number(0.5),
    doc: "The share of the endpoints that may be out at once: of two or more at least one, unless it is 0, and never all.",
};
pub(crate) static CONSECUTIVE: Key = Key {
    name: "consecutive",
    kind: COUNT,
    preset: Preset::Integer(5),
    doc: "Out after so many failures in a row, or as many more as it takes to tell them from chance.",
};
pub(crate) static TIME_WINDOW: Key = Key {
    name: "window",
    kind: WINDOW,
    preset: Preset::Duration(Duration::from_secs(5)),
    doc: "Over which failures are counted.",
};
pub(crate) static MIN_REQUESTS: Key = Key {
    name: "min_requests",
    kind: COUNT,
    preset: Preset::Integer(10),
    doc: "With fewer, no share counts.",
};
pub(crate) static FAILED_SHARE: Key = Key {
    name: "share",
    kind: SHARE,
    preset: Preset::Number(0.3),
    doc: "Out when this share failed, and no more than a third as much of its siblings'.",
};
pub(crate) static EJECT_FOR: Key = Key {
    name: "eject_for",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(5)),
    doc: "How long it is out, at first. It doubles with each ejection; chance takes off up to a fifth.",
};
pub(crate) static EJECT_FOR_MAX: Key = Key {
    name: "eject_for_max",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(13)),
    doc: "How long it is out, at most.",
};
pub(crate) static SLOW_FACTOR: Key = Key {
    name: "slow_factor",
    kind: Kind::Number(1.5..=1000.0),
    preset: Preset::Number(5.0),
    doc: "Out when the median latency is so many times that of the endpoints, and above `slow_min`.",
};
pub(crate) static SLOW_MIN: Key = Key {
    name: "slow_min",
    kind: PAUSE,
    preset: Preset::Duration(Duration::from_millis(100)),
    doc: "No endpoint is slow whose median latency is less.",
};
pub(crate) static SLOW_START: Key = Key {
    name: "slow_start",
    kind: PAUSE,
    preset: Preset::Duration(Duration::from_secs(1)),
    doc: "Over this time its share rises to all, after three good answers on trial.",
};
