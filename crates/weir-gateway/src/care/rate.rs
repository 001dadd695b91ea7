//! How often one key may ask, over all workers, and what clients are told of it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use weir_policy::limit::rate::{Decision, RateLimiter};

use super::lock;
use crate::connection::Client;
use crate::decimal;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::settings::{RateKey, RateRule};
use crate::view::View;

/// Counts the request for every rule of its route, unless one of them refuses it: then it counts for none. The client is told
/// of the rule that leaves it the least.
pub(crate) fn ask(client: &Client, x: &mut Exchange, view: &View) -> Result<(), Failure> {
    let rates = x
        .facts
        .route
        .map_or(&[][..], |route| &view.snapshot.routes[route].rates);
    let Some(now) = x.facts.started.filter(|_| !rates.is_empty()) else {
        return Ok(());
    };
    for (index, gate) in rates.iter().enumerate() {
        let decision = gate.ask(client, x, view, now);
        if x.rate
            .is_none_or(|told| decision.remaining < told.remaining)
        {
            x.rate = Some(decision);
        }
        if !decision.is_allowed {
            for passed in &rates[..index] {
                passed.give_back(client, x, view);
            }
            x.rate = Some(decision);
            x.retry_after = Some(decision.retry_after);
            return Err(Failure::RateLimited);
        }
    }
    Ok(())
}

/// The counts of one rule of a route.
#[derive(Debug)]
pub(crate) struct RateGate {
    rule: RateRule,
    limiter: Mutex<RateLimiter>,
}

impl RateGate {
    /// The counts for each of `rules`: those `before`, where the rule has not changed.
    pub(crate) fn succeed(before: &[Arc<Self>], rules: &[RateRule]) -> Vec<Arc<Self>> {
        let succeed = |rule: &RateRule| {
            let known = before.iter().find(|gate| gate.rule == *rule);
            known.map_or_else(|| Arc::new(Self::new(rule)), Arc::clone)
        };
        rules.iter().map(succeed).collect()
    }

    fn new(rule: &RateRule) -> Self {
        let seed = fastrand::u64(..);
        let limiter = RateLimiter::new(rule.quota, rule.keys_max, seed, Instant::now());
        Self {
            rule: rule.clone(),
            limiter: Mutex::new(limiter),
        }
    }

    /// Whether the request may pass.
    fn ask(&self, client: &Client, x: &Exchange, view: &View, now: Instant) -> Decision {
        lock(&self.limiter).acquire(now, self.key(client, x, view))
    }

    /// A request that might have passed was refused elsewhere.
    fn give_back(&self, client: &Client, x: &Exchange, view: &View) {
        lock(&self.limiter).give_back(self.key(client, x, view));
    }

    fn key<'a>(&self, client: &'a Client, x: &'a Exchange, view: &View) -> &'a [u8] {
        match &self.rule.key {
            RateKey::Route => &[],
            RateKey::ClientAddress => x.client_address(client).network(),
            RateKey::Header(name) => x.request.field(&x.head, name).unwrap_or_default(),
            RateKey::Parameter(name) => parameter(x, view, name),
        }
    }
}

fn parameter<'x>(x: &'x Exchange, view: &View, name: &str) -> &'x [u8] {
    let authority = x.request.authority.map(|span| span.of(&x.head));
    let route = x.facts.route.unwrap_or_default();
    let router = &view.snapshot.router;
    let value = router.parameter(authority, x.path(), route, name);
    value.unwrap_or_default().as_bytes()
}

/// Writes what a client is told of its limit: the fields `RateLimit` and `RateLimit-Policy`
/// (draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4).
pub(crate) fn write_fields(decision: &Decision, out: &mut Vec<u8>) {
    let Decision {
        limit,
        window_s,
        remaining,
        ..
    } = decision;
    let parts: [(&[u8], u64); 4] = [
        (b"RateLimit-Policy: \"default\";q=", u64::from(*limit)),
        (b";w=", *window_s),
        (b"\r\nRateLimit: \"default\";r=", u64::from(*remaining)),
        (b";t=", decision.reset_s()),
    ];
    for (name, value) in parts {
        out.extend_from_slice(name);
        decimal::write(value, out);
    }
    out.extend_from_slice(b"\r\n");
}
