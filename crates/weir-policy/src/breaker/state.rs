//! The states of a breaker with their data, and the rules inside a state.

use super::{Counts, PROBES_MAX, Settings};
use crate::outcome::Outcome;
use crate::window::Window;
use std::time::Instant;

#[derive(Debug)]
pub(super) enum State {
    Closed(Tally),
    Open { until: Instant },
    HalfOpen(Probes),
    Recovering { since: Instant, tally: Tally },
}

/// What an outcome means for the current state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    Trip,
    Recover,
}

/// Counts requests while they are admitted.
#[derive(Debug)]
pub(super) struct Tally {
    window: Window<3>,
    failures_in_a_row: u32,
}

const REQUESTS: usize = 0;
const FAILURES: usize = 1;
const SLOW: usize = 2;

/// A tenth of a millionth of a request: the most that rounding takes off a sum.
const ROUNDING: f64 = 1e-7;

impl Tally {
    pub(super) fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            window: Window::new(settings.window, now),
            failures_in_a_row: 0,
        }
    }

    pub(super) fn count(&mut self, settings: &Settings, now: Instant, outcome: Outcome) -> Verdict {
        let Some(latency) = outcome.latency() else {
            return Verdict::Stay;
        };
        self.window.add(now, REQUESTS, 1);
        if matches!(outcome, Outcome::Failure(_)) {
            self.window.add(now, FAILURES, 1);
            self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        } else {
            self.failures_in_a_row = 0;
        }
        if settings.slow.is_some_and(|slow| latency > slow.after) {
            self.window.add(now, SLOW, 1);
        }
        if self.is_too_much(settings, now) {
            Verdict::Trip
        } else {
            Verdict::Stay
        }
    }

    fn is_too_much(&mut self, settings: &Settings, now: Instant) -> bool {
        let in_a_row = self.failures_in_a_row;
        if settings
            .consecutive_failures
            .is_some_and(|limit| in_a_row >= limit.max(1))
        {
            return true;
        }
        // The common case, all successes, needs no sums.
        if !self.window.has(FAILURES) && !self.window.has(SLOW) {
            return false;
        }
        let counts = self.window.counts(now);
        if counts[REQUESTS] + ROUNDING < f64::from(settings.min_requests) {
            return false;
        }
        // A ratio of zero still needs one such request.
        let reaches = |count: f64, ratio: Option<f64>| {
            ratio.is_some_and(|ratio| count > 0.0 && count + ROUNDING >= ratio * counts[REQUESTS])
        };
        reaches(counts[FAILURES], settings.failure_ratio)
            || reaches(counts[SLOW], settings.slow.map(|slow| slow.ratio))
    }

    pub(super) fn counts(&mut self, now: Instant) -> Counts {
        let counts = self.window.counts(now).map(|count| count.round() as u32);
        Counts {
            requests: counts[REQUESTS],
            failures: counts[FAILURES],
            slow: counts[SLOW],
        }
    }
}

/// The probes of one half-open state.
#[derive(Debug)]
pub(super) struct Probes {
    /// When each probe in flight becomes overdue.
    due: [Option<Instant>; PROBES_MAX as usize],
    successes: u32,
}

impl Probes {
    pub(super) fn new() -> Self {
        Self {
            due: [None; PROBES_MAX as usize],
            successes: 0,
        }
    }

    /// Takes a slot for one more probe, if one is free.
    pub(super) fn start(&mut self, settings: &Settings, now: Instant) -> Option<u8> {
        let probes = settings.probes.clamp(1, PROBES_MAX);
        let slot = (0..probes).find(|&slot| self.due[usize::from(slot)].is_none())?;
        self.due[usize::from(slot)] = Some(now + settings.probe_timeout);
        Some(slot)
    }

    pub(super) fn finish(
        &mut self,
        settings: &Settings,
        slot: Option<u8>,
        outcome: Outcome,
    ) -> Verdict {
        let slot = slot.expect("every permit of a half-open state is a probe's");
        self.due[usize::from(slot)] = None;
        match outcome {
            Outcome::Ignored => Verdict::Stay,
            Outcome::Failure(_) => Verdict::Trip,
            Outcome::Success(latency) if settings.slow.is_some_and(|slow| latency > slow.after) => {
                Verdict::Trip
            }
            Outcome::Success(_) => {
                self.successes += 1;
                if self.successes >= settings.probe_successes {
                    Verdict::Recover
                } else {
                    Verdict::Stay
                }
            }
        }
    }

    /// When the first probe in flight becomes overdue.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.iter().flatten().min().copied()
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.due.iter().flatten().count() as u32
    }

    pub(super) fn successes(&self) -> u32 {
        self.successes
    }
}
