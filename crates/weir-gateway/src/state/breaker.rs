//! A circuit breaker that all workers share.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_policy::Outcome;
use weir_policy::breaker::{Breaker, Permit, Refused, Settings, Status};

use crate::ended::Ended;
use crate::lock::lock;
use crate::settings::BreakerRule;
use crate::time;

/// Longer than any probe: each ends by the deadlines of its request, however long its route lets an answer
/// take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The breaker of one route or endpoint.
#[derive(Debug)]
pub(crate) struct SharedBreaker {
    rule: BreakerRule,
    breaker: Mutex<(Breaker, fastrand::Rng)>,
}

impl SharedBreaker {
    /// The breaker for `rule`: the one `before`, unless the rule has changed.
    pub(crate) fn succeed(
        before: Option<&Arc<Self>>,
        rule: Option<&BreakerRule>,
    ) -> Option<Arc<Self>> {
        let rule = rule?;
        let before = before.filter(|before| before.rule == *rule);
        Some(before.map_or_else(|| Arc::new(Self::new(rule)), Arc::clone))
    }

    fn new(rule: &BreakerRule) -> Self {
        let settings = Settings {
            probe_timeout: PROBE_TIMEOUT,
            ..rule.breaker
        };
        let breaker = Breaker::new(settings, time::now());
        Self {
            rule: rule.clone(),
            breaker: Mutex::new((breaker, fastrand::Rng::new())),
        }
    }

    /// Whether a request may be sent.
    pub(crate) fn enter(self: &Arc<Self>, now: Instant) -> Result<Entered, Refused> {
        let (breaker, random) = &mut *lock(&self.breaker);
        let permit = breaker.acquire(now, random)?;
        Ok(Entered {
            breaker: Arc::clone(self),
            permit: Some(permit),
        })
    }

    /// What the admin listener shows.
    pub(crate) fn status(&self, now: Instant) -> Status {
        let (breaker, random) = &mut *lock(&self.breaker);
        breaker.status(now, random)
    }

    /// The same, with when that state began.
    pub(crate) fn status_since(&self, now: Instant) -> (Status, Instant) {
        let (breaker, random) = &mut *lock(&self.breaker);
        let status = breaker.status(now, random);
        (status, breaker.since())
    }

    /// How many times it has opened.
    pub(crate) fn openings(&self) -> u64 {
        lock(&self.breaker).0.openings_total()
    }
}

/// A request that a breaker admitted. Dropped without a report, it says nothing.
#[derive(Debug)]
pub(crate) struct Entered {
    breaker: Arc<SharedBreaker>,
    permit: Option<Permit>,
}

impl Entered {
    /// Reports how the request ended, `latency` after its admission.
    pub(crate) fn report(mut self, now: Instant, ended: Ended, latency: Duration) {
        let failures = &self.breaker.rule.failures;
        let outcome = ended.outcome(|status| failures.has(status), latency);
        self.give_back(now, outcome);
    }

    fn give_back(&mut self, now: Instant, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            let (breaker, random) = &mut *lock(&self.breaker.breaker);
            breaker.report(now, permit, outcome, random);
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.give_back(time::now(), Outcome::Ignored);
        }
    }
}
