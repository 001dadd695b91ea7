//! `[access_log]` and `[request_id]`: what is said of requests, and by what they are known.

use std::time::Duration;

use weir_gateway::settings::TrustId;

use super::{Form, Key, Kind, List, Needs, Preset, Section, forms, queue, words};

pub(crate) static ACCESS_LOG: Section = Section {
    example: "[access_log]",
    groups: &[&[&PATH, &QUEUE, &FORMAT, &FIELDS, &REDACT, &BUFFER, &FLUSH]],
    needs: Needs::OneOf(&[&PATH, &QUEUE]),
};
pub(crate) static PATH: Key = Key {
    name: "path",
    kind: Kind::Text(&forms::FILE_OR_STDOUT),
    preset: Preset::Said("none"),
    doc: "Where lines are appended.",
};
pub(crate) static QUEUE: Key = Key {
    name: "queue",
    kind: Kind::Text(&queue::QUEUE_NAME),
    preset: Preset::Said("none"),
    doc: "The queue that keeps each line as a message, for its [sinks](deferring.md#sinks); instead of `path`. The `format` is `\"json\"` then, unless another is said.",
};
/// The formats that have a name.
pub(crate) const COMBINED: &str = "combined";
pub(crate) const JSON: &str = "json";
pub(crate) const FORMAT_EXPECTED: &str =
    r#""combined", "json" or a text with variables such as "{client} {method} {path} {status}""#;
pub(crate) static FORMAT: Key = Key {
    name: "format",
    kind: Kind::AnyOf(
        FORMAT_EXPECTED,
        &[Kind::Words(&[COMBINED, JSON]), Kind::Text(&LINE)],
    ),
    preset: Preset::Text(COMBINED),
    doc: "How a line looks, see [Access log](observing.md#access-log).",
};
static LINE: Form = Form {
    noun: "text with [variables](observing.md#variables)",
    expected: FORMAT_EXPECTED,
    pattern: Some("\\{"),
};
pub(crate) static FIELDS: Key = Key {
    name: "fields",
    kind: Kind::List(&NAMES),
    preset: Preset::Said("see [Access log](observing.md#access-log)"),
    doc: "The members of a line, in this order. Only with `format = \"json\"`.",
};
pub(crate) const FIELDS_EXPECTED: &str = "names such as [\"time\", \"client\", \"status\"]";
static NAMES: List = List {
    of: Kind::Text(&VARIABLE),
    noun: "names of [variables](observing.md#variables)",
    expected: FIELDS_EXPECTED,
    is_never_empty: true,
};
static VARIABLE: Form = Form {
    noun: "name of a variable",
    expected: "the name of a variable such as \"status\"",
    pattern: Some("^[a-z]"),
};
pub(crate) static REDACT: Key = Key {
    name: "redact",
    kind: Kind::AnyOf(
        "true, or the names of parameters such as [\"token\"]",
        &[Kind::Boolean, Kind::List(&PARAMETERS)],
    ),
    preset: Preset::Boolean(false),
    doc: "What a line does not say of URLs: with `true` everything behind `?` and `#`, with a list the values of these parameters.",
};
static PARAMETERS: List = List {
    of: Kind::Text(&PARAMETER),
    noun: "names of parameters",
    expected: "names of parameters such as [\"token\"]",
    is_never_empty: true,
};
static PARAMETER: Form = Form {
    noun: "name of a parameter",
    expected: "the name of a parameter such as \"token\"",
    pattern: Some("[\\s\\S]"),
};
pub(crate) static BUFFER: Key = Key {
    name: "buffer",
    kind: Kind::Size(1 << 10..=64 << 20),
    preset: Preset::Size(256 << 10),
    doc: "A worker writes when it has collected so much.",
};
/// Unless the config says otherwise: for those who rotate files, and for those who watch.
pub(crate) const FLUSH_FILE: Duration = Duration::from_secs(10);
pub(crate) const FLUSH_STDOUT: Duration = Duration::from_millis(200);
pub(crate) static FLUSH: Key = Key {
    name: "flush",
    kind: Kind::Duration(Duration::from_millis(100)..=Duration::from_secs(300)),
    preset: Preset::Said("`\"10s\"`; `\"200ms\"` to standard output"),
    doc: "A worker writes after so long, however little it has collected. To a terminal every line is written at once.",
};

pub(crate) static REQUEST_ID: Section = Section {
    example: "[request_id]",
    groups: &[&[&HEADER, &TRUST, &RESPOND]],
    needs: Needs::Nothing,
};
pub(crate) static HEADER: Key = Key {
    name: "header",
    kind: Kind::Text(&forms::FIELD_NAME),
    preset: Preset::Text("x-request-id"),
    doc: "The field by which it is taken and passed on.",
};
pub(crate) const TRUSTS: &[(&str, TrustId)] = &[
    ("proxies", TrustId::Proxies),
    ("any", TrustId::Any),
    ("never", TrustId::Never),
];
pub(crate) static TRUST: Key = Key {
    name: "trust",
    kind: Kind::Words(&words::<_, 3>(TRUSTS)),
    preset: Preset::Text("proxies"),
    doc: "Whose id is taken: that of [trusted proxies](config.md#trusted_proxies), anybody's, or nobody's. All others are given a new one.",
};
pub(crate) static RESPOND: Key = Key {
    name: "respond",
    kind: Kind::Boolean,
    preset: Preset::Boolean(false),
    doc: "Whether clients are told it, in the same field of every answer.",
};
