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
        let url = PurgeScope::FirstLine(url.into());
        if on.cache.holds(&url) {
            on.metrics().invalidations.add(1);
            // A file that cannot be removed is found again; there is nobody to tell here.
            let _ = on.cache.purge(url, PurgeKind::Hard).await;
        }
    }
}
