//! While a load runs, a service behind the entry is made bad and then well again. It is asked how many requests reach
//! it.
//!
//! The service must have `/fault`: `weir app --faults`. The report says what that means for whoever chose the service.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_load::report::Report;

use super::ask::{ask, unix};
use crate::error::LabError;
use crate::raw::{Incident, Lapse, Reached};
use crate::scenario::Fault;

/// How often the service is asked.
const LOOK: Duration = Duration::from_millis(100);

/// What was done to a service, and when, in seconds since the epoch.
#[derive(Debug)]
pub(super) struct Caused<'f> {
    fault: &'f Fault,
    from_unix: f64,
    to_unix: f64,
    /// When the service was asked, and how many requests had reached it by then.
    counts: Vec<(f64, u64)>,
}

/// The answer of the service.
#[derive(Debug, Deserialize)]
struct State {
    requests: u64,
}

/// Causes `fault` at the service at `address`, during a load of this `length` that begins now.
pub(super) fn cause<'f>(
    fault: &'f Fault,
    address: SocketAddr,
    length: Duration,
    stop: &AtomicBool,
) -> Result<Caused<'f>, LabError> {
    let began = Instant::now();
    let [from, to] = [fault.from, fault.to].map(|share| length.mul_f64(share));
    let mut caused = Caused {
        fault,
        from_unix: f64::INFINITY,
        to_unix: f64::INFINITY,
        counts: Vec::new(),
    };
    while began.elapsed() < length && !stop.load(Ordering::Relaxed) {
        let next = began.elapsed() + LOOK;
        if caused.from_unix.is_infinite() && began.elapsed() >= from {
            let mode = format!("POST /fault?mode={}", fault.mode);
            let _: State = ask(&mode, address).map_err(|why| failed(fault, &why))?;
            caused.from_unix = unix();
        } else if caused.to_unix.is_infinite() && began.elapsed() >= to {
            caused.to_unix = unix();
            let _: State =
                ask("POST /fault?mode=none", address).map_err(|why| failed(fault, &why))?;
        }
        let state: State = ask("GET /fault", address).map_err(|why| failed(fault, &why))?;
        caused.counts.push((unix(), state.requests));
        std::thread::sleep(next.saturating_sub(began.elapsed()));
    }
    // The load may have been stopped early, or may end with the fault.
    caused.from_unix = caused.from_unix.min(unix());
    caused.to_unix = caused.to_unix.min(unix());
    Ok(caused)
}

fn failed(fault: &Fault, why: &str) -> LabError {
    LabError::Service {
        name: fault.service.clone(),
        why: format!("it was to go wrong on purpose: {why}"),
    }
}

impl Caused<'_> {
    /// The incident, with what `report` says about the same time.
    pub(super) fn incident(&self, report: &Report, rate: f64) -> Incident {
        let at = |unix: f64| unix - report.started_unix;
        let lapses = report.lapses.iter().map(|lapse| Lapse {
            due_s: lapse.due_s,
            failed: lapse.failed,
            slow: lapse.slow,
        });
        let reached = self.counts.windows(2).map(|pair| Reached {
            from_s: at(pair[0].0),
            to_s: at(pair[1].0),
            requests: pair[1].1 - pair[0].1,
        });
        Incident {
            service: self.fault.service.clone(),
            mode: self.fault.mode.clone(),
            from_s: at(self.from_unix),
            to_s: at(self.to_unix),
            rate,
            lapses: lapses.collect(),
            reached: reached.collect(),
        }
    }
}
