//! The cache: what is answered without the origin, who asks it, and what others get meanwhile.

mod abandoned;
mod confirmed;
mod crowds;
mod disk;
mod fills;
mod forsaken;
mod held;
mod inspect;
mod keys;
mod purge;
mod refreshed;
mod stored;
mod strangers;
mod times;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::Gateway;
use crate::harness::client::Response;
use crate::harness::origin::Origin;

/// A gateway in front of `origin` whose one route caches with `cache`.
fn caching(origin: SocketAddr, cache: &str) -> Gateway {
    Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{origin}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = {cache}\n"
    ))
}

/// The same where nobody asks in the place of another one, and a crowd of connections may find the queue of the origin full
/// more than once, however long a test takes.
fn patient(origin: SocketAddr) -> Gateway {
    let settings = "{ collapse_wait = \"1m\" }\ntimeout = { connect = \"20s\" }";
    caching(origin, settings)
}

/// An origin that answers with a number, one more each time, and an entity tag. Bodies of requests are read.
fn counting(control: &'static str) -> Origin {
    let count = Arc::new(AtomicUsize::new(0));
    Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let lower = head.to_ascii_lowercase();
            let length = lower.split_once("content-length: ");
            let length = length.and_then(|(_, rest)| rest.lines().next()?.parse().ok());
            if lower.contains("transfer-encoding: chunked") {
                peer.until(b"0\r\n\r\n");
            }
            peer.body(length.unwrap_or(0));
            let number = (count.fetch_add(1, Ordering::SeqCst) + 1).to_string();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nETag: \"{number}\"\r\nContent-Length: {}\r\n\r\n{number}",
                number.len()
            ));
        }
    })
}

/// Seconds that a hit stays fresh, as its `Cache-Status` says; `None` for what was no hit.
fn ttl_of(response: &Response) -> Option<u64> {
    let said = response.field("cache-status")?;
    said.strip_prefix("weir; hit; ttl=")?.parse().ok()
}
