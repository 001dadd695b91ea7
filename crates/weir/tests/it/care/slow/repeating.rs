//! No place is kept for the wait before a request is sent again.

use super::*;
use crate::harness::free_port;

/// A request of `/bad` waits for up to a minute before it is sent again.
#[test]
fn no_place_is_kept_for_a_wait_before_a_retry() {
    let service = Service::start();
    let gateway = service.gateway(
        "concurrency = { limit = 1, queue = 0 }\nretry_budget = { min_per_s = 100 }\n",
        "retry = { attempts = 2, backoff = \"60s\", backoff_max = \"60s\" }\n",
    );
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let connection = ask(&gateway, "/bad");
            service.origin.next_head();
            wait_for_places(&gateway, 0, 0);
            connection
        })
        .collect();
    short_requests_are_answered(&gateway);
    drop(waiting);
    wait_for_places(&gateway, 0, 0);
}

/// Whoever finds no place any more gets the answer that was to be bettered.
#[test]
fn a_retry_without_a_place_leaves_the_answer_that_there_is() {
    let service = Service::start();
    let gateway = service.gateway(
        "concurrency = { limit = 1, queue = 0 }\nretry_budget = { min_per_s = 100 }\n",
        "retry = { attempts = 2, backoff = \"2s\", backoff_max = \"2s\" }\n",
    );
    let mut bad = ask(&gateway, "/bad");
    service.origin.next_head();
    wait_for_places(&gateway, 0, 0);
    let mut holds = ask(&gateway, "/wait");
    let answer = bad.response();
    assert_eq!((answer.status, answer.text().as_str()), (503, "bad"));
    service.open();
    assert_eq!(holds.response().status, 200);
}

/// More than goes along with a head.
const BODY_BYTES: usize = 200_000;

/// Drops the first connections in the middle of a body, and answers on the others.
fn dropping(connections: usize) -> Origin {
    Origin::start(move |mut peer, number| {
        while peer.head().is_some() {
            if number < connections {
                peer.body(BODY_BYTES / 4);
                return;
            }
            let body = peer.body(BODY_BYTES);
            assert!(body.iter().all(|&byte| byte == b'x'));
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    })
}

fn put(gateway: &Gateway) -> u16 {
    let (first, rest) = (BODY_BYTES / 2, BODY_BYTES - BODY_BYTES / 2);
    let mut connection = begin(
        gateway,
        &format!("PUT / HTTP/1.1\r\nHost: test\r\nContent-Length: {BODY_BYTES}\r\n\r\n"),
    );
    connection.send("x".repeat(first));
    connection.send("x".repeat(rest));
    let status = connection.response().status;
    wait_for_places(gateway, 0, 0);
    wait_until("nothing is held", || held_bytes(gateway) == 0);
    status
}

#[test]
fn a_body_that_was_collected_can_be_sent_again() {
    let origin = dropping(1);
    let forward = forward_everything(&[origin.address], FIXED);
    let gateway = Gateway::start(&format!("{forward}retry = 1\n"));
    assert_eq!(put(&gateway), 200);
    assert_eq!(origin.heads().len(), 2);
}

#[test]
fn a_body_that_was_collected_can_go_to_another_upstream() {
    let (origin, other) = (dropping(usize::MAX), dropping(0));
    let dead = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    for (first, is_asked) in [(origin.address, true), (dead, false)] {
        let forward = forward_everything(&[first], FIXED);
        let other = other.address;
        let gateway = Gateway::start(&format!(
            "{forward}fallback = {{ upstream = \"other\" }}\n[upstream.other]\nservers = [\"{other}\"]\n{FIXED}"
        ));
        assert_eq!(put(&gateway), 200);
        assert_eq!(!origin.heads().is_empty(), is_asked);
    }
}
