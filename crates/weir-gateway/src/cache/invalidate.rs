//! What a request that changed something makes invalid, in the stores and on its way there.

use weir_cache::invalidate::{Changed, targets};
use weir_cache::key;
use weir_cache::store::{PurgeKind, PurgeScope};

use super::{Cached, lookup};
use crate::exchange::Exchange;

/// Ends what is stored of the targets that an answered request has changed.
pub(super) async fn after(x: &Exchange, on: Cached<'_>) {
    let changed = Changed {
        method: x.request.method,
        method_name: x.request.method_name.of(&x.head),
        authority: x.request.authority.map_or(b"", |span| span.of(&x.head)),
        target: x.request.target_text.of(&x.head),
        status: x.response.status,
        response: x
            .response
            .view(&x.incoming.unread()[..x.response.head_bytes]),
    };
    for target in targets(&changed) {
        let mut asked = lookup::asked(x);
        let query_at = target.iter().position(|&b| b == b'?');
        asked.path = &target[..query_at.unwrap_or(target.len())];
        asked.query = query_at.map(|at| &target[at + 1..]);
        let mut url = Vec::new();
        key::write_url(&on.policy.key, &asked, &mut url);
        let tiers = &on.cache.tiers;
        let has_parts = !on.policy.key.headers.is_empty() || !on.policy.key.cookies.is_empty();
        let is_there = tiers.memory().peek(&url).is_some()
            || on.cache.fills.holds(&url)
            || !tiers.find_on_disk(&url).is_empty();
        if is_there {
            let scope = PurgeScope::Key(url.as_slice().into());
            let _ = tiers.purge(scope, PurgeKind::Hard).await;
        }
        if has_parts {
            url.push(b'\n');
            let scope = PurgeScope::Prefix(url.as_slice().into());
            let _ = tiers.purge(scope, PurgeKind::Hard).await;
        }
    }
}
