//! Clients that send slowly: nobody is asked for them before their bodies are here.

use super::*;
use crate::harness::client::Response;
use crate::harness::origin::Origin;

#[test]
fn clients_that_upload_slowly_hold_no_place() {
    for (limit, uploads) in [(FIXED, 8), (FIXED, 200), (PROTECT, 200)] {
        let service = Service::start();
        let gateway = service.gateway(limit, "");
        let mut slow: Vec<_> = (0..uploads).map(|_| upload(&gateway, 1000)).collect();
        short_requests_are_answered(&gateway);
        let mut heads = service.origin.heads().into_iter();
        assert!(
            heads.all(|head| head.starts_with("GET ")),
            "nobody else was sent on"
        );
        for connection in &mut slow {
            connection.send("x".repeat(500));
            assert_eq!(connection.response().status, 200);
        }
        wait_for_places(&gateway, 0, 0);
    }
}

#[test]
fn an_upload_larger_than_its_buffer_is_a_stream_while_its_client_is_waited_for() {
    // By the route's bound, and by the budget of all.
    for (limits, bytes) in [
        ("request_buffer = \"1KiB\"\n", 8_000),
        ("[limits]\nheld_bodies = 0\n", 200_000),
    ] {
        let service = Service::start();
        let gateway = service.gateway(FIXED, limits);
        let mut slow = Vec::new();
        for number in 1..=12 {
            slow.push(upload(&gateway, bytes));
            wait_for_places(&gateway, 0, number);
        }
        short_requests_are_answered(&gateway);
        // One that leaves takes nothing along.
        drop(slow.pop());
        wait_for_places(&gateway, 0, 11);
        for connection in &mut slow {
            connection.send("x".repeat(bytes / 2));
            assert_eq!(connection.response().status, 200);
        }
        wait_for_places(&gateway, 0, 0);
    }
}

#[test]
fn an_upload_is_work_again_once_it_is_whole() {
    let service = Service::start();
    let gateway = service.gateway(
        "concurrency = { limit = 1, queue = 0 }\n",
        "request_buffer = 0\n",
    );
    let mut slow = begin(
        &gateway,
        "POST /wait HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nx",
    );
    wait_for_places(&gateway, 0, 1);
    slow.send("x");
    wait_for_places(&gateway, 1, 0);
    assert_eq!(
        client::get(gateway.address, "/").status,
        503,
        "the place is taken"
    );
    service.open();
    assert_eq!(slow.response().status, 200);
    wait_for_places(&gateway, 0, 0);
}

#[test]
fn a_body_is_forwarded_as_it_came() {
    let service = Service::start();
    let gateway = service.gateway(FIXED, "");
    let mut slow = begin(
        &gateway,
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n3;a=b\r\none\r\n",
    );
    short_requests_are_answered(&gateway);
    slow.send("3\r\ntwo\r\n0\r\nX-Sum: 6\r\n\r\nGET /next HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(slow.response().status, 200);
    assert_eq!(
        slow.response().status,
        200,
        "what came behind it is the next request"
    );
    let heads = service.origin.heads();
    let [.., post, next] = heads.as_slice() else {
        panic!("{heads:?}");
    };
    assert!(post.contains("Transfer-Encoding: chunked\r\n"), "{post}");
    assert!(next.starts_with("GET /next "), "{next}");
}

/// A body of unknown length may be one half of a conversation: it is sent on where its client pauses.
#[test]
fn a_client_that_waits_for_an_answer_to_what_it_has_sent_gets_one() {
    let origin = Origin::start(|mut peer, _| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for word in ["one", "two", "six"] {
            assert_eq!(peer.until(b"\r\n"), b"3\r\n");
            assert_eq!(peer.until(b"\r\n"), [word.as_bytes(), b"\r\n"].concat());
            peer.send(format!("3\r\n{word}\r\n"));
        }
        peer.until(b"0\r\n\r\n");
        peer.send("0\r\n\r\n");
    });
    for limit in [FIXED, PROTECT] {
        let gateway = Gateway::start(&forward_everything(&[origin.address], limit));
        // The first comes with the head.
        let mut talks = begin(
            &gateway,
            "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
        );
        talks.until(b"3\r\none\r\n");
        for word in ["two", "six"] {
            talks.send(format!("3\r\n{word}\r\n"));
            talks.until(format!("3\r\n{word}\r\n").as_bytes());
        }
        talks.send("0\r\n\r\n");
        talks.until(b"0\r\n\r\n");
        wait_for_places(&gateway, 0, 0);
    }
}

#[test]
fn a_client_that_sends_nothing_for_a_while_loses_nothing() {
    for (limit, expects) in [
        (FIXED, ""),
        (FIXED, "Expect: 100-continue\r\n"),
        ("breaker = true\n", ""),
    ] {
        let service = Service::start();
        let gateway = service.gateway(limit, "");
        let mut slow = begin(
            &gateway,
            &format!(
                "POST / HTTP/1.1\r\nHost: test\r\n{expects}Transfer-Encoding: chunked\r\n\r\n"
            ),
        );
        if !expects.is_empty() {
            assert_eq!(slow.response_to("POST").expect("it is told").status, 100);
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        slow.send("3\r\none\r\n");
        std::thread::sleep(std::time::Duration::from_millis(500));
        slow.send("0\r\n\r\n");
        assert_eq!(slow.response().status, 200, "{limit} {expects}");
    }
}

/// RFC 9110 §10.1.1: who waits for the body has to say so.
#[test]
fn a_client_that_waits_with_its_body_is_told_to_send_it() {
    let service = Service::start();
    let gateway = service.gateway(FIXED, "");
    let mut waits = begin(
        &gateway,
        "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    );
    let go_on: Response = waits.response_to("POST").expect("it is told");
    assert_eq!(go_on.status, 100);
    assert!(service.origin.heads().is_empty(), "nobody was asked yet");
    waits.send("xx");
    assert_eq!(waits.response().status, 200);
    assert!(!service.origin.next_head().contains("Expect"));
}

#[test]
fn a_slow_upload_is_no_probe_of_a_breaker() {
    const BREAKER: &str =
        "breaker = { min_requests = 4, open_for = \"200ms\", recovery = \"10ms\", probes = 1 }\n";
    for (upstream, route) in [("", BREAKER), (BREAKER, "")] {
        let service = Service::start();
        let gateway = service.gateway(upstream, route);
        for _ in 0..4 {
            assert_eq!(client::get(gateway.address, "/bad").status, 503);
        }
        assert_eq!(client::get(gateway.address, "/").status, 503);
        let mut slow: Vec<_> = (0..8).map(|_| upload(&gateway, 1000)).collect();
        // More requests than fit into the recovery, in which some are refused.
        wait_until("it is closed", || {
            (0..200).all(|_| client::get(gateway.address, "/").status == 200)
        });
        for connection in &mut slow {
            connection.send("x".repeat(500));
            assert_eq!(connection.response().status, 200);
        }
    }
}
