//! `retry` and `hedge` of a route, and the `retry_budget` of an upstream that both are paid from.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_gateway::settings::RetryRule;
use weir_policy::hedge;
use weir_policy::retry::BudgetSettings;

use super::{count, rising, set, status};
use crate::config::file::DEADLINE;
use crate::config::value::{Switch, Value};

const EXPECTED: &str = "an integer from 0 to 9, or a table such as `{ attempts = 3 }`";
const ATTEMPTS: RangeInclusive<u64> = 1..=10;
/// What a table means that does not say it.
const ATTEMPTS_DEFAULT: u32 = 3;
const BACKOFF: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);

const HEDGE_EXPECTED: &str = "true, false or a table such as `{ quantile = 0.95 }`";
const QUANTILE: RangeInclusive<f64> = 0.5..=0.999;
const HEDGE_MIN: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);

const BUDGET_EXAMPLE: &str = "{ ratio = 0.2, min_per_s = 3 }";
const BUDGET_RATIO: RangeInclusive<f64> = 0.0..=10.0;
const BUDGET_MIN_PER_S: RangeInclusive<f64> = 0.0..=1_000_000.0;
const BUDGET_TTL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// `2`, which is how often a request is sent again, or `{ attempts = 3 }`, which is how often it is sent.
pub(super) fn rule(value: &Value) -> Option<RetryRule> {
    let mut rule = RetryRule::default();
    if !value.is_table() {
        let attempts = value.as_integer().and_then(|again| again.checked_add(1));
        let attempts = attempts.filter(|attempts| ATTEMPTS.contains(attempts));
        if attempts.is_none() {
            value.expected(EXPECTED);
        }
        rule.attempts = attempts? as u32;
        return Some(rule);
    }
    let mut table = value.table(EXPECTED)?;
    rule.attempts = ATTEMPTS_DEFAULT;
    set(&mut table, "attempts", &mut rule.attempts, |value| {
        count(value, ATTEMPTS)
    });
    set(&mut table, "statuses", &mut rule.statuses, status::set);
    let per_try = table.optional("per_try");
    rule.per_try = per_try.and_then(|value| value.duration(&DEADLINE));
    let backoff = &mut rule.backoff;
    let waits = [&mut backoff.first, &mut backoff.max];
    rising(&mut table, ["backoff", "backoff_max"], waits, &BACKOFF);
    table.finish();
    Some(rule)
}

/// Reads a `hedge`.
pub(super) fn hedge(value: &Value) -> Option<hedge::Settings> {
    let mut hedge = hedge::Settings::default();
    let mut table = match value.switch(HEDGE_EXPECTED) {
        Switch::Off => return None,
        Switch::On => return Some(hedge),
        Switch::Set(table) => table,
    };
    set(&mut table, "quantile", &mut hedge.quantile, |value| {
        value.number(&QUANTILE)
    });
    set(&mut table, "min", &mut hedge.min, |value| {
        value.duration(&HEDGE_MIN)
    });
    table.finish();
    Some(hedge)
}

/// Reads a `retry_budget`.
pub(super) fn budget(value: &Value) -> Option<BudgetSettings> {
    let mut table = value.table(BUDGET_EXAMPLE)?;
    let mut budget = BudgetSettings::default();
    set(&mut table, "ratio", &mut budget.ratio, |value| {
        value.number(&BUDGET_RATIO)
    });
    set(&mut table, "min_per_s", &mut budget.min_per_s, |value| {
        value.number(&BUDGET_MIN_PER_S)
    });
    set(&mut table, "ttl", &mut budget.ttl, |value| {
        value.duration(&BUDGET_TTL)
    });
    table.finish();
    Some(budget)
}
