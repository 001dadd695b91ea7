//! How often one key may ask.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use weir_policy::limit::rate::{Decision, RateLimiter};

use crate::lock::lock;
use crate::settings::care::{RateKey, RateRule};
use crate::time;

/// The counts of one rule of a route.
#[derive(Debug)]
pub(crate) struct RateGate {
    rule: RateRule,
    limiter: Mutex<RateLimiter>,
}

impl RateGate {
    /// The counts for each of `rules`: those `before`, if the rule has not changed.
    pub(crate) fn succeed(before: &[Arc<Self>], rules: &[RateRule]) -> Vec<Arc<Self>> {
        let succeed = |rule: &RateRule| {
            let known = before.iter().find(|gate| gate.rule == *rule);
            known.map_or_else(|| Arc::new(Self::new(rule)), Arc::clone)
        };
        rules.iter().map(succeed).collect()
    }

    fn new(rule: &RateRule) -> Self {
        let seed = fastrand::u64(..);
        let limiter = RateLimiter::new(rule.quota, rule.keys_max, seed, time::now());
        Self {
            rule: rule.clone(),
            limiter: Mutex::new(limiter),
        }
    }

    /// What its keys are made of.
    pub(crate) fn keyed_by(&self) -> &RateKey {
        &self.rule.key
    }

    /// Whether a request with `key` may pass.
    pub(crate) fn ask(&self, key: &[u8], now: Instant) -> Decision {
        lock(&self.limiter).acquire(now, key)
    }

    /// A request that was allowed here was refused by another rule.
    pub(crate) fn give_back(&self, key: &[u8]) {
        lock(&self.limiter).give_back(key);
    }
}
