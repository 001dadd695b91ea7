//! Ejection: an endpoint that is much worse than its siblings leaves the rotation for a while.
//!
//! ```text
//!        stands out, and the cap allows it            the wait is over
//!   In ──────────────────────────────────────► Out ─────────────────────► Trial
//!   ▲                                           ▲                          │  │
//!   │ its share has risen to all                └──────────────────────────┘  │
//! Rising ◄────────────────────────────────────     it fails or is slow        │
//!   └──────────────────────────────────────────── enough answers are good ────┘
//! ```
//!
//! An endpoint stands out (`evidence`) when it fails several times in a row, fails more than its siblings, answers much
//! more slowly, or does not answer while requests wait. That must not be chance, nor something its siblings show as
//! well, nor caused by requests that only it gets (`chance`, `kinds`). After a wait that grows with each ejection and
//! is jittered, the endpoint gets one request at a time. If one of them does worse than at its siblings, it leaves
//! again; after a few good ones it comes back with a share that rises linearly. Nothing counts as slow or silent while
//! the typical latency is unknown.
//!
//! At most `max_ejected` of the endpoints are out or on trial, and never all. When more look bad, the cause is not one
//! endpoint but something they share. Then ejection is suspended and all are used, until few look bad again (Envoy
//! calls this panic).
//!
//! An endpoint that nobody can ask, because it is down or leaves, is away ([`Ejection::attend`]). It counts as one that
//! is out, and nobody is compared with what it showed before: those that have to carry its load are slower for that alone.
//!
//! This module only looks at answers. It sends no probes, knows no addresses, and does not choose: a balancer asks
//! [`Ejection::admits`]. It takes about 2 kB for each endpoint, all allocated in [`Ejection::new`]. Every call is O(1),
//! except that once in 100 ms one of them looks at all endpoints.

mod ages;
mod chance;
mod evidence;
mod kinds;
mod settings;
mod status;
mod succession;
#[cfg(test)]
mod tests;
mod typical;

use crate::outcome::Outcome;
use chance::Shown;
use evidence::Evidence;
pub use settings::Settings;
pub use status::{Place, Reason, Status};
use std::time::{Duration, Instant};
use typical::Typical;

/// One request to one endpoint. [`Ejection::finish`] takes it back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request that never finishes looks like one that hangs"]
pub struct Token {
    endpoint: usize,
    kind: u64,
    started_at: Instant,
    /// The state in which it was sent; `None` if the endpoint was out.
    epoch: Option<u64>,
}

/// Watches the endpoints of one upstream. Endpoints are named by their position, as in [`crate::balance`].
#[derive(Debug)]
pub struct Ejection {
    settings: Settings,
    endpoints: Vec<Endpoint>,
    /// Endpoints that are out or on trial.
    ejected: usize,
    is_suspended: bool,
    typical: Typical,
    swept_at: Instant,
}

#[derive(Debug)]
struct Endpoint {
    state: State,
    /// Nobody can ask it, whatever its state.
    is_away: bool,
    /// The number of its current state, which tells requests of earlier states.
    epoch: u64,
    evidence: Evidence,
    ejections: u32,
    ejections_total: u64,
    reason: Option<Reason>,
    returned_at: Instant,
}

#[derive(Debug)]
enum State {
    In,
    Out {
        until: Instant,
    },
    Trial {
        /// When the request in flight was sent.
        sent_at: Option<Instant>,
        successes: u32,
        /// The probability that a healthy endpoint does what this one did on trial.
        chance: f64,
        doubts: u32,
    },
    Rising {
        since: Instant,
    },
}

/// How often all endpoints are checked.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// After this time in the rotation, earlier ejections no longer count.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);

/// The kinds of requests lose half of their weight after at most this time.
const KINDS_HALF_LIFE: Duration = Duration::from_secs(60);

/// A trial ends after this many bad requests, however likely they are.
const DOUBTS_MAX: u32 = 10;

/// The probability that a trial sends a healthy endpoint back is at most this.
const TRIAL_CHANCE: f64 = 0.05;

/// The share at which an endpoint comes back.
const SHARE_MIN: f64 = 0.1;

impl Ejection {
    /// Begins with all `endpoints` in the rotation.
    pub fn new(settings: Settings, endpoints: usize, now: Instant) -> Self {
        let endpoint = |_| Endpoint {
            state: State::In,
            is_away: false,
            epoch: 0,
            evidence: Evidence::new(&settings, now),
            ejections: 0,
            ejections_total: 0,
            reason: None,
            returned_at: now,
        };
        Self {
            settings,
            endpoints: (0..endpoints).map(endpoint).collect(),
            ejected: 0,
            is_suspended: false,
            typical: Typical::new(endpoints, now),
            swept_at: now,
        }
    }

    /// Whether a balancer may choose this endpoint. `draw` is a random number from 0 to 1, one for each choice; it
    /// decides for an endpoint that has only a share.
    pub fn admits(&self, endpoint: usize, now: Instant, draw: f64) -> bool {
        match self.endpoints[endpoint].state {
            State::In => true,
            State::Out { until } => until <= now,
            State::Trial { sent_at, .. } => sent_at.is_none(),
            State::Rising { since } => draw < risen(since, now, self.settings.slow_start),
        }
    }

    /// Says whether this endpoint can be asked at all, as far as the caller knows.
    pub fn attend(&mut self, endpoint: usize, is_there: bool) {
        self.endpoints[endpoint].is_away = !is_there;
    }

    /// A request is sent to this endpoint. If the endpoint was not admitted (say, because none was), the request counts
    /// for nothing.
    ///
    /// `kind` is any number that is equal for similar requests, such as a hash of what they are for. Endpoints are
    /// compared by the kinds that they share. If a balancer keeps requests with one key together, that key must be part
    /// of the kind.
    pub fn start(
        &mut self,
        endpoint: usize,
        kind: u64,
        now: Instant,
        random: &mut fastrand::Rng,
    ) -> Token {
        self.sweep(now, random);
        let it = &mut self.endpoints[endpoint];
        it.evidence.on_kind(kind, &mut self.typical);
        if let State::Out { until } = it.state
            && until <= now
        {
            it.enter(State::Trial {
                sent_at: None,
                successes: 0,
                chance: 1.0,
                doubts: 0,
            });
        }
        let counts = match &mut it.state {
            State::In | State::Rising { .. } => {
                it.evidence.on_start(now);
                true
            }
            State::Out { .. } => false,
            State::Trial { sent_at, .. } => {
                let is_free = sent_at.is_none();
                sent_at.get_or_insert(now);
                is_free
            }
        };
        Token {
            endpoint,
            kind,
            started_at: now,
            epoch: counts.then_some(it.epoch),
        }
    }

    /// A request has ended.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a token that has come back is gone"
    )]
    pub fn finish(
        &mut self,
        now: Instant,
        token: Token,
        outcome: Outcome,
        random: &mut fastrand::Rng,
    ) {
        let endpoint = token.endpoint;
        let it = &mut self.endpoints[endpoint];
        if token.epoch == Some(it.epoch) {
            if let State::Trial {
                sent_at, successes, ..
            } = &mut it.state
            {
                *sent_at = None;
                let waited = now.saturating_duration_since(token.started_at);
                let is_slow = self.typical.is_slow(outcome.latency().unwrap_or(waited));
                match outcome {
                    // A short wait before giving up says nothing.
                    Outcome::Ignored if !is_slow => {}
                    Outcome::Success(_) if !is_slow => {
                        *successes += 1;
                        if *successes >= self.settings.trial_successes {
                            self.bring_back(endpoint, now);
                        }
                    }
                    Outcome::Failure(_) if !is_slow => {
                        self.doubt(endpoint, now, self.typical.answers, random);
                    }
                    Outcome::Success(_) | Outcome::Failure(_) | Outcome::Ignored => {
                        self.doubt(endpoint, now, self.typical.in_time, random);
                    }
                }
            } else {
                it.evidence.on_finish(
                    now,
                    (token.started_at, token.kind),
                    outcome,
                    &mut self.typical,
                );
                if !self.is_suspended
                    && !it.is_away
                    && it.evidence.has_short_row()
                    && it
                        .evidence
                        .fails_in_a_row(&self.settings, &self.typical, now)
                {
                    self.judge(endpoint, now, Reason::ConsecutiveFailures, random);
                }
            }
        }
        self.sweep(now, random);
    }

    /// Whether all endpoints are in the rotation with their full share, so that nothing has to be asked.
    pub fn is_calm(&self) -> bool {
        self.endpoints
            .iter()
            .all(|endpoint| matches!(endpoint.state, State::In))
    }

    /// Whether ejection is suspended, because too many look bad.
    pub fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    /// The most endpoints that can be out or on trial.
    pub fn cap(&self) -> usize {
        let all = self.endpoints.len();
        if self.settings.max_ejected <= 0.0 || all < 2 {
            return 0;
        }
        let share = (all as f64 * self.settings.max_ejected) as usize;
        share.clamp(1, all - 1)
    }

    /// The same beside those that are away without being out.
    fn room(&self) -> usize {
        let away = self.endpoints.iter();
        let away = away.filter(|it| it.is_away && it.is_in()).count();
        self.cap().saturating_sub(away)
    }

    /// What is known about an endpoint.
    pub fn status(&self, endpoint: usize, now: Instant) -> Status {
        let it = &self.endpoints[endpoint];
        Status {
            place: match it.state {
                State::In => Place::In,
                State::Out { until } => Place::Out(until.saturating_duration_since(now)),
                State::Trial { .. } => Place::Trial,
                State::Rising { since } => {
                    Place::Rising(risen(since, now, self.settings.slow_start))
                }
            },
            ejections: it.ejections,
            ejections_total: it.ejections_total,
            reason: it.reason,
        }
    }

    /// Checks all endpoints, if it is time. Every request does this when it is sent and when it ends. A caller that is
    /// about to choose does it before, since all other requests may be waiting.
    pub fn sweep(&mut self, now: Instant, random: &mut fastrand::Rng) {
        if now < self.swept_at + SWEEP_EVERY {
            return;
        }
        self.swept_at = now;
        let present = self.endpoints.iter_mut().filter(|it| it.is_present());
        let evidence = present.map(|it| &mut it.evidence);
        self.typical.find(&self.settings, now, evidence);
        let present = self.endpoints.iter_mut().filter(|it| it.is_present());
        self.typical
            .compare(now, present.map(|it| &mut it.evidence));
        if self
            .typical
            .halve_if_due(now, self.settings.window.min(KINDS_HALF_LIFE))
        {
            self.endpoints.iter_mut().for_each(|it| it.evidence.age());
        }
        for index in 0..self.endpoints.len() {
            self.turn(index, now, random);
        }
        self.weigh_suspension(now);
        for index in 0..self.endpoints.len() {
            let it = &mut self.endpoints[index];
            if it.is_present()
                && let Some(reason) = it.evidence.speaks(&self.settings, &self.typical, now)
            {
                self.judge(index, now, reason, random);
            }
        }
    }

    /// Makes the changes to an endpoint that time alone causes.
    fn turn(&mut self, index: usize, now: Instant, random: &mut fastrand::Rng) {
        let it = &mut self.endpoints[index];
        match it.state {
            State::Trial {
                sent_at: Some(sent_at),
                ..
            } if now.saturating_duration_since(sent_at) > self.typical.trial_after => {
                self.doubt(index, now, self.typical.in_time, random);
            }
            State::Rising { since }
                if now.saturating_duration_since(since) >= self.settings.slow_start =>
            {
                // Its requests and what is known of them stay; only the share changes.
                it.state = State::In;
            }
            _ => {}
        }
    }

    /// A request on trial did badly, as some do at its `siblings`. The endpoint leaves again if that is unlikely for a
    /// healthy one; otherwise its next request decides.
    fn doubt(&mut self, index: usize, now: Instant, siblings: Shown, random: &mut fastrand::Rng) {
        let it = &mut self.endpoints[index];
        let healthy = it.evidence.healthy(siblings, &self.typical);
        let State::Trial {
            sent_at,
            chance,
            doubts,
            ..
        } = &mut it.state
        else {
            return;
        };
        *sent_at = None;
        *chance *= healthy;
        *doubts += 1;
        if *chance <= TRIAL_CHANCE || *doubts >= DOUBTS_MAX {
            self.eject(index, now, Reason::Trial, random);
        } else {
            // The request is counted already, so its later end must not count.
            it.epoch += 1;
        }
    }

    /// Ejects an endpoint that stands out, or suspends ejection because too many do.
    fn judge(&mut self, index: usize, now: Instant, reason: Reason, random: &mut fastrand::Rng) {
        if self.is_suspended {
            return;
        }
        if self.ejected < self.room() {
            self.ejected += 1;
            self.eject(index, now, reason, random);
        } else if self.ejected > 0 {
            self.suspend(now);
        }
    }

    /// Ejects an endpoint that `ejected` already counts.
    fn eject(&mut self, index: usize, now: Instant, reason: Reason, random: &mut fastrand::Rng) {
        let it = &mut self.endpoints[index];
        if now.saturating_duration_since(it.returned_at) >= FORGIVEN_AFTER && it.is_in() {
            it.ejections = 0;
        }
        it.ejections = it.ejections.saturating_add(1);
        it.ejections_total += 1;
        it.reason = Some(reason);
        let wait = self.settings.eject_for.after(it.ejections, random);
        it.enter(State::Out { until: now + wait });
    }

    fn bring_back(&mut self, index: usize, now: Instant) {
        self.ejected -= 1;
        let it = &mut self.endpoints[index];
        it.returned_at = now;
        it.evidence.restart(now, &self.typical);
        it.enter(State::Rising { since: now });
    }

    /// Brings all endpoints back; those that were out become suspects.
    fn suspend(&mut self, now: Instant) {
        self.is_suspended = true;
        self.ejected = 0;
        for it in &mut self.endpoints {
            if !it.is_in() {
                it.evidence.restart(now, &self.typical);
                it.evidence.suspect();
                it.enter(State::In);
            }
        }
    }

    /// Ends a suspension when few enough look bad. These are judged next.
    fn weigh_suspension(&mut self, now: Instant) {
        if self.is_suspended {
            let room = self.room();
            let (settings, typical) = (&self.settings, &self.typical);
            let there = self.endpoints.iter_mut().filter(|it| !it.is_away);
            let bad =
                there.filter_map(|it| it.evidence.looks_bad(settings, typical, now).then_some(()));
            self.is_suspended = bad.count() > room;
        }
    }
}

impl Endpoint {
    /// Whether it is neither out nor on trial.
    fn is_in(&self) -> bool {
        matches!(self.state, State::In | State::Rising { .. })
    }

    /// Whether it is one of those that others are compared with.
    fn is_present(&self) -> bool {
        self.is_in() && !self.is_away
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }
}

fn risen(since: Instant, now: Instant, slow_start: Duration) -> f64 {
    let elapsed = now.saturating_duration_since(since).as_secs_f64();
    let share = SHARE_MIN + (1.0 - SHARE_MIN) * elapsed / slow_start.as_secs_f64().max(1e-9);
    share.min(1.0)
}
