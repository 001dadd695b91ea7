//! Another upstream: which requests it gets, that it gets all of them, and what happens when it fails too.

use super::{BREAKER, assert_fell_back, broken, dead, falling_back, open_breaker};
use crate::harness::client::{Connection, get};
use crate::harness::origin::Origin;

const FALLBACK: &str =
    "fallback = { upstream = \"backup\", status = 503, body = \"nobody is there\" }";

fn backup(origin: &Origin) -> String {
    format!("[upstream.backup]\nservers = [\"{}\"]", origin.address)
}

/// Answers with the method and the body, which has a length, of each request.
fn echoing() -> Origin {
    Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let length = head.to_ascii_lowercase();
            let length = length.split_once("content-length: ");
            let length = length.and_then(|(_, rest)| rest.lines().next()?.parse().ok());
            let body = peer.body(length.unwrap_or(0));
            let method = head.split(' ').next().unwrap_or_default();
            let body = [b"backup: ", method.as_bytes(), b" ", &body].concat();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            peer.send([head.as_bytes(), &body].concat());
        }
    })
}

/// Reads a request and closes.
fn hanging_up() -> Origin {
    Origin::start(|mut peer, _| {
        let _ = peer.head();
    })
}

#[test]
fn another_upstream_answers_what_could_not_be_sent() {
    let other = echoing();
    let gateway = falling_back(dead(), &backup(&other), FALLBACK);
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").text(), "backup: GET ");
    connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nwhole");
    assert_eq!(connection.response().text(), "backup: POST whole");
    assert_fell_back(&gateway, "upstream", 2);
    gateway.wait_for_metric("weir_upstream_responses_total{upstream=\"backup\"", 2);
}

#[test]
fn a_body_that_still_arrives_goes_there_whole() {
    let other = echoing();
    let gateway = falling_back(dead(), &backup(&other), FALLBACK);
    let mut connection = Connection::open(gateway.address);
    let body = "0123456789".repeat(100_000);
    let (first, rest) = body.split_at(300_000);
    connection.send(format!(
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    connection.send(first);
    // The backup has heard of it, so that what follows is sent after the first upstream has failed.
    assert!(other.next_head().starts_with("POST "));
    connection.send(rest);
    assert!(connection.response().text() == format!("backup: POST {body}"));
    assert_eq!(
        connection.get("/").text(),
        "backup: GET ",
        "the connection goes on"
    );
}

#[test]
fn what_was_refused_goes_there_and_its_own_breaker_hears_nothing_of_it() {
    let (origin, other) = (broken(), echoing());
    let gateway = falling_back(
        origin.address,
        &backup(&other),
        &format!("{BREAKER}\n{FALLBACK}"),
    );
    open_breaker(&gateway);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..20 {
        connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nwhole");
        assert_eq!(connection.response().text(), "backup: POST whole");
    }
    assert_eq!(origin.heads_waiting(), 2, "the breaker stays open");
    assert_fell_back(&gateway, "upstream", 20);
}

#[test]
fn when_it_fails_too_the_fixed_answer_is_next_and_the_log_has_the_first_failure() {
    let gateway = falling_back(
        hanging_up().address,
        &format!("[upstream.backup]\nservers = [\"{}\"]", dead()),
        FALLBACK,
    );
    let response = get(gateway.address, "/");
    assert_eq!(
        (response.status, &*response.text()),
        (503, "nobody is there")
    );
    assert_fell_back(&gateway, "answer", 1);
    assert_fell_back(&gateway, "upstream", 0);
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"upstream\",reason=\"upstream_closed\"",
        1,
    );
}

#[test]
fn it_has_a_gate_of_its_own() {
    let other = Origin::start(|mut peer, _| {
        // The first holds its place until the test has ended.
        while let Some(head) = peer.head() {
            if !head.contains("/held") {
                peer.send("HTTP/1.1 204 No Content\r\n\r\n");
            }
        }
    });
    let upstream = format!(
        "{}\nconcurrency = {{ limit = 1, queue = 0 }}",
        backup(&other)
    );
    let gateway = falling_back(dead(), &upstream, FALLBACK);
    let mut held = Connection::open(gateway.address);
    held.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(other.next_head().contains("/held"));
    let response = get(gateway.address, "/");
    assert_eq!(
        (response.status, &*response.text()),
        (503, "nobody is there")
    );
    assert_eq!(other.heads_waiting(), 0);
}
