//! `health`: how the endpoints of an upstream are asked whether they are well.

use std::time::Duration;

use weir_gateway::settings::HealthCheck;
use weir_policy::health::check::Settings;

use super::{HOUR, SOME_STATUSES};
use crate::config::declared::{Form, Key, Kind, Needs, Preset, Section};

pub(crate) static HEALTH: Key = Key {
    name: "health",
    kind: Kind::AnyOf(
        "\"tcp\", or a table such as `{ path = \"/healthz\", interval = \"2s\" }`",
        &[Kind::Words(&["tcp"]), Kind::Table(&CHECK)],
    ),
    preset: Preset::Said("off"),
    doc: "How endpoints are asked whether they are well, see [health](refusing.md#health).",
};
pub(crate) static CHECK: Section = Section {
    example: "{ path = \"/healthz\", interval = \"2s\" }",
    groups: &[&[
        &TCP, &PATH, &HOST, &STATUSES, &BODY, &INTERVAL, &TIMEOUT, &RISE, &FALL,
    ]],
    needs: Needs::AnyOf(&[&TCP, &PATH]),
};
pub(crate) static TCP: Key = Key {
    name: "tcp",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "Whether a connection is all that is asked for. Not beside `path`, `host`, `statuses` and `body`.",
};
pub(crate) static PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&TARGET),
    preset: Preset::Required("a path such as \"/healthz\", or `tcp = true`"),
    doc: "What is asked with GET.",
};
static TARGET: Form = Form {
    noun: "path and query",
    expected: PATH_EXPECTED,
    pattern: Some("^/[0-9A-Za-z._~!$&'()*+,;=:@/?%-]*$"),
};
pub(crate) const PATH_EXPECTED: &str = "a path such as \"/healthz\"";
pub(crate) static HOST: Key = Key {
    name: "host",
    kind: Kind::Text(&AUTHORITY),
    preset: Preset::Said("the endpoint's"),
    doc: "The `Host`.",
};
static AUTHORITY: Form = Form {
    noun: "host, with a port or without",
    expected: HOST_EXPECTED,
    pattern: Some("^[0-9A-Za-z._:\\[\\]-]+$"),
};
pub(crate) const HOST_EXPECTED: &str = "a host such as \"app.internal\"";
pub(crate) static STATUSES: Key = Key {
    name: "statuses",
    kind: Kind::List(&SOME_STATUSES),
    preset: Preset::Toml("[\"200-399\"]"),
    doc: "What it must answer with.",
};
pub(crate) static BODY: Key = Key {
    name: "body",
    kind: Kind::Text(&PART_OF_BODY),
    preset: Preset::Said("anything"),
    doc: "What the first 64 KiB of the body must contain.",
};
static PART_OF_BODY: Form = Form {
    noun: "string that is not empty",
    expected: BODY_EXPECTED,
    pattern: Some("[\\s\\S]"),
};
pub(crate) const BODY_EXPECTED: &str = "a text that the answer contains";
pub(crate) static INTERVAL: Key = Key {
    name: "interval",
    kind: Kind::Duration(Duration::from_millis(100)..=HOUR),
    preset: Preset::Duration(Settings::INTERVAL_DEFAULT),
    doc: "From one check to the next, give or take a tenth.",
};
pub(crate) static TIMEOUT: Key = Key {
    name: "timeout",
    kind: Kind::DEADLINE,
    preset: Preset::Duration(HealthCheck::TIMEOUT_DEFAULT),
    doc: "How long a check may take.",
};
const IN_A_ROW: Kind = Kind::Integer(1..=100);
pub(crate) static RISE: Key = Key {
    name: "rise",
    kind: IN_A_ROW,
    preset: Preset::Integer(Settings::RISE_DEFAULT as u64),
    doc: "Good answers in a row that bring an endpoint up. It is up at the start.",
};
pub(crate) static FALL: Key = Key {
    name: "fall",
    kind: IN_A_ROW,
    preset: Preset::Integer(Settings::FALL_DEFAULT as u64),
    doc: "Bad answers in a row that take it down.",
};
