//! What a request that changed something makes invalid, in the stores and on its way there.

use weir_cache::invalidate::{Changed, targets};
use weir_cache::key;
use weir_cache::store::{PurgeKind, PurgeScope};

use super::{Cached, lookup, on_disk};
use crate::connection::Client;
use crate::exchange::Exchange;

/// Ends what is stored of the targets that an answered request has changed.
///
/// When this returns, no request finds it as it was (RFC 9111 §4.4). Nor does one of the next process, if this one is killed
/// right behind the answer: for that the client waits until the files are gone, but no longer than a disk takes that answers.
pub(super) async fn after(client: &Client, x: &Exchange, on: Cached<'_>) {
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
        if on.cache.may_hold(&url) {
            on.metrics().invalidations.add(1);
            on_disk::changed(&client.timer, on.cache.end(url, PurgeKind::Hard)).await;
        }
    }
}
