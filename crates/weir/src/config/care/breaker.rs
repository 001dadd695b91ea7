//! `breaker`, of a route or of each endpoint of an upstream.

use std::time::Duration;

use weir_gateway::settings::{BreakerRule, StatusSet};
use weir_policy::breaker::{Settings, Slow};

use super::{count, rising, set, status};
use crate::config::declared::care::breaker as declared;
use crate::config::entry::{Entry, Switch};

/// Reads a breaker.
pub(super) fn rule(value: &Entry) -> Option<BreakerRule> {
    let mut rule = BreakerRule {
        breaker: Settings::default(),
        failures: StatusSet::server_errors(),
    };
    let mut table = match value.switch() {
        Switch::Off => return None,
        Switch::On => return Some(rule),
        Switch::Set(table) => table,
    };
    let breaker = &mut rule.breaker;
    let ratio = &mut breaker.failure_ratio;
    set(&mut table, &declared::RATIO, ratio, |value| {
        value.number().map(Some)
    });
    let window = &mut breaker.window;
    set(&mut table, &declared::TIME_WINDOW, window, Entry::duration);
    let min_requests = &mut breaker.min_requests;
    set(&mut table, &declared::MIN_REQUESTS, min_requests, count);
    let open_for = &mut breaker.open_for;
    let waits: [&mut Duration; 2] = [&mut open_for.first, &mut open_for.max];
    let keys = [&declared::OPEN_FOR, &declared::OPEN_FOR_MAX];
    rising(&mut table, keys, waits);
    let consecutive = table.optional(&declared::CONSECUTIVE);
    breaker.consecutive_failures = consecutive.and_then(|value| count(&value));
    let slow = table.optional(&declared::SLOW);
    let slow_ratio = table.optional(&declared::SLOW_RATIO);
    if let Some(ratio) = slow_ratio.as_ref().filter(|_| slow.is_none()) {
        ratio.wrong("has a meaning only with \"slow\", expected none here");
    }
    let ratio = slow_ratio.and_then(|value| value.number());
    let after = slow.and_then(|value| value.duration());
    breaker.slow = after.map(|after| Slow {
        after,
        ratio: ratio.unwrap_or(declared::SLOW_RATIO.preset.number()),
    });
    let failures = &mut rule.failures;
    set(&mut table, &declared::FAILURES, failures, status::set);
    set(
        &mut table,
        &declared::PROBES,
        &mut breaker.probes,
        |value| value.integer().map(|probes| probes as u8),
    );
    let successes = &mut breaker.probe_successes;
    set(&mut table, &declared::PROBE_SUCCESSES, successes, count);
    let recovery = &mut breaker.recovery;
    set(&mut table, &declared::RECOVERY, recovery, Entry::duration);
    table.finish();
    Some(rule)
}
