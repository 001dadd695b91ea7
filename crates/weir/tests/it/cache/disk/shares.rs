//! What comes back from disk counts for what its route may take of RAM.

use super::{caching, files};
use crate::cache::purge::purge;
use crate::harness::client::get;
use crate::harness::origin::Origin;
use crate::harness::{Directory, wait_until};

#[test]
fn what_is_confirmed_and_comes_from_disk_stays_within_the_share_of_its_route() {
    const BODY_BYTES: usize = 50_000;
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("If-None-Match") {
                peer.send("HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\nETag: \"1\"\r\n\r\n");
                continue;
            }
            let body = "x".repeat(BODY_BYTES);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"1\"\r\nContent-Length: {BODY_BYTES}\r\n\r\n{body}"
            ));
        }
    });
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "{ max_memory = \"1MiB\" }");
    let fetch_all = || {
        for number in 0..40 {
            // Used once after it was stored, so that it goes to disk when it has to leave.
            for _ in 0..2 {
                assert_eq!(get(gateway.address, &format!("/{number}")).status, 200);
            }
        }
    };
    fetch_all();
    // A MiB has room for 20 of them.
    wait_until("others are on disk", || files(&directory).len() >= 10);
    purge(&gateway, "{\"all\": true, \"soft\": true}");
    fetch_all();
    let bytes = gateway.metric("weir_cache_bytes{tier=\"memory\"}");
    assert!(bytes <= 1 << 20, "{bytes} bytes of RAM");
}
