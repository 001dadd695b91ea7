//! Answers from what is stored: whole, in parts, as 304, to HEAD, by variant, stale; and what ends it.

use super::caching;
use crate::harness::client::{self, get};
use crate::harness::origin::Origin;

const FRESH: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\nContent-Length: 10\r\n\r\n0123456789";

#[test]
fn a_fresh_response_is_asked_for_once() {
    let origin = Origin::answering(FRESH);
    let gateway = caching(origin.address, "true");
    let first = get(gateway.address, "/a?b");
    assert_eq!(
        first.field("cache-status"),
        Some("weir; fwd=uri-miss; stored")
    );
    for _ in 0..10 {
        let hit = get(gateway.address, "/a?b");
        assert_eq!((hit.status, hit.text().as_str()), (200, "0123456789"));
        assert!(hit.field("age").is_some() && hit.field("via") == Some("1.1 weir"));
        assert!(
            hit.field("cache-status")
                .is_some_and(|said| said.starts_with("weir; hit; ttl="))
        );
    }
    assert_eq!(origin.heads_waiting(), 1);
    gateway.wait_for_metric("weir_cache_hits_total", 10);
}

#[test]
fn parts_conditions_and_heads_come_from_what_is_stored() {
    let origin = Origin::answering(FRESH);
    let gateway = caching(origin.address, "true");
    // The first asks for a part, and all of it is stored.
    let ask = |method: &str, fields: &str| {
        let request = format!("{method} / HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
        client::send(gateway.address, &request)
    };
    for _ in 0..2 {
        let part = ask("GET", "Range: bytes=2-4\r\n");
        assert_eq!((part.status, part.text().as_str()), (206, "234"));
        assert_eq!(part.field("content-range"), Some("bytes 2-4/10"));
    }
    let parts = ask("GET", "Range: bytes=0-1, 8-\r\n");
    assert!(parts.text().contains("\r\n\r\n01\r\n") && parts.text().contains("\r\n\r\n89\r\n"));
    assert_eq!(ask("GET", "If-None-Match: \"1\"\r\n").status, 304);
    assert_eq!(ask("GET", "If-None-Match: \"2\"\r\n").text(), "0123456789");
    assert_eq!(ask("GET", "Range: bytes=20-\r\n").status, 416);
    let head = ask("HEAD", "");
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("10"))
    );
    let seen = origin.next_head();
    assert!(!seen.contains("Range"), "{seen}");
    assert_eq!(origin.heads_waiting(), 0);
    assert_eq!(ask("GET", "Cache-Control: only-if-cached\r\n").status, 200);
}

#[test]
fn variants_are_told_apart() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let language = if head.contains("Accept-Language: de") {
                "de"
            } else {
                "en"
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\nContent-Length: 2\r\n\r\n{language}"
            ));
        }
    });
    let gateway = caching(origin.address, "true");
    for _ in 0..3 {
        for language in ["de", "en"] {
            let request =
                format!("GET / HTTP/1.1\r\nHost: test\r\nAccept-Language: {language}\r\n\r\n");
            assert_eq!(client::send(gateway.address, &request).text(), language);
        }
    }
    assert_eq!(origin.heads_waiting(), 2);
}

#[test]
fn a_stale_response_is_confirmed_by_its_tag() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("If-None-Match: \"1\"") {
                peer.send(
                    "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\r\n",
                );
            } else {
                peer.send(FRESH.replace("60", "0"));
            }
        }
    });
    let gateway = caching(origin.address, "true");
    assert_eq!(get(gateway.address, "/").text(), "0123456789");
    let confirmed = get(gateway.address, "/");
    assert_eq!(confirmed.text(), "0123456789");
    assert_eq!(
        confirmed.field("cache-status"),
        Some("weir; fwd=stale; fwd-status=304; stored")
    );
    assert_eq!(get(gateway.address, "/").text(), "0123456789");
    assert_eq!(origin.heads_waiting(), 2);
}

#[test]
fn what_is_private_is_not_stored() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: private, max-age=60\r\nContent-Length: 1\r\n\r\nx",
    );
    let gateway = caching(origin.address, "{ ttl = \"1d\" }");
    for _ in 0..3 {
        let passed = get(gateway.address, "/");
        assert_eq!(
            passed.field("cache-status"),
            Some("weir; fwd=uri-miss; detail=private")
        );
    }
    assert_eq!(origin.heads_waiting(), 3);
}
