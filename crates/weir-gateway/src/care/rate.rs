//! How often one key may ask, over all workers.

use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::serving::Serving;
use crate::settings::RateKey;
use crate::state::rate::RateGate;

/// Counts the request for every rule of its route. If one of them refuses it, it counts for none. The client is told
/// about the rule that leaves it least.
pub(crate) fn ask(x: &mut Exchange, at: Serving<'_>) -> Result<(), Failure> {
    let rates = &at.route.rates;
    let Some(now) = x.facts.started.filter(|_| !rates.is_empty()) else {
        return Ok(());
    };
    for (index, gate) in rates.iter().enumerate() {
        let decision = gate.ask(key(gate, x, at), now);
        if x.rate
            .is_none_or(|told| decision.remaining < told.remaining)
        {
            x.rate = Some(decision);
        }
        if !decision.is_allowed {
            for passed in &rates[..index] {
                passed.give_back(key(passed, x, at));
            }
            x.rate = Some(decision);
            x.retry_after = Some(decision.retry_after);
            return Err(Failure::RateLimited);
        }
    }
    Ok(())
}

fn key<'x>(gate: &RateGate, x: &'x Exchange, at: Serving<'_>) -> &'x [u8] {
    match gate.keyed_by() {
        RateKey::Route => &[],
        RateKey::ClientAddress => x.client_address().network(),
        RateKey::Header(name) => x.request.field(&x.head, name).unwrap_or_default(),
        RateKey::Parameter(name) => parameter(x, at, name),
    }
}

fn parameter<'x>(x: &'x Exchange, at: Serving<'_>, name: &str) -> &'x [u8] {
    let route = x.facts.route.unwrap_or_default();
    let router = &at.view.snapshot.router;
    let value = router.parameter(x.path(), route, name);
    value.unwrap_or_default().as_bytes()
}
