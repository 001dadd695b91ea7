//! The circuit breaker: stops sending requests to a service that fails.
//!
//! ```text
//!            too many failures or slow answers
//!   Closed ────────────────────────────────────► Open ◄──────────────┐
//!     ▲                                           │ the wait is over │
//!     │ a recovery without trips                  ▼                  │ a probe fails
//!   Recovering ◄────────────────────────────── HalfOpen ─────────────┤ or never reports
//!     │                 enough probes succeed                        │
//!     └──────────────────────────────────────────────────────────────┘
//!                        too many failures again
//! ```
//!
//! - **Closed** admits everything and counts over a sliding window (error: at most what happened within a tenth of it).
//! - **Open** refuses everything, for a time that doubles with each reopening and is jittered.
//! - **Half-open** admits a few probes at a time. Enough successes in a row lead to recovery, one failure leads back to
//!   open.
//! - **Recovering** admits a share that rises linearly from a tenth to everything, so that a service which has just
//!   come back is not overrun. It counts like closed, in a new window.
//!
//! A [`Permit`] belongs to the state in which it was given; a report in a later state counts for nothing. A permit that
//! never comes back blocks nothing, because an overdue probe is a failed one.
//!
//! A breaker does not know which answers are failures, and does not choose what a refused client gets. It takes about
//! 450 bytes and allocates nothing, and every call costs the same, amortised.

mod settings;
mod state;
#[cfg(test)]
mod tests;

use crate::outcome::Outcome;
pub use settings::{PROBES_MAX, Settings, Slow};
use state::{Probes, State, Tally, Verdict};
use std::time::{Duration, Instant};

/// The right to send one request. [`Breaker::report`] takes it back with the outcome of the request.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a probe that never reports opens the breaker again"]
pub struct Permit {
    /// The state in which it was given, by number.
    epoch: u64,
    /// Its slot among the probes, if it is one.
    probe: Option<u8>,
}

/// A refusal, and when to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// For `Retry-After`: how long the breaker will certainly refuse most requests. At least a millisecond.
    pub retry_after: Duration,
}

/// What the admin API shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Status {
    /// Everything is admitted.
    Closed(Counts),
    /// Nothing is admitted.
    Open {
        /// Time until probes are admitted.
        remaining: Duration,
        /// How many times in a row it has opened without a recovery in between, this one included.
        openings: u32,
    },
    /// A few probes are admitted.
    HalfOpen {
        /// Probes that have not reported.
        in_flight: u32,
        /// Probes that have succeeded.
        successes: u32,
    },
    /// A share is admitted.
    Recovering {
        /// The share, from 0 to 1.
        share: f64,
        /// What was counted since the recovery began.
        counts: Counts,
    },
}

impl Status {
    /// The name of each state in metrics and logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Closed(_) => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half-open",
            Self::Recovering { .. } => "recovering",
        }
    }
}

/// What the window contains, rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests that ended in a success or a failure.
    pub requests: u32,
    /// How many of these failed.
    pub failures: u32,
    /// How many took longer than [`Slow::after`], whether they failed or not.
    pub slow: u32,
}

/// Decides whether requests may go to one route or endpoint.
#[derive(Debug)]
pub struct Breaker {
    settings: Settings,
    state: State,
    /// The number of the current state, which tells permits of earlier states.
    epoch: u64,
    /// When the current state began.
    since: Instant,
    /// How many times in a row it has opened without a recovery in between.
    openings: u32,
    openings_total: u64,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            settings,
            state: State::Closed(Tally::new(&settings, now)),
            epoch: 0,
            since: now,
            openings: 0,
            openings_total: 0,
        }
    }

    /// Whether a request may be sent.
    pub fn acquire(&mut self, now: Instant, random: &mut fastrand::Rng) -> Result<Permit, Refused> {
        self.turn(now, random);
        let mut probe = None;
        match &mut self.state {
            State::Closed(_) => {}
            State::Open { until } => {
                return Err(Refused::after(until.saturating_duration_since(now)));
            }
            State::HalfOpen(probes) => match probes.start(&self.settings, now) {
                Some(slot) => probe = Some(slot),
                None => return Err(Refused::after(self.settings.probe_timeout)),
            },
            State::Recovering { since, .. } => {
                let share = recovered(*since, now, self.settings.recovery);
                if random.f64() >= share {
                    return Err(Refused::after(self.settings.recovery.mul_f64(1.0 - share)));
                }
            }
        }
        Ok(Permit {
            epoch: self.epoch,
            probe,
        })
    }

    /// Takes back a permit with the outcome of its request. [`Outcome::Ignored`] frees the slot of a probe and counts
    /// for nothing.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a permit that has come back is gone"
    )]
    pub fn report(
        &mut self,
        now: Instant,
        permit: Permit,
        outcome: Outcome,
        random: &mut fastrand::Rng,
    ) {
        self.turn(now, random);
        if permit.epoch != self.epoch {
            return;
        }
        let verdict = match &mut self.state {
            State::Closed(tally) | State::Recovering { tally, .. } => {
                tally.count(&self.settings, now, outcome)
            }
            State::HalfOpen(probes) => probes.finish(&self.settings, permit.probe, outcome),
            State::Open { .. } => unreachable!("no permit is given while open"),
        };
        match verdict {
            Verdict::Stay => {}
            Verdict::Trip => self.open(now, random),
            Verdict::Recover => self.recover(now),
        }
    }

    /// How long it will certainly refuse everything; `None` when it does not.
    pub fn retry_after(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Open { until } if until > now => Some(until - now),
            _ => None,
        }
    }

    /// When the state began that [`Breaker::status`] last said.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// How many times it has opened.
    pub fn openings_total(&self) -> u64 {
        self.openings_total
    }

    /// What the admin API shows.
    pub fn status(&mut self, now: Instant, random: &mut fastrand::Rng) -> Status {
        self.turn(now, random);
        match &mut self.state {
            State::Closed(tally) => Status::Closed(tally.counts(now)),
            State::Open { until } => Status::Open {
                remaining: until.saturating_duration_since(now),
                openings: self.openings,
            },
            State::HalfOpen(probes) => Status::HalfOpen {
                in_flight: probes.in_flight(),
                successes: probes.successes(),
            },
            State::Recovering { since, tally } => Status::Recovering {
                share: recovered(*since, now, self.settings.recovery),
                counts: tally.counts(now),
            },
        }
    }

    /// Makes the changes that time alone causes, as of the moment when they were due: there may have been no call for
    /// long.
    fn turn(&mut self, now: Instant, random: &mut fastrand::Rng) {
        if let State::HalfOpen(probes) = &self.state
            && let Some(due) = probes.due()
            && due <= now
        {
            self.open(due, random);
        }
        match &self.state {
            State::Open { until } if *until <= now => {
                let until = *until;
                self.enter(State::HalfOpen(Probes::new()), until);
            }
            State::Recovering { since, .. }
                if now.saturating_duration_since(*since) >= self.settings.recovery =>
            {
                let recovered = *since + self.settings.recovery;
                self.openings = 0;
                self.enter(State::Closed(Tally::new(&self.settings, now)), recovered);
            }
            _ => {}
        }
    }

    fn open(&mut self, now: Instant, random: &mut fastrand::Rng) {
        self.openings = self.openings.saturating_add(1);
        self.openings_total += 1;
        let wait = self.settings.open_for.after(self.openings, random);
        self.enter(State::Open { until: now + wait }, now);
    }

    fn recover(&mut self, now: Instant) {
        let recovering = State::Recovering {
            since: now,
            tally: Tally::new(&self.settings, now),
        };
        self.enter(recovering, now);
    }

    fn enter(&mut self, state: State, since: Instant) {
        self.state = state;
        self.since = since;
        self.epoch += 1;
    }
}

impl Refused {
    fn after(wait: Duration) -> Self {
        Self {
            retry_after: wait.max(Duration::from_millis(1)),
        }
    }
}

/// The share at the beginning of a recovery. With no share at all, a route of little traffic would not notice the
/// recovery.
const SHARE_MIN: f64 = 0.1;

/// The share that a recovery admits at `now`.
fn recovered(since: Instant, now: Instant, recovery: Duration) -> f64 {
    let elapsed = now.saturating_duration_since(since).as_secs_f64();
    let share = SHARE_MIN + (1.0 - SHARE_MIN) * elapsed / recovery.as_secs_f64().max(1e-9);
    share.min(1.0)
}
