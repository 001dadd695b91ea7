//! Which of a route's upstreams a request is for. The draw is weir-policy's (`balance/split.rs`); here is what is drawn by.

use weir_policy::balance::hash_key;

use crate::exchange::Exchange;
use crate::serving::Serving;
use crate::settings::SplitBy;
use crate::upstream::part::part;

/// Chooses a side for the request, if its route has several, and keeps it: whatever is tried for the request, is tried there.
pub(crate) fn choose_side(x: &mut Exchange, at: Serving<'_>) {
    let Some(split) = at.route.split.as_deref() else {
        return;
    };
    let draw = || at.worker.random.borrow_mut().u64(..);
    let by_part = |on| part(x, on).filter(|part| !part.is_empty()).map(hash_key);
    let key = match (&split.by, &split.cookie) {
        (Some(SplitBy::Part(on)), _) => by_part(on).unwrap_or_else(draw),
        (_, Some(cookie)) => x.sticky.sent(cookie).unwrap_or_else(|| {
            let value = draw();
            x.keep_side(cookie, value);
            value
        }),
        (_, None) => draw(),
    };
    x.facts.side = Some(split.split.side(key));
}
