//! Upstreams that break the rules: a head becomes a 502, and a body is broken off where the client sees it.

use std::io::{ErrorKind, Read as _};
use std::sync::mpsc::channel;

use super::ok;
use crate::harness::Gateway;
use crate::harness::client::Connection;
use crate::harness::origin::{Origin, Peer};

/// Whatever two readers could split differently never reaches a client.
#[test]
fn a_response_head_that_breaks_the_rules_is_a_502() {
    const RESPONSES: [&str; 19] = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "HTTP/1.1 200 OK\r\nX-A: 1\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX-A: 1\r\n folded\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX-A : 1\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX-A: 1\0\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX-A: 1\r2\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "hello\r\n\r\n",
        // The head is as it should be, but nothing of it has been sent when the body is seen to be wrong.
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0\r\n\r\n",
    ];
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let number = head.split(['/', ' ']).nth(2).expect("a path");
            match number.parse::<usize>() {
                Ok(number) => peer.send(RESPONSES[number]),
                Err(_) => peer.send(ok("well")),
            }
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    for (number, sent) in RESPONSES.iter().enumerate() {
        let response = connection.get(&format!("/{number}"));
        assert_eq!(response.status, 502, "{sent:?}");
        assert_eq!(response.text(), "502 Bad Gateway\n");
        // The client did nothing wrong, so its connection goes on, on another upstream connection.
        assert_eq!(connection.get("/well").text(), "well", "after {sent:?}");
    }
    assert_eq!(
        gateway.metric("weir_upstream_retries_total"),
        0,
        "what was answered is not asked again"
    );
}

/// A body that breaks after its head was passed on: the client is made to see that it is not complete.
#[test]
fn a_response_body_that_breaks_is_broken_off() {
    let (go_on, may_go_on) = channel::<&str>();
    let may_go_on = std::sync::Mutex::new(may_go_on);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            peer.send(match () {
                () if head.contains("/chunked") => {
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
                }
                () if head.contains("/length") => {
                    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"
                }
                () => "HTTP/1.1 200 OK\r\n\r\nhello",
            });
            let rest = may_go_on
                .lock()
                .expect("no handler panics")
                .recv()
                .expect("the test goes on");
            if rest == "reset" {
                return reset(&peer);
            }
            peer.send(rest);
            if rest.is_empty() {
                return;
            }
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    for (path, rest) in [
        ("/chunked", "x\r\n"),
        ("/chunked", "5\r\nhelloX"),
        ("/chunked", "5\nhello\r\n0\r\n\r\n"),
        ("/chunked", "0\r\nContent-Length: 3\r\n\r\n"),
        ("/chunked", ""),
        ("/chunked", "reset"),
        ("/length", ""),
        ("/length", "reset"),
        ("/until-close", "reset"),
    ] {
        for version in ["1.1", "1.0"] {
            let mut connection = Connection::open(gateway.address);
            connection.send(format!("GET {path} HTTP/{version}\r\nHost: test\r\n\r\n"));
            connection.until(b"hello");
            go_on.send(rest).expect("the origin waits");
            let (bytes, was_reset) = rest_and_reset(&mut connection);
            let shown = bytes.escape_ascii();
            assert!(was_reset, "{path} {rest:?} {version}: ended after {shown}");
            assert!(
                !bytes.ends_with(b"0\r\n\r\n"),
                "{path} {rest:?} {version}: {shown}"
            );
        }
    }
}

/// Closes with a reset.
fn reset(peer: &Peer) {
    let socket = socket2::SockRef::from(&peer.stream);
    socket
        .set_linger(Some(std::time::Duration::ZERO))
        .expect("an open socket takes options");
}

/// Everything until the end of the connection, and whether that was a reset.
fn rest_and_reset(connection: &mut Connection) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match connection.stream.read(&mut buffer) {
            Ok(0) => return (bytes, false),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return (bytes, true),
            Err(error) => panic!("the connection does not end: {error}"),
        }
    }
}
