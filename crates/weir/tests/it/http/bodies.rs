//! Framing: where a body ends, in either direction and version, and bodies that flow while others do.

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::mpsc::channel;

use super::{field, fields, ok};
use crate::harness::Gateway;
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;

/// Responses that have a length and no body; the next response on the same connection begins right behind the head.
#[test]
fn responses_without_a_body_end_with_their_head() {
    let responses = [
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
            Some("1234"),
        ),
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            None,
        ),
        ("GET", "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", None),
        (
            "GET",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nETag: \"a\"\r\n\r\n",
            Some("77"),
        ),
        (
            "POST",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Some("0"),
        ),
    ];
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let number = head.as_bytes()[head.find('/').expect("a path") + 1] - b'0';
            peer.send(responses[usize::from(number)].1);
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    for (number, (method, sent, length)) in responses.into_iter().enumerate() {
        connection.send(format!("{method} /{number} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let response = connection.response_to(method).expect("an answer");
        assert_eq!(
            response.head.split(' ').nth(1),
            sent.split(' ').nth(1),
            "{sent}"
        );
        assert_eq!(response.field("content-length"), length, "{sent}");
        // A HEAD is told what a GET would be.
        let chunked = sent.contains("chunked").then_some("chunked");
        assert_eq!(response.field("transfer-encoding"), chunked, "{sent}");
        assert_eq!(response.field("connection"), None, "{sent}");
    }
    let hits = gateway.metric("weir_upstream_pool_hits_total");
    assert_eq!(hits, 4, "the upstream connection carried all of them");
}

/// Bodies and trailers reach the other side byte by byte as they were sent.
#[test]
fn both_framings_pass_in_both_directions() {
    const CHUNKS: &str =
        "5;name=value\r\nhello\r\n6\r\n world\r\n0\r\nX-Checksum: abc\r\nX-More: d\r\n\r\n";
    let (tell, bodies) = channel();
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let body = match field(&head, "content-length") {
                Some(length) => peer.body(length.parse().expect("a length")),
                None => peer.until(b"\r\n\r\n"),
            };
            tell.send(body).expect("the test listens");
            if head.contains("/chunked") {
                peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum, X-More\r\n\r\n");
                peer.send(CHUNKS);
            } else {
                peer.send(ok("hello world"));
            }
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);

    connection.send("POST /plain HTTP/1.1\r\nHost: test\r\nContent-Length: 7\r\n\r\nabc\r\n\r\n");
    assert_eq!(connection.response().text(), "hello world");
    assert_eq!(bodies.recv().expect("a body"), b"abc\r\n\r\n");

    connection.send(format!(
        "POST /chunked HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\nTE: trailers\r\nConnection: TE\r\n\r\n{CHUNKS}"
    ));
    let head = String::from_utf8(connection.until(b"\r\n\r\n")).expect("text");
    assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
    assert_eq!(field(&head, "trailer"), Some("X-Checksum, X-More"));
    assert_eq!(connection.until(b"\r\n\r\n"), CHUNKS.as_bytes());
    assert_eq!(bodies.recv().expect("a body"), CHUNKS.as_bytes());
    let _plain = origin.next_head();
    let head = origin.next_head();
    assert_eq!(fields(&head, "transfer-encoding"), ["chunked"]);
    assert_eq!(fields(&head, "trailer"), ["X-Checksum"]);
    assert_eq!(fields(&head, "te"), ["trailers"]);

    // Byte by byte makes no difference.
    let request = format!(
        "POST /chunked HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKS}"
    );
    for byte in request.bytes() {
        connection.send([byte]);
    }
    assert_eq!(connection.response().text(), "hello world");
    assert_eq!(bodies.recv().expect("a body"), CHUNKS.as_bytes());

    // HTTP/1.0 knows no chunks: it gets the content, and the end of the connection as its end.
    connection.send("POST /chunked HTTP/1.0\r\nHost: test\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx");
    let response = connection.response();
    assert_eq!(response.text(), "hello world");
    for absent in ["transfer-encoding", "trailer", "content-length"] {
        assert_eq!(response.field(absent), None);
    }
    assert_eq!(response.field("connection"), Some("close"));
}

#[test]
fn a_body_that_ends_with_the_connection_is_chunked_for_http_1_1() {
    let origin = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\nuntil ");
            peer.send("the end");
            peer.stream.shutdown(Shutdown::Write).expect("still open");
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..2 {
        let response = connection.get("/");
        assert_eq!(response.text(), "until the end");
        assert_eq!(response.field("transfer-encoding"), Some("chunked"));
        assert_eq!(response.field("connection"), None);
    }
    connection.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let response = connection.response();
    assert_eq!(response.text(), "until the end");
    assert_eq!(response.field("transfer-encoding"), None);
    assert_eq!(response.field("connection"), Some("close"));
}

/// An upstream that refuses a body before it has read it: the client gets that answer although it is still sending.
#[test]
fn an_early_response_reaches_a_client_that_still_sends() {
    let origin = Origin::start(|mut peer, _| {
        if peer.head().is_some() {
            peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much");
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    for _ in 0..5 {
        let mut connection = Connection::open(gateway.address);
        connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100000000\r\n\r\nbegun");
        let mut sending = connection.stream.try_clone().expect("a second handle");
        let sender = std::thread::spawn(move || {
            // Sending ends when the gateway has had enough.
            while sending.write_all(&[b'x'; 1 << 14]).is_ok() {}
        });
        let response = connection.response();
        assert_eq!(
            (response.status, response.text().as_str()),
            (413, "too much")
        );
        assert_eq!(response.field("connection"), Some("close"));
        sender.join().expect("sending ends");
    }
    assert_eq!(client::get(gateway.address, "/").status, 413);
}

/// A response that depends on the request body that is still being sent: each side sees the other's bytes at once.
#[test]
fn request_and_response_bodies_flow_at_the_same_time() {
    let origin = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            loop {
                let mut chunk = peer.until(b"\r\n");
                chunk.extend(peer.until(b"\r\n"));
                peer.send(&chunk);
                if chunk == b"0\r\n\r\n" {
                    break;
                }
            }
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    connection.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.until(b"\r\n\r\n");
    for number in 100..200 {
        let chunk = format!("3\r\n{number}\r\n");
        connection.send(&chunk);
        assert_eq!(connection.exactly(chunk.len()), chunk.as_bytes());
    }
    connection.send("0\r\n\r\n");
    assert_eq!(connection.exactly(5), b"0\r\n\r\n");
}
