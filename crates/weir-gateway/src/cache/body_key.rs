//! The part of a key that a request body makes: POST, on routes that name it, is looked up by a digest of what it asks with.
//!
//! The body is waited for before anything is looked up, and stays where it is: it is sent on if the origin is asked.

use std::future::poll_fn;
use std::task::{Poll, ready};

use weir_http::Method;
use weir_http::body::Framing;

use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::serving::Cached;

/// A larger body is part of no key.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// The digest of a POST that is looked up by its body. A body that is large, or of which nobody knows how large it is, has
/// none, and its request passes by the cache.
pub(super) async fn digest(x: &mut Exchange, on: Cached<'_>) -> Result<Option<u128>, Failure> {
    let has_digest = on.policy.caches_post
        && x.request.method == Method::Post
        && !x.request.expects_continue
        && match x.request.framing {
            Framing::Empty => true,
            Framing::Length(length) => length <= BODY_BYTES_MAX,
            Framing::Chunked | Framing::UntilClose => false,
        };
    if !has_digest {
        return Ok(None);
    }
    let pace = x.pace(on.rule);
    x.client.timer.set(pace.client);
    poll_fn(|cx| {
        let whole = x
            .upload
            .poll_whole(&mut x.client, &on.worker.buffers, pace, cx);
        Poll::Ready(ready!(whole).map(|body| Some(digest_of(body))))
    })
    .await
}

/// Half of a SHA-256: nobody finds a body that is answered with what another one asked for.
fn digest_of(body: &[u8]) -> u128 {
    let digest = ring::digest::digest(&ring::digest::SHA256, body);
    let bytes = digest.as_ref().iter().take(size_of::<u128>());
    bytes.fold(0, |number, &byte| number << 8 | u128::from(byte))
}
