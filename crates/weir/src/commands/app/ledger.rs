//! What became of events, at either end: how many were made here and taken by somebody, how many were handled here, when, and
//! how long they had been on their way.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde_json::json;

use super::events::{Event, now_us};

/// An event that was on its way for longer counts as this.
const LATENCY_MAX: Duration = Duration::from_secs(3600);
/// Counts are kept for each tenth of a second in which something happened.
const TICK_MS: u64 = 100;
/// So many of them, which is an hour; what comes later is counted and has no time.
const TICKS_MAX: usize = 36_000;
/// Events that are remembered, to know them when they come again.
const REMEMBERED_MAX: usize = 1 << 22;

/// The events of this process.
#[derive(Debug)]
pub(super) struct Ledger(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    made: Timed,
    refused: u64,
    unknown: u64,
    handled: Timed,
    again: u64,
    /// Maker and number of what was handled.
    seen: HashSet<(u32, u32)>,
    /// Nanoseconds from when an event was made until it was handled for the first time.
    latencies: Histogram<u64>,
}

/// A count, and how it grew.
#[derive(Debug, Default)]
struct Timed {
    count: u64,
    /// The end of a tick in milliseconds since 1970, and the count by then.
    ticks: Vec<(u64, u64)>,
}

impl Timed {
    fn add(&mut self, now_us: u64) {
        self.count += 1;
        let end_ms = (now_us / 1000 / TICK_MS + 1) * TICK_MS;
        let has_room = self.ticks.len() < TICKS_MAX;
        match self.ticks.last_mut() {
            Some((last_ms, count)) if *last_ms >= end_ms => *count = self.count,
            _ if has_room => self.ticks.push((end_ms, self.count)),
            _ => {}
        }
    }
}

impl Default for Ledger {
    fn default() -> Self {
        let latencies = Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, 3);
        Self(Mutex::new(Counts {
            made: Timed::default(),
            refused: 0,
            unknown: 0,
            handled: Timed::default(),
            again: 0,
            seen: HashSet::new(),
            latencies: latencies.expect("the bounds are possible"),
        }))
    }
}

/// An event that is on its way to whoever takes it. Dropped before its end is known, it counts as unknown.
pub(super) struct Sending<'l>(Option<&'l Ledger>);

impl Sending<'_> {
    /// It was taken, or it was not.
    pub(super) fn ended(mut self, is_taken: bool) {
        if let Some(ledger) = self.0.take() {
            let mut counts = ledger.lock();
            if is_taken {
                counts.made.add(now_us());
            } else {
                counts.refused += 1;
            }
        }
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(ledger) = self.0.take() {
            ledger.lock().unknown += 1;
        }
    }
}

impl Ledger {
    /// An event is sent.
    pub(super) fn sending(&self) -> Sending<'_> {
        Sending(Some(self))
    }

    /// Counts an event that was handled. One that is not of this program has neither number nor time.
    pub(super) fn handled(&self, event: &[u8]) {
        let now_us = now_us();
        let event: Option<Event> = serde_json::from_slice(event).ok();
        let mut counts = self.lock();
        if let Some(event) = event {
            let name = (event.maker, event.number);
            if counts.seen.contains(&name) {
                counts.again += 1;
                return;
            }
            if counts.seen.len() < REMEMBERED_MAX {
                counts.seen.insert(name);
            }
            let ns = now_us.saturating_sub(event.made_us).saturating_mul(1000);
            counts.latencies.saturating_record(ns);
        }
        counts.handled.add(now_us);
    }

    /// The counts as JSON.
    pub(super) fn counts(&self) -> String {
        let counts = self.lock();
        json!({
            "made": counts.made.count,
            "refused": counts.refused,
            "unknown": counts.unknown,
            "handled": counts.handled.count,
            "again": counts.again,
        })
        .to_string()
    }

    /// What the counts were when, and the latencies, as JSON.
    pub(super) fn times(&self) -> String {
        let counts = self.lock();
        let ms = |quantile| counts.latencies.value_at_quantile(quantile) as f64 / 1e6;
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&counts.latencies, &mut bytes)
            .expect("a histogram of latencies fits into memory");
        json!({
            "made": counts.made.ticks,
            "handled": counts.handled.ticks,
            "p50_ms": ms(0.5),
            "p99_ms": ms(0.99),
            "max_ms": ms(1.0),
            "histogram": BASE64.encode(bytes),
        })
        .to_string()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use serde_json::Value;

    use super::*;
    use crate::commands::app::events::Maker;

    #[test]
    fn each_event_counts_once_however_often_it_comes() {
        let ledger = Ledger::default();
        let event = Maker::new(Rng::with_seed(1)).make();
        ledger.handled(&event);
        ledger.handled(&event);
        ledger.handled(b"an event of somebody else");
        ledger.sending().ended(true);
        ledger.sending().ended(false);
        drop(ledger.sending());
        let counts = json!({ "made": 1, "refused": 1, "unknown": 1, "handled": 2, "again": 1 });
        assert_eq!(ledger.counts(), counts.to_string());
        let latencies = &ledger.lock().latencies;
        assert_eq!(latencies.len(), 1);
        assert!((1..60_000_000_000).contains(&latencies.max()));
    }

    #[test]
    fn counts_have_times() {
        let mut timed = Timed::default();
        for now_us in [1_000_000, 1_099_999, 1_100_000, 1_050_000, 1_500_000] {
            timed.add(now_us);
        }
        assert_eq!(timed.ticks, [(1_100, 2), (1_200, 4), (1_600, 5)]);
        let ledger = Ledger::default();
        ledger.sending().ended(true);
        let times: Value = serde_json::from_str(&ledger.times()).expect("JSON");
        assert_eq!(times["made"][0][1], 1);
        assert!(times["histogram"].is_string());
    }
}
