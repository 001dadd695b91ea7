//! `breaker`, of a route or of each endpoint of an upstream.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_gateway::settings::{BreakerRule, StatusSet};
use weir_policy::breaker::{PROBES_MAX, Settings, Slow};

use super::{COUNT, PAUSE, SHARE, WINDOW, count, rising, set, status};
use crate::config::file::DEADLINE;
use crate::config::value::{Switch, Value};

const EXPECTED: &str = "true, false or a table such as `{ ratio = 0.5, open_for = \"5s\" }`";
const PROBES: RangeInclusive<u64> = 1..=PROBES_MAX as u64;
const PROBE_SUCCESSES: RangeInclusive<u64> = 1..=1000;
/// Too many are slow when this share is, unless the config says otherwise.
const SLOW_RATIO_DEFAULT: f64 = 0.5;

/// Reads a breaker.
pub(super) fn rule(value: &Value) -> Option<BreakerRule> {
    let mut rule = BreakerRule {
        breaker: Settings::default(),
        failures: StatusSet::server_errors(),
    };
    let mut table = match value.switch(EXPECTED) {
        Switch::Off => return None,
        Switch::On => return Some(rule),
        Switch::Set(table) => table,
    };
    let breaker = &mut rule.breaker;
    set(&mut table, "ratio", &mut breaker.failure_ratio, |value| {
        value.number(&SHARE).map(Some)
    });
    set(&mut table, "window", &mut breaker.window, |value| {
        value.duration(&WINDOW)
    });
    set(
        &mut table,
        "min_requests",
        &mut breaker.min_requests,
        |value| count(value, COUNT),
    );
    let open_for = &mut breaker.open_for;
    let waits: [&mut Duration; 2] = [&mut open_for.first, &mut open_for.max];
    rising(&mut table, ["open_for", "open_for_max"], waits, &DEADLINE);
    let consecutive = table.optional("consecutive");
    breaker.consecutive_failures = consecutive.and_then(|value| count(&value, COUNT));
    let slow = table.optional("slow");
    let slow_ratio = table.optional("slow_ratio");
    if let Some(ratio) = slow_ratio.as_ref().filter(|_| slow.is_none()) {
        ratio.wrong("has a meaning only with \"slow\", expected none here");
    }
    let ratio = slow_ratio.and_then(|value| value.number(&SHARE));
    let after = slow.and_then(|value| value.duration(&DEADLINE));
    breaker.slow = after.map(|after| Slow {
        after,
        ratio: ratio.unwrap_or(SLOW_RATIO_DEFAULT),
    });
    set(&mut table, "statuses", &mut rule.failures, status::set);
    set(&mut table, "probes", &mut breaker.probes, |value| {
        value.integer(PROBES).map(|probes| probes as u8)
    });
    let successes = &mut breaker.probe_successes;
    set(&mut table, "probe_successes", successes, |value| {
        count(value, PROBE_SUCCESSES)
    });
    set(&mut table, "recovery", &mut breaker.recovery, |value| {
        value.duration(&PAUSE)
    });
    table.finish();
    Some(rule)
}
