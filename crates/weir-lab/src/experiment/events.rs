//! The way of events from the service that makes them to the one that handles them: how many there are at either end by when,
//! and how long they took.
//!
//! Both are `weir app`, which notes that itself; it is asked before a load, and after it until all events are handled. What the
//! counts mean for a user is said in the report.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde::Deserialize;

use super::ask::ask;
use crate::error::LabError;
use crate::generator;
use crate::raw::{self, Counted};
use crate::scenario::Events;
use crate::services::Services;

/// How often both are asked whether all is handled.
const LOOK: Duration = Duration::from_millis(100);

/// Two services between which events are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way<'s> {
    events: &'s Events,
    from: SocketAddr,
    to: SocketAddr,
}

/// What there was at both ends before a load.
#[derive(Debug)]
pub(super) struct Before {
    made: u64,
    unknown: u64,
    handled: u64,
    again: u64,
    /// Nanoseconds from end to end.
    latencies: Histogram<u64>,
}

/// The answer of `GET /stats`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Stats {
    made: u64,
    unknown: u64,
    handled: u64,
    again: u64,
}

/// The answer of `GET /stats/times`: counts by milliseconds since 1970.
#[derive(Debug, Deserialize)]
struct Times {
    made: Vec<(u64, u64)>,
    handled: Vec<(u64, u64)>,
    histogram: String,
}

impl<'s> Way<'s> {
    /// The way of `events` between running services.
    pub(super) fn between(events: &'s Events, services: &Services<'_>) -> Result<Self, LabError> {
        let address = |name: &str| {
            let missing = || failed(name, "it does not listen on TCP".to_owned());
            services.address(name).ok_or_else(missing)
        };
        Ok(Self {
            events,
            from: address(&events.from)?,
            to: address(&events.to)?,
        })
    }

    /// Waits until the events of the warm-up are handled.
    pub(super) fn settle(&self, stop: &AtomicBool) -> Result<Before, LabError> {
        let ((from, to), is_handled) = self.until_handled(stop)?;
        if !is_handled {
            let seconds = self.events.patience.as_secs_f64();
            let why = format!("what the warm-up made is not handled within {seconds} s");
            return Err(failed(&self.events.to, why));
        }
        Ok(Before {
            made: from.made,
            unknown: from.unknown,
            handled: to.handled,
            again: to.again,
            latencies: latencies(&times(&self.events.to, self.to)?)
                .map_err(|why| failed(&self.events.to, why))?,
        })
    }

    /// Waits until the events of a load are handled, or the patience is over: the events since `before`. The load began at
    /// `started_unix` and took `load_s` seconds.
    pub(super) fn finish(
        &self,
        before: &Before,
        stop: &AtomicBool,
        (started_unix, load_s): (f64, f64),
    ) -> Result<raw::Events, LabError> {
        let ((from, to), _) = self.until_handled(stop)?;
        let made = times(&self.events.from, self.from)?;
        let handled = times(&self.events.to, self.to)?;
        let mut latencies = latencies(&handled).map_err(|why| failed(&self.events.to, why))?;
        let subtracted = latencies.subtract(&before.latencies);
        subtracted.map_err(|_| failed(&self.events.to, "its latencies went down".to_owned()))?;
        let since = |ticks: &[(u64, u64)], before: u64| -> Vec<Counted> {
            let ticks = ticks.iter().filter(|(_, count)| *count > before);
            ticks
                .map(|(at_ms, count)| Counted {
                    at_s: *at_ms as f64 / 1e3 - started_unix,
                    count: count - before,
                })
                .collect()
        };
        Ok(raw::Events {
            from: self.events.from.clone(),
            to: self.events.to.clone(),
            load_s,
            unknown: from.unknown - before.unknown,
            again: to.again - before.again,
            made: since(&made.made, before.made),
            handled: since(&handled.handled, before.handled),
            latency_us: generator::percentiles_us(&latencies),
            histogram: generator::base64(&latencies),
        })
    }

    /// Asks both ends until nothing is on its way any more; what they said last, and whether that came to be. A service that has used
    /// up its share of a CPU may be late with its answer.
    fn until_handled(&self, stop: &AtomicBool) -> Result<((Stats, Stats), bool), LabError> {
        let began = Instant::now();
        let mut last: Option<(Stats, Stats)> = None;
        loop {
            let from = ask::<Stats>("GET /stats", self.from);
            let to = ask::<Stats>("GET /stats", self.to);
            let is_late = began.elapsed() > self.events.patience || stop.load(Ordering::Relaxed);
            match (from, to) {
                (Ok(from), Ok(to)) => {
                    // A request that is still answered may make one more.
                    let is_quiet = last.is_some_and(|(before, _)| before == from);
                    let is_handled = is_quiet && to.handled >= from.made;
                    if is_handled || is_late {
                        return Ok(((from, to), is_handled));
                    }
                    last = Some((from, to));
                }
                (Err(why), _) if is_late => return Err(failed(&self.events.from, why)),
                (_, Err(why)) if is_late => return Err(failed(&self.events.to, why)),
                _ => {}
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn times(name: &str, address: SocketAddr) -> Result<Times, LabError> {
    ask("GET /stats/times", address).map_err(|why| failed(name, why))
}

fn latencies(times: &Times) -> Result<Histogram<u64>, String> {
    let bytes = BASE64.decode(&times.histogram).ok();
    let read = bytes.and_then(|bytes| Deserializer::new().deserialize(&mut &bytes[..]).ok());
    read.ok_or_else(|| "its latencies cannot be read".to_owned())
}

fn failed(name: &str, why: String) -> LabError {
    LabError::Events {
        name: name.to_owned(),
        why,
    }
}
