//! `rate`: how often one key may ask a route.

use std::time::Duration;

use weir_gateway::settings::RateRule;

use super::COUNT;
use crate::config::declared::{Form, Key, Kind, List, Needs, Preset, Section};

pub(crate) static RATE: Key = Key {
    name: "rate",
    kind: Kind::AnyOf(
        "a table such as `{ requests = 100, per = \"1s\" }`, or a list of such tables",
        &[Kind::Table(&RULE), Kind::List(&RULES)],
    ),
    preset: Preset::Said("off"),
    doc: "How often one key may ask, see [rate](refusing.md#rate).",
};
static RULES: List = List {
    of: Kind::Table(&RULE),
    noun: "such tables",
    expected: "limits",
    is_never_empty: true,
};
pub(crate) static RULE: Section = Section {
    example: "{ requests = 100, per = \"1s\" }",
    groups: &[&[&REQUESTS, &PER, &BURST, &KEY, &KEYS]],
    needs: Needs::Nothing,
};
pub(crate) static REQUESTS: Key = Key {
    name: "requests",
    kind: COUNT,
    preset: Preset::Required("how many requests a key may make, such as 100"),
    doc: "How many requests a key may make.",
};
pub(crate) static PER: Key = Key {
    name: "per",
    kind: Kind::Duration(Duration::from_millis(1)..=Duration::from_secs(24 * 3600)),
    preset: Preset::Duration(Duration::from_secs(1)),
    doc: "In which time.",
};
pub(crate) static BURST: Key = Key {
    name: "burst",
    kind: COUNT,
    preset: Preset::Said("`requests`"),
    doc: "How many may come at once after a rest.",
};
pub(crate) static KEY: Key = Key {
    name: "key",
    kind: Kind::Text(&PART),
    preset: Preset::Text("client-address"),
    doc: "What has a limit of its own: an address (of IPv6 its first 64 bits, which belong to one client), the route, a field of the request, or a parameter of the route's path.",
};
static PART: Form = Form {
    noun: "`\"client-address\"`, `\"route\"`, `\"header:NAME\"` or `\"path:NAME\"`",
    expected: KEY_EXPECTED,
    pattern: Some("^(client-address|route|(header|path):.+)$"),
};
pub(crate) const KEY_EXPECTED: &str =
    "one of \"client-address\", \"route\", \"header:NAME\" or \"path:NAME\"";
/// All of the memory, 16 bytes a key, is taken at the start.
pub(crate) static KEYS: Key = Key {
    name: "keys",
    kind: Kind::Integer(16..=10_000_000),
    preset: Preset::Integer(RateRule::KEYS_MAX_DEFAULT as u64),
    doc: "Keys remembered, in 16 bytes each that are taken at the start. Not with `key = \"route\"`.",
};
