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

use std::time::Duration;

use weir_gateway::settings::{Limits, PriorityRule, RouteCare, RouteLimits};
use weir_policy::limit::priority::Priority;

use super::declared::Key;
use super::declared::care as declared;
use super::declared::care::rate::RATE;
use super::declared::forms::REQUEST_FIELD_EXPECTED;
use super::declared::route::BODY_LIMIT;
use super::entries::Entries;
use super::entry::Entry;
use super::headers::is_token;
use super::pattern::PathPattern;
use super::route::spread::Destination;
use super::units::show_duration;
use super::upstream::Upstreams;

/// What else the route says that its care depends on.
pub(super) struct Around<'a> {
    pub(super) upstreams: &'a Upstreams,
    /// Whom the route forwards to.
    pub(super) to: &'a Destination<'a>,
    pub(super) has_cache: bool,
}

/// What a route asks of every request; `path` is `None` when it had a mistake.
pub(super) fn limits(table: &mut Entries, path: Option<&PathPattern>, all: &Limits) -> RouteLimits {
    let rates = table.optional(&RATE);
    let body_bytes = table.size_bytes(&BODY_LIMIT);
    RouteLimits {
        rates: rates.map_or_else(Vec::new, |value| rate::rules(&value, path)),
        body_bytes: body_bytes.unwrap_or(all.body_bytes),
    }
}

/// The care of a route that forwards.
pub(super) fn route(table: &mut Entries, around: &Around) -> RouteCare {
    let breaker = table.optional(&declared::breaker::OF_ROUTE);
    let mut care = RouteCare {
        breaker: breaker.and_then(|value| breaker::rule(&value)),
        ..RouteCare::default()
    };
    set(table, &declared::PRIORITY, &mut care.priority, priority);
    set(table, &declared::retry::RETRY, &mut care.retry, retry::rule);
    care.retry.hedge = table
        .optional(&declared::retry::HEDGE)
        .and_then(|value| retry::hedge(&value));
    let fallback = table.optional(&declared::fallback::FALLBACK);
    care.fallback = fallback.and_then(|value| fallback::read(&value, around).map(Box::new));
    care
}

/// `"high"`, or `{ header = "x-priority", default = "normal" }`.
fn priority(value: &Entry) -> Option<PriorityRule> {
    if value.as_str().is_some() {
        return Some(PriorityRule {
            header: None,
            otherwise: value.choice(Priority::NAMES)?,
        });
    }
    if !value.is_table() {
        value.unexpected();
        return None;
    }
    let mut table = value.table()?;
    let mut rule = PriorityRule::default();
    let header = table.required(&declared::HEADER);
    rule.header = header.and_then(|value| value.parsed(field_name));
    set(
        &mut table,
        &declared::DEFAULT,
        &mut rule.otherwise,
        |value| value.choice(Priority::NAMES),
    );
    table.finish();
    Some(rule)
}

/// The name of a field, in lower case.
fn field_name(text: &str) -> Result<String, String> {
    if is_token(text) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!("expected {REQUEST_FIELD_EXPECTED}"))
    }
}

/// Puts what `key` says in the place of a default, if it says something sound.
fn set<'a, T>(
    table: &mut Entries<'a>,
    key: &'static Key,
    setting: &mut T,
    read: impl FnOnce(&Entry<'a>) -> Option<T>,
) {
    if let Some(said) = table.optional(key).and_then(|value| read(&value)) {
        *setting = said;
    }
}

/// A whole number; the end of every range of such numbers fits.
fn count(value: &Entry) -> Option<u32> {
    value.integer().map(|count| count as u32)
}

/// A time and one that is at least as long: where only the first is written down, it lengthens the second.
fn rising(
    table: &mut Entries,
    [low_key, high_key]: [&'static Key; 2],
    [low, high]: [&mut Duration; 2],
) {
    let written = table.optional(low_key);
    let read = written.as_ref().map(Entry::duration);
    let is_known = read != Some(None);
    *low = read.flatten().unwrap_or(*low);
    *high = (*high).max(*low);
    let Some(value) = table.optional(high_key) else {
        return;
    };
    match value.duration() {
        Some(said) if is_known && said < *low => {
            let least = show_duration(*low);
            value.expected(&format!("at least \"{}\", which is {least}", low_key.name));
        }
        Some(said) => *high = said,
        None => {}
    }
}
