//! The heads of an upgrade: which are let through, which are not, and what an upstream may answer.

use super::{SWITCHING, UPGRADE};
use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything, wait_until};

#[test]
fn the_heads_of_an_upgrade() {
    let origin = Origin::start(|mut peer, _| {
        if peer.head().is_some() {
            peer.send(SWITCHING);
            let _ = peer.body(1);
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    connection.send(
        "GET /chat HTTP/1.1\r\nHost: test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    let response = connection.response_to("GET").expect("a 101");
    assert_eq!(response.status, 101);
    assert_eq!(response.field("upgrade"), Some("websocket"));
    assert_eq!(response.field("connection"), Some("upgrade"));
    assert_eq!(response.fields("content-length"), [""; 0]);
    let head = origin.next_head();
    assert!(head.contains("\r\nUpgrade: WebSocket\r\n"), "{head}");
    assert!(head.contains("\r\nConnection: upgrade\r\n"), "{head}");
    assert!(
        head.contains("\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        "{head}"
    );
    connection.send("!");
}

/// The upstream is not told of an upgrade that the route does not allow, and answers as if nothing had been asked.
fn assert_not_passed_on(config: &str, request: &str) {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain");
    let config = forward_everything(&[origin.address], "") + config;
    let gateway = Gateway::start(&config);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..2 {
        connection.send(request);
        let response = connection.response();
        assert_eq!((response.status, &*response.text()), (200, "plain"));
        let head = origin.next_head().to_ascii_lowercase();
        for absent in ["\r\nupgrade:", "\r\nconnection:", "\r\nhttp2-settings:"] {
            assert!(!head.contains(absent), "{head}");
        }
    }
}

#[test]
fn h2c_is_never_passed_on() {
    assert_not_passed_on(
        "",
        "GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
    );
}

#[test]
fn two_protocols_at_once_are_not_passed_on() {
    let request = |lines: &str| {
        format!("GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\n{lines}\r\n\r\n")
    };
    assert_not_passed_on("", &request("Upgrade: websocket, h2c"));
    assert_not_passed_on("", &request("Upgrade: websocket\r\nUpgrade: h2c"));
}

#[test]
fn an_upgrade_that_connection_does_not_name_is_not_passed_on() {
    assert_not_passed_on(
        "",
        "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\n\r\n",
    );
}

#[test]
fn a_route_without_upgrades_passes_none_on() {
    assert_not_passed_on("upgrade = []\n", UPGRADE);
}

/// The upstream may decline by answering, and nothing has happened to either connection.
#[test]
fn an_upstream_that_declines() {
    let origin = Origin::start(|mut peer, number| {
        while let Some(head) = peer.head() {
            let has_asked = head
                .to_ascii_lowercase()
                .contains("\r\nupgrade: websocket\r\n");
            let body = format!("{number} {has_asked}");
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    connection.send(UPGRADE);
    let declined = connection.response();
    assert_eq!((declined.status, &*declined.text()), (200, "0 true"));
    assert_eq!(declined.field("upgrade"), None);
    assert_eq!(connection.get("/").text(), "0 false");
    connection.send(UPGRADE);
    assert_eq!(connection.response().text(), "0 true");
}

/// An upstream that switches to another protocol than the one asked for has not understood, and the client would not.
#[test]
fn a_101_to_another_protocol_is_a_bad_gateway() {
    let switching =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let gateway = Gateway::to(&[Origin::answering(switching).address]);
    let mut connection = Connection::open(gateway.address);
    connection.send(UPGRADE);
    assert_eq!(connection.response().status, 502);
}

/// A 101 that nobody asked for would make a tunnel out of a connection that the client still sends requests on.
#[test]
fn an_unasked_101_is_a_bad_gateway() {
    let origin = Origin::answering(SWITCHING);
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").status, 502);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    assert_eq!(connection.response().status, 502);
    // An exchange is counted once its response is out.
    let counter = "weir_failures_total{fault=\"upstream\",reason=\"unasked_upgrade\"}";
    wait_until("both are counted", || gateway.metric(counter) == 2);
}
