//! `retry` and `hedge` of a route, and the `retry_budget` of an upstream that both are paid from.

use weir_gateway::settings::RetryRule;
use weir_policy::hedge;
use weir_policy::retry::BudgetSettings;

use super::{count, rising, set, status};
use crate::config::declared::care::retry::{
    AGAIN_AFTER, ATTEMPTS, BACKOFF, BACKOFF_MAX, MIN, MIN_PER_S, PER_TRY, QUANTILE, RATIO, TTL,
};
use crate::config::entry::{Entry, Switch};

/// `2`, which is how often a request is sent again, or `{ attempts = 3 }`, which is how often it is sent.
pub(super) fn rule(value: &Entry) -> Option<RetryRule> {
    let mut rule = RetryRule::default();
    if !value.is_table() {
        let again = value.as_integer();
        if again.is_none() {
            value.unexpected();
        }
        rule.attempts = again? as u32 + 1;
        return Some(rule);
    }
    let mut table = value.table()?;
    rule.attempts = ATTEMPTS.preset.integer() as u32;
    set(&mut table, &ATTEMPTS, &mut rule.attempts, count);
    set(&mut table, &AGAIN_AFTER, &mut rule.statuses, status::set);
    rule.per_try = table.duration(&PER_TRY);
    let backoff = &mut rule.backoff;
    let waits = [&mut backoff.first, &mut backoff.max];
    rising(&mut table, [&BACKOFF, &BACKOFF_MAX], waits);
    table.finish();
    Some(rule)
}

/// Reads a `hedge`.
pub(super) fn hedge(value: &Entry) -> Option<hedge::Settings> {
    let mut hedge = hedge::Settings::default();
    let mut table = match value.switch() {
        Switch::Off => return None,
        Switch::On => return Some(hedge),
        Switch::Set(table) => table,
    };
    set(&mut table, &QUANTILE, &mut hedge.quantile, Entry::number);
    set(&mut table, &MIN, &mut hedge.min, Entry::duration);
    table.finish();
    Some(hedge)
}

/// Reads a `retry_budget`.
pub(super) fn budget(value: &Entry) -> Option<BudgetSettings> {
    let mut table = value.table()?;
    let mut budget = BudgetSettings::default();
    set(&mut table, &RATIO, &mut budget.ratio, Entry::number);
    set(&mut table, &MIN_PER_S, &mut budget.min_per_s, Entry::number);
    set(&mut table, &TTL, &mut budget.ttl, Entry::duration);
    table.finish();
    Some(budget)
}
