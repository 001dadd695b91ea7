//! `breaker`, of a route or of each endpoint of an upstream.

use std::time::Duration;

use weir_policy::breaker::PROBES_MAX;

use super::{COUNT, PAUSE, SHARE, STATUSES, WINDOW};
use crate::config::declared::{Key, Kind, Needs, Preset, Section};

pub(crate) static OF_ROUTE: Key = Key {
    name: "breaker",
    kind: BREAKER,
    preset: Preset::Boolean(false),
    doc: "Whether to ask the upstream at all, see [breaker](refusing.md#breaker).",
};
pub(crate) static OF_UPSTREAM: Key = Key {
    name: "breaker",
    kind: BREAKER,
    preset: Preset::Boolean(false),
    doc: "As on a route, for each endpoint. When all are open, the answer is 503.",
};
const BREAKER: Kind = Kind::AnyOf(
    "true, false or a table such as `{ ratio = 0.5, open_for = \"5s\" }`",
    &[Kind::Boolean, Kind::Table(&RULE)],
);
pub(crate) static RULE: Section = Section {
    example: "{ ratio = 0.5, open_for = \"5s\" }",
    groups: &[&[
        &RATIO,
        &TIME_WINDOW,
        &MIN_REQUESTS,
        &OPEN_FOR,
        &OPEN_FOR_MAX,
        &CONSECUTIVE,
        &SLOW,
        &SLOW_RATIO,
        &FAILURES,
        &PROBES,
        &PROBE_SUCCESSES,
        &RECOVERY,
    ]],
    needs: Needs::Nothing,
};
pub(crate) static RATIO: Key = Key {
    name: "ratio",
    kind: SHARE,
    preset: Preset::Number(0.5),
    doc: "Opens when this share of the requests in the window failed.",
};
pub(crate) static TIME_WINDOW: Key = Key {
    name: "window",
    kind: WINDOW,
    preset: Preset::Duration(Duration::from_secs(10)),
    doc: "The sliding window.",
};
pub(crate) static MIN_REQUESTS: Key = Key {
    name: "min_requests",
    kind: COUNT,
    preset: Preset::Integer(20),
    doc: "With fewer in the window, no share opens it.",
};
pub(crate) static OPEN_FOR: Key = Key {
    name: "open_for",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(5)),
    doc: "How long it refuses everything, at first. It doubles with each reopening; chance takes off up to a fifth.",
};
pub(crate) static OPEN_FOR_MAX: Key = Key {
    name: "open_for_max",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(Duration::from_secs(60)),
    doc: "How long it refuses everything, at most.",
};
pub(crate) static CONSECUTIVE: Key = Key {
    name: "consecutive",
    kind: COUNT,
    preset: Preset::Said("never"),
    doc: "Opens after so many failures in a row, however few requests there were.",
};
pub(crate) static SLOW: Key = Key {
    name: "slow",
    kind: Kind::DEADLINE,
    preset: Preset::Said("never"),
    doc: "Answers that take longer are slow.",
};
pub(crate) static SLOW_RATIO: Key = Key {
    name: "slow_ratio",
    kind: SHARE,
    preset: Preset::Number(0.5),
    doc: "Opens when this share in the window was slow. Only with `slow`.",
};
pub(crate) static FAILURES: Key = Key {
    name: "statuses",
    kind: Kind::List(&STATUSES),
    preset: Preset::Toml("[500, \"502-504\", \"506-599\"]"),
    doc: "What counts as a failure. 501 and 505 are left out because a client can provoke them; they count where they are named, and `\"5xx\"` names them.",
};
pub(crate) static PROBES: Key = Key {
    name: "probes",
    kind: Kind::Integer(1..=PROBES_MAX as u64),
    preset: Preset::Integer(3),
    doc: "Requests let through at once when `open_for` is over. One that fails opens it again.",
};
pub(crate) static PROBE_SUCCESSES: Key = Key {
    name: "probe_successes",
    kind: Kind::Integer(1..=1000),
    preset: Preset::Integer(5),
    doc: "So many good ones, and it recovers.",
};
pub(crate) static RECOVERY: Key = Key {
    name: "recovery",
    kind: PAUSE,
    preset: Preset::Duration(Duration::from_secs(10)),
    doc: "Over this time the share let through rises from a tenth to all.",
};
