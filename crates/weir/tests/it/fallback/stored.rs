//! Stored responses: which of them may be used, and that they go before everything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{BREAKER, assert_fell_back, falling_back};
use crate::harness::Gateway;
use crate::harness::client::{get, send};
use crate::harness::origin::Origin;

/// Nothing but the fallback allows to serve what is stale.
const CACHE: &str = "cache = { stale_if_unreachable = \"0s\" }";
const FALLBACK: &str =
    "fallback = { stale = true, upstream = \"backup\", body = \"nobody is there\" }";

/// An origin that answers each path with the field `Cache-Control` that its last segment names, and once it is told to,
/// hangs up instead.
struct Failing {
    origin: Origin,
    has_failed: Arc<AtomicBool>,
}

impl Failing {
    fn start(fails: impl Fn(&mut crate::harness::origin::Peer) + Send + Sync + 'static) -> Self {
        let has_failed = Arc::<AtomicBool>::default();
        let fail = Arc::clone(&has_failed);
        let origin = Origin::start(move |mut peer, _| {
            while let Some(head) = peer.head() {
                if fail.load(Ordering::SeqCst) {
                    return fails(&mut peer);
                }
                let path = head.split(' ').nth(1).unwrap_or_default();
                let control = path.trim_start_matches('/').replace('+', ", ");
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nETag: \"1\"\r\nContent-Length: 6\r\n\r\nstored"
                ));
            }
        });
        Self { origin, has_failed }
    }

    fn fail(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
    }
}

fn gateway(failing: &Failing, backup: &Origin, more: &str) -> Gateway {
    falling_back(
        failing.origin.address,
        &format!("[upstream.backup]\nservers = [\"{}\"]", backup.address),
        &format!("{CACHE}\n{FALLBACK}\n{more}"),
    )
}

#[test]
fn a_stored_response_goes_before_another_upstream_and_that_before_a_fixed_answer() {
    let failing = Failing::start(|_| {});
    let backup = Origin::start(|mut peer, number| {
        // Only the first connection is served.
        while let Some(head) = peer.head() {
            if number > 0 || head.contains("/no-store+third") {
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nbackup");
        }
    });
    let gateway = gateway(&failing, &backup, "");
    let path = "/max-age=0";
    assert_eq!(get(gateway.address, path).text(), "stored");
    failing.fail();
    let stale = get(gateway.address, path);
    assert_eq!((stale.status, &*stale.text()), (200, "stored"));
    let said = stale.field("cache-status").expect("it says why");
    assert!(
        said.starts_with("weir; hit; ttl=") && said.ends_with("; detail=upstream_closed"),
        "{said}"
    );
    assert_fell_back(&gateway, "stale", 1);
    assert_eq!(get(gateway.address, "/no-store").text(), "backup");
    assert_fell_back(&gateway, "upstream", 1);
    let last = get(gateway.address, "/no-store+third");
    assert_eq!((last.status, &*last.text()), (503, "nobody is there"));
    assert_fell_back(&gateway, "answer", 1);
    // A part of it, and a head alone.
    let part = "GET /max-age=0 HTTP/1.1\r\nHost: test\r\nRange: bytes=1-2\r\n\r\n";
    let part = send(gateway.address, part);
    assert_eq!((part.status, &*part.text()), (206, "to"));
    let head = send(
        gateway.address,
        "HEAD /max-age=0 HTTP/1.1\r\nHost: test\r\n\r\n",
    );
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("6"))
    );
}

#[test]
fn an_open_breaker_is_no_reason_to_go_without_what_is_stored() {
    let failing =
        Failing::start(|peer| peer.send("HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n"));
    let backup = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nbackup");
    let gateway = gateway(&failing, &backup, BREAKER);
    assert_eq!(get(gateway.address, "/max-age=0").text(), "stored");
    failing.fail();
    // One of two has failed now.
    assert_eq!(get(gateway.address, "/no-store").status, 500);
    let stale = get(gateway.address, "/max-age=0");
    assert_eq!(stale.text(), "stored");
    let said = stale.field("cache-status").unwrap_or_default();
    assert!(said.ends_with("; detail=breaker_open"), "{said}");
    assert_eq!(get(gateway.address, "/no-store").text(), "backup");
}
