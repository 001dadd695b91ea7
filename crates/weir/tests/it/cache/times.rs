//! For how long, from when on and how much is stored, where the route says so.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{caching, counting, ttl_of};
use crate::harness::client::{self, get};
use crate::harness::origin::Origin;
use crate::harness::wait_until;

#[test]
fn the_route_says_how_long_where_the_origin_does_not() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let (status, control) = match head.split(' ').nth(1) {
                Some("/missing") => (404, ""),
                Some("/broken") => (500, ""),
                Some("/said") => (200, "Cache-Control: max-age=7\r\n"),
                _ => (200, ""),
            };
            peer.send(format!(
                "HTTP/1.1 {status} Said\r\n{control}Content-Length: 0\r\n\r\n"
            ));
        }
    });
    let gateway = caching(
        origin.address,
        "{ ttl = { 200 = \"1d\", 4xx = \"5m\", any = \"30s\" } }",
    );
    for (path, seconds) in [
        ("/", 86_400),
        ("/missing", 300),
        ("/broken", 30),
        ("/said", 7),
    ] {
        get(gateway.address, path);
        let ttl = ttl_of(&get(gateway.address, path)).expect("a hit");
        // A moment may have passed.
        assert!((seconds - 5..=seconds).contains(&ttl), "{path}: {ttl}");
    }
    assert_eq!(origin.heads_waiting(), 4);
}

#[test]
fn a_forced_time_goes_before_what_the_origin_says_and_no_store_before_both() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let control = if head.contains("/secret") {
                "no-store"
            } else {
                "max-age=1, must-revalidate"
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    let gateway = caching(origin.address, "{ force_ttl = \"1d\" }");
    get(gateway.address, "/");
    let ttl = ttl_of(&get(gateway.address, "/")).expect("a hit");
    assert!((86_395..=86_400).contains(&ttl), "{ttl}");
    for _ in 0..2 {
        assert_eq!(ttl_of(&get(gateway.address, "/secret")), None);
    }
    assert_eq!(origin.heads_waiting(), 3);
}

#[test]
fn what_is_asked_for_often_enough_is_stored() {
    let origin = counting("max-age=60");
    let gateway = caching(origin.address, "{ min_uses = 3 }");
    for expected in ["1", "2", "3", "3", "3"] {
        assert_eq!(get(gateway.address, "/").text(), expected);
    }
    assert_eq!(get(gateway.address, "/other").text(), "4");
    assert_eq!(get(gateway.address, "/other").text(), "5");
}

#[test]
fn large_bodies_are_not_stored_and_old_variants_make_room() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let body = if head.contains("/large") {
                "12345"
            } else {
                "1234"
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: X\r\nTransfer-Encoding: chunked\r\n\r\n{}\r\n{body}\r\n0\r\n\r\n",
                body.len()
            ));
        }
    });
    let gateway = caching(origin.address, "{ max_object = 4, max_variants = 2 }");
    for _ in 0..2 {
        assert_eq!(get(gateway.address, "/large").text(), "12345");
    }
    assert_eq!(origin.heads_waiting(), 2);
    let ask = |variant: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: test\r\nX: {variant}\r\n\r\n");
        assert_eq!(client::send(gateway.address, &request).text(), "1234");
        origin.heads_waiting()
    };
    let asked: Vec<_> = ["a", "b", "a", "c", "b", "c", "a"].map(ask).to_vec();
    assert_eq!(asked, [1, 1, 0, 1, 0, 0, 1]);
}

#[test]
fn what_is_hot_is_refreshed_before_its_time_is_over() {
    // Each answer has that much of its hundred seconds behind it when it comes.
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            let is_old = head.starts_with("GET /old ") && number == 1;
            let age = if is_old { 95 } else { 50 };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nAge: {age}\r\nContent-Length: 1\r\n\r\n{number}"
            ));
        }
    });
    let gateway = caching(origin.address, "{ refresh_ahead = 0.9 }");
    assert_eq!(get(gateway.address, "/old").text(), "1");
    assert_eq!(get(gateway.address, "/old").text(), "1", "used once");
    assert_eq!(gateway.metric("weir_cache_refreshes_total"), 0);
    assert_eq!(get(gateway.address, "/old").text(), "1", "nobody waits");
    wait_until("it is refreshed", || {
        get(gateway.address, "/old").text() == "2"
    });
    for _ in 0..5 {
        get(gateway.address, "/old");
        get(gateway.address, "/young");
    }
    assert_eq!(gateway.metric("weir_cache_refreshes_total"), 1);
    assert_eq!(origin.heads_waiting(), 3);
}
