//! What a route does so that its upstream is not broken by its load: `breaker`, `rate`, `priority`, `retry`, `hedge` and
//! `fallback`. What upstreams do is read in [`upstream`].
//!
//! What a key means stands in `weir_gateway::settings` and in `weir_policy`; here is only how it is written. Everything is
//! off unless it is written down.

mod breaker;
pub(super) mod fallback;
mod health;
mod rate;
mod retry;
mod status;
pub(super) mod upstream;

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_gateway::settings::{Limits, PriorityRule, RouteCare, RouteLimits};
use weir_policy::limit::priority::Priority;

use super::file::BODY_BYTES;
use super::headers::is_token;
use super::pattern::PathPattern;
use super::read::Table;
use super::units::show_duration;
use super::upstream::Upstreams;
use super::value::Value;

/// How many requests there must be before something is concluded from them.
const COUNT: RangeInclusive<u64> = 1..=1_000_000;
/// The share of requests from which on something is too much.
const SHARE: RangeInclusive<f64> = 0.01..=1.0;
/// The time over which requests are counted.
const WINDOW: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
/// A time that may be none.
const PAUSE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);

const PRIORITY_EXPECTED: &str =
    "a priority such as \"high\", or a table such as `{ header = \"x-priority\" }`";

/// What else the route says that its care depends on.
pub(super) struct Around<'a> {
    pub(super) upstreams: &'a Upstreams,
    /// The route's own; `None` when it had a mistake.
    pub(super) upstream: Option<usize>,
    pub(super) has_cache: bool,
}

/// What a route asks of every request; `path` is `None` when it had a mistake.
pub(super) fn limits(table: &mut Table, path: Option<&PathPattern>, all: &Limits) -> RouteLimits {
    let rates = table.optional("rate");
    let body_limit = table.optional("body_limit");
    let body_bytes = body_limit.and_then(|value| value.size_bytes(&BODY_BYTES));
    RouteLimits {
        rates: rates.map_or_else(Vec::new, |value| rate::rules(&value, path)),
        body_bytes: body_bytes.unwrap_or(all.body_bytes),
    }
}

/// The care of a route that forwards.
pub(super) fn route(table: &mut Table, around: &Around) -> RouteCare {
    let breaker = table.optional("breaker");
    let mut care = RouteCare {
        breaker: breaker.and_then(|value| breaker::rule(&value)),
        ..RouteCare::default()
    };
    set(table, "priority", &mut care.priority, priority);
    set(table, "retry", &mut care.retry, retry::rule);
    care.retry.hedge = table
        .optional("hedge")
        .and_then(|value| retry::hedge(&value));
    let fallback = table.optional("fallback");
    care.fallback = fallback.and_then(|value| fallback::read(&value, around).map(Box::new));
    care
}

/// `"high"`, or `{ header = "x-priority", default = "normal" }`.
fn priority(value: &Value) -> Option<PriorityRule> {
    if value.as_str().is_some() {
        return Some(PriorityRule {
            header: None,
            otherwise: value.choice(Priority::NAMES)?,
        });
    }
    if !value.is_table() {
        value.expected(PRIORITY_EXPECTED);
        return None;
    }
    let mut table = value.table(PRIORITY_EXPECTED)?;
    let mut rule = PriorityRule::default();
    let header = table.required("header", FIELD_EXPECTED);
    rule.header = header.and_then(|value| value.parsed(FIELD_EXPECTED, field_name));
    set(&mut table, "default", &mut rule.otherwise, |value| {
        value.choice(Priority::NAMES)
    });
    table.finish();
    Some(rule)
}

const FIELD_EXPECTED: &str = "the name of a request field such as \"x-priority\"";

/// The name of a field, in lower case.
fn field_name(text: &str) -> Result<String, String> {
    if is_token(text) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!("expected {FIELD_EXPECTED}"))
    }
}

/// Puts what `key` says in the place of a default, if it says something sound.
fn set<T>(
    table: &mut Table,
    key: &'static str,
    setting: &mut T,
    read: impl FnOnce(&Value) -> Option<T>,
) {
    if let Some(said) = table.optional(key).and_then(|value| read(&value)) {
        *setting = said;
    }
}

/// A whole number within `range`, whose end fits.
fn count(value: &Value, range: RangeInclusive<u64>) -> Option<u32> {
    value.integer(range).map(|count| count as u32)
}

/// A time and one that is at least as long: where only the first is written down, it lengthens the second.
fn rising(
    table: &mut Table,
    [low_key, high_key]: [&'static str; 2],
    [low, high]: [&mut Duration; 2],
    range: &RangeInclusive<Duration>,
) {
    let written = table.optional(low_key);
    let read = written.as_ref().map(|value| value.duration(range));
    let is_known = read != Some(None);
    *low = read.flatten().unwrap_or(*low);
    *high = (*high).max(*low);
    let Some(value) = table.optional(high_key) else {
        return;
    };
    match value.duration(range) {
        Some(said) if is_known && said < *low => {
            let least = show_duration(*low);
            value.expected(&format!("at least \"{low_key}\", which is {least}"));
        }
        Some(said) => *high = said,
        None => {}
    }
}
