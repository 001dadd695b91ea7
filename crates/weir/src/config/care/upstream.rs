//! What an upstream does for itself: `concurrency`, `ejection`, `breaker`, `health`, `retry_budget`, and `protect`, which
//! is the first two of them.

use std::time::Duration;

use weir_gateway::settings::UpstreamCare;
use weir_policy::ejection;
use weir_policy::limit::concurrency::{self, AdaptiveSettings, Limit};

use super::{breaker, count, health, retry, rising, set};
use crate::config::declared::care::{self as declared, upstream as keys};
use crate::config::entries::Entries;
use crate::config::entry::{Entry, Switch};

const LIMITS_EXPECTED: &str = "`limit`, for all endpoints together, or `per_endpoint`";

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
pub(in crate::config) fn read(table: &mut Entries) -> (UpstreamCare, Protection) {
    let protect = table.optional(&keys::PROTECT);
    let concurrency = table.optional(&keys::CONCURRENCY);
    let ejection = table.optional(&keys::EJECTION);
    let protection = Protection {
        said: protect.and_then(|value| value.boolean()),
        has_concurrency: concurrency.is_some(),
        has_ejection: ejection.is_some(),
    };
    let breaker = table.optional(&declared::breaker::OF_UPSTREAM);
    let health = table.optional(&declared::health::HEALTH);
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
    let budget = &mut care.retry_budget;
    set(table, &declared::retry::BUDGET, budget, retry::budget);
    if protection.said == Some(true) {
        protection.protect(&mut care);
    }
    (care, protection)
}

/// `64`, `"adaptive"`, `{ limit = 64, queue = 128 }` or `{ per_endpoint = 16 }`, of which it is told.
fn limit_and_queue(value: &Entry, is_per_endpoint: &mut bool) -> Option<concurrency::Settings> {
    let mut settings = concurrency::Settings::default();
    if value.as_bool() == Some(false) {
        return None;
    }
    if !value.is_table() {
        settings.limit = limit(value)?;
        return Some(settings);
    }
    let mut table = value.table()?;
    let together = table.optional(&keys::LIMIT);
    if let Some(limit) = together.as_ref().and_then(limit) {
        settings.limit = limit;
    }
    if let Some(each) = table.optional(&keys::PER_ENDPOINT) {
        *is_per_endpoint = true;
        if together.is_some() {
            each.wrong(format!("found beside `limit`, expected {LIMITS_EXPECTED}"));
        }
        if let Some(each) = count(&each) {
            settings.limit = Limit::Fixed(each);
        }
    }
    let queue = &mut settings.queue;
    set(&mut table, &keys::QUEUE, &mut queue.waiters_max, |value| {
        value.integer().map(|waiters| waiters as usize)
    });
    let waits = [&mut queue.target, &mut queue.interval];
    rising(
        &mut table,
        [&keys::QUEUE_TARGET, &keys::QUEUE_INTERVAL],
        waits,
    );
    set(&mut table, &keys::STREAMS, &mut settings.streams_max, count);
    table.finish();
    Some(settings)
}

fn limit(value: &Entry) -> Option<Limit> {
    if value.as_str() == Some("adaptive") {
        return Some(Limit::Adaptive(AdaptiveSettings::default()));
    }
    let fixed = value.as_integer();
    if fixed.is_none() {
        value.unexpected();
    }
    fixed.map(|limit| Limit::Fixed(limit as u32))
}

fn eject(value: &Entry) -> Option<ejection::Settings> {
    let mut ejection = ejection::Settings::default();
    let mut table = match value.switch() {
        Switch::Off => return None,
        Switch::On => return Some(ejection),
        Switch::Set(table) => table,
    };
    let max = &mut ejection.max_ejected;
    set(&mut table, &keys::MAX, max, Entry::number);
    let consecutive = &mut ejection.consecutive_failures;
    set(&mut table, &keys::CONSECUTIVE, consecutive, |value| {
        count(value).map(Some)
    });
    let window = &mut ejection.window;
    set(&mut table, &keys::TIME_WINDOW, window, Entry::duration);
    let min_requests = &mut ejection.min_requests;
    set(&mut table, &keys::MIN_REQUESTS, min_requests, count);
    let share = &mut ejection.failure_share;
    set(&mut table, &keys::FAILED_SHARE, share, Entry::number);
    let eject_for = &mut ejection.eject_for;
    let waits: [&mut Duration; 2] = [&mut eject_for.first, &mut eject_for.max];
    rising(&mut table, [&keys::EJECT_FOR, &keys::EJECT_FOR_MAX], waits);
    let slow_factor = &mut ejection.slow_factor;
    set(&mut table, &keys::SLOW_FACTOR, slow_factor, Entry::number);
    let slow_min = &mut ejection.slow_min;
    set(&mut table, &keys::SLOW_MIN, slow_min, Entry::duration);
    let slow_start = &mut ejection.slow_start;
    set(&mut table, &keys::SLOW_START, slow_start, Entry::duration);
    table.finish();
    Some(ejection)
}
