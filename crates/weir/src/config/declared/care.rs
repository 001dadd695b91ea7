//! What keeps upstreams from being broken by their load: what a route says of it, and what an upstream says.

pub(crate) mod breaker;
pub(crate) mod fallback;
pub(crate) mod health;
pub(crate) mod rate;
pub(crate) mod retry;
pub(crate) mod upstream;

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_policy::limit::priority::Priority;

use super::{Form, Key, Kind, List, Needs, Preset, Section, forms, words};

/// How many requests there must be before something is concluded from them.
const COUNT: Kind = Kind::Integer(1..=1_000_000);
/// The share of requests from which on something is too much.
const SHARE: Kind = Kind::Number(0.01..=1.0);
/// The time over which requests are counted.
const WINDOW: Kind = Kind::Duration(Duration::from_millis(100)..=HOUR);
/// A time that may be none.
const PAUSE: Kind = Kind::Duration(Duration::ZERO..=HOUR);
const HOUR: Duration = Duration::from_secs(3600);

/// What a route says of it that forwards.
pub(crate) const OF_ROUTE: &[&Key] = &[
    &breaker::OF_ROUTE,
    &PRIORITY,
    &retry::RETRY,
    &retry::HEDGE,
    &fallback::FALLBACK,
    &PROTECT_BY_ROUTE,
];
/// What an upstream says of it.
pub(crate) const OF_UPSTREAM: &[&Key] = &[
    &upstream::PROTECT,
    &upstream::CONCURRENCY,
    &upstream::EJECTION,
    &breaker::OF_UPSTREAM,
    &health::HEALTH,
    &retry::BUDGET,
];

pub(crate) static PROTECT_BY_ROUTE: Key = Key {
    name: "protect",
    kind: Kind::Boolean,
    preset: Preset::Said("off"),
    doc: "`true` protects the upstream, for all of its routes.",
};
pub(crate) static PRIORITY: Key = Key {
    name: "priority",
    kind: Kind::AnyOf(
        "a priority such as \"high\", or a table such as `{ header = \"x-priority\" }`",
        &[PRIORITIES, Kind::Table(&BY_FIELD)],
    ),
    preset: Preset::Text("normal"),
    doc: "Who goes first in the queue of `concurrency`. `{ header = \"NAME\", default = \"normal\" }` takes the word from a field of the request; whoever can set it can push in.",
};
const PRIORITIES: Kind = Kind::Words(&words::<_, { Priority::COUNT }>(Priority::NAMES));
pub(crate) static BY_FIELD: Section = Section {
    example: "{ header = \"x-priority\" }",
    groups: &[&[&HEADER, &DEFAULT]],
    needs: Needs::Nothing,
};
pub(crate) static HEADER: Key = Key {
    name: "header",
    kind: Kind::Text(&forms::REQUEST_FIELD),
    preset: Preset::Required(forms::REQUEST_FIELD_EXPECTED),
    doc: "The field that says the priority of a request.",
};
pub(crate) static DEFAULT: Key = Key {
    name: "default",
    kind: PRIORITIES,
    preset: Preset::Text("normal"),
    doc: "The priority of requests without that field.",
};

/// A list of statuses.
static STATUSES: List = statuses(false);
/// A list with at least one.
static SOME_STATUSES: List = statuses(true);

/// Statuses of responses that a request ends with.
pub(crate) const STATUS_RANGE: RangeInclusive<u16> = 200..=599;

const fn statuses(is_never_empty: bool) -> List {
    List {
        of: STATUS,
        noun: "statuses",
        expected: "statuses such as [\"5xx\", \"502-504\", 429]",
        is_never_empty,
    }
}

const STATUS: Kind = Kind::AnyOf(
    STATUS_EXPECTED,
    &[
        Kind::Integer(*STATUS_RANGE.start() as u64..=*STATUS_RANGE.end() as u64),
        Kind::Text(&RANGE_OF_STATUSES),
    ],
);
static RANGE_OF_STATUSES: Form = Form {
    noun: "class or range of statuses",
    expected: STATUS_EXPECTED,
    pattern: Some("^([2-5]xx|[2-5][0-9][0-9]-[2-5][0-9][0-9])$"),
};
/// What an item of such a list looks like.
pub(crate) const STATUS_EXPECTED: &str =
    "a status from 200 to 599, a class such as \"5xx\" or a range such as \"502-504\"";
