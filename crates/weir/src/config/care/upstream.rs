//! What an upstream does for itself: `concurrency`, `ejection`, `breaker`, `health`, `retry_budget`, and `protect`, which
//! is the first two of them.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_gateway::settings::UpstreamCare;
use weir_policy::ejection;
use weir_policy::limit::concurrency::{self, AdaptiveSettings, Limit};

use super::{COUNT, PAUSE, SHARE, WINDOW, breaker, count, health, retry, rising, set};
use crate::config::file::DEADLINE;
use crate::config::read::Table;
use crate::config::value::{Switch, Value};

const CONCURRENCY_EXPECTED: &str = "an integer from 1 to 1000000, \"adaptive\", false or a table such as `{ limit = 64, queue = 128 }`";
const LIMITS_EXPECTED: &str = "`limit`, for all endpoints together, or `per_endpoint`";
const LIMIT_EXPECTED: &str = "an integer from 1 to 1000000, or \"adaptive\"";
/// All of the memory, some 60 bytes a waiter, is taken at the start.
const QUEUE: RangeInclusive<u64> = 0..=65_536;
const STREAMS: RangeInclusive<u64> = 0..=1_000_000;
const QUEUE_WAIT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

const EJECTION_EXPECTED: &str =
    "true, false or a table such as `{ max = 0.5, eject_for = \"5s\" }`";
const EJECTED_SHARE: RangeInclusive<f64> = 0.0..=1.0;
const SLOW_FACTOR: RangeInclusive<f64> = 1.5..=1000.0;

/// What an upstream says of `protect`, and what of it is not to be touched because the upstream says it itself.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::config) struct Protection {
    said: Option<bool>,
    has_concurrency: bool,
    has_ejection: bool,
}

impl Protection {
    /// Protects, on the word of a route.
    pub(in crate::config) fn ask(&mut self, care: &mut UpstreamCare) -> Result<(), &'static str> {
        if self.said == Some(false) {
            return Err(
                "found true, but the upstream has `protect = false`, expected both to say the same",
            );
        }
        self.protect(care);
        Ok(())
    }

    fn protect(self, care: &mut UpstreamCare) {
        if !self.has_concurrency {
            care.concurrency = Some(concurrency::Settings::default());
        }
        if !self.has_ejection {
            care.ejection = Some(ejection::Settings::default());
        }
    }
}

/// What `weir serve --protect` means.
pub(in crate::config) fn protected() -> UpstreamCare {
    let mut care = UpstreamCare::default();
    Protection::default().protect(&mut care);
    care
}

/// Reads the care of an upstream.
pub(in crate::config) fn read(table: &mut Table) -> (UpstreamCare, Protection) {
    let protect = table.optional("protect");
    let concurrency = table.optional("concurrency");
    let ejection = table.optional("ejection");
    let protection = Protection {
        said: protect.and_then(|value| value.boolean()),
        has_concurrency: concurrency.is_some(),
        has_ejection: ejection.is_some(),
    };
    let breaker = table.optional("breaker");
    let health = table.optional("health");
    let mut is_limited_per_endpoint = false;
    let concurrency =
        concurrency.and_then(|value| limit_and_queue(&value, &mut is_limited_per_endpoint));
    let mut care = UpstreamCare {
        concurrency,
        is_limited_per_endpoint,
        ejection: ejection.and_then(|value| eject(&value)),
        breaker: breaker.and_then(|value| breaker::rule(&value)),
        health: health.and_then(|value| health::read(&value)),
        ..UpstreamCare::default()
    };
    set(table, "retry_budget", &mut care.retry_budget, retry::budget);
    if protection.said == Some(true) {
        protection.protect(&mut care);
    }
    (care, protection)
}

/// `64`, `"adaptive"`, `{ limit = 64, queue = 128 }` or `{ per_endpoint = 16 }`, of which it is told.
fn limit_and_queue(value: &Value, is_per_endpoint: &mut bool) -> Option<concurrency::Settings> {
    let mut settings = concurrency::Settings::default();
    if value.as_bool() == Some(false) {
        return None;
    }
    if !value.is_table() {
        settings.limit = limit(value, CONCURRENCY_EXPECTED)?;
        return Some(settings);
    }
    let mut table = value.table(CONCURRENCY_EXPECTED)?;
    let together = table.optional("limit");
    if let Some(limit) = together
        .as_ref()
        .and_then(|value| limit(value, LIMIT_EXPECTED))
    {
        settings.limit = limit;
    }
    if let Some(each) = table.optional("per_endpoint") {
        *is_per_endpoint = true;
        if together.is_some() {
            each.wrong(format!("found beside `limit`, expected {LIMITS_EXPECTED}"));
        }
        if let Some(each) = count(&each, COUNT) {
            settings.limit = Limit::Fixed(each);
        }
    }
    let queue = &mut settings.queue;
    set(&mut table, "queue", &mut queue.waiters_max, |value| {
        value.integer(QUEUE).map(|waiters| waiters as usize)
    });
    set(&mut table, "streams", &mut settings.streams_max, |value| {
        value.integer(STREAMS).map(|streams| streams as u32)
    });
    let queue = &mut settings.queue;
    let waits = [&mut queue.target, &mut queue.interval];
    rising(
        &mut table,
        ["queue_target", "queue_interval"],
        waits,
        &QUEUE_WAIT,
    );
    table.finish();
    Some(settings)
}

fn limit(value: &Value, expected: &str) -> Option<Limit> {
    if value.as_str() == Some("adaptive") {
        return Some(Limit::Adaptive(AdaptiveSettings::default()));
    }
    let fixed = value.as_integer().filter(|limit| COUNT.contains(limit));
    if fixed.is_none() {
        value.expected(expected);
    }
    fixed.map(|limit| Limit::Fixed(limit as u32))
}

fn eject(value: &Value) -> Option<ejection::Settings> {
    let mut ejection = ejection::Settings::default();
    let mut table = match value.switch(EJECTION_EXPECTED) {
        Switch::Off => return None,
        Switch::On => return Some(ejection),
        Switch::Set(table) => table,
    };
    set(&mut table, "max", &mut ejection.max_ejected, |value| {
        value.number(&EJECTED_SHARE)
    });
    let consecutive = &mut ejection.consecutive_failures;
    set(&mut table, "consecutive", consecutive, |value| {
        count(value, COUNT).map(Some)
    });
    set(&mut table, "window", &mut ejection.window, |value| {
        value.duration(&WINDOW)
    });
    set(
        &mut table,
        "min_requests",
        &mut ejection.min_requests,
        |value| count(value, COUNT),
    );
    set(&mut table, "share", &mut ejection.failure_share, |value| {
        value.number(&SHARE)
    });
    let eject_for = &mut ejection.eject_for;
    let waits = [&mut eject_for.first, &mut eject_for.max];
    rising(&mut table, ["eject_for", "eject_for_max"], waits, &DEADLINE);
    set(
        &mut table,
        "slow_factor",
        &mut ejection.slow_factor,
        |value| value.number(&SLOW_FACTOR),
    );
    set(&mut table, "slow_min", &mut ejection.slow_min, |value| {
        value.duration(&PAUSE)
    });
    set(
        &mut table,
        "slow_start",
        &mut ejection.slow_start,
        |value| value.duration(&PAUSE),
    );
    table.finish();
    Some(ejection)
}
