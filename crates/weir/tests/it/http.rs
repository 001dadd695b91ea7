//! HTTP/1.1 and 1.0 on both sides: persistence, framing, interim responses, fields, and upstreams that break the rules.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::sync::mpsc::channel;

use crate::harness::Gateway;
use crate::harness::client::{self, Connection};
use crate::harness::origin::{Origin, Peer};

/// Answers each request with its target as the body; asserts nothing about the rest.
fn telling_targets() -> Origin {
    Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if let Some(length) = field(&head, "content-length") {
                peer.body(length.parse().expect("a length"));
            }
            peer.send(ok(&target));
        }
    })
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The value of the field `name` of a head as the origin got it.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    fields(head, name).first().copied()
}

fn fields<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
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

#[test]
fn a_connection_carries_requests_one_after_the_other() {
    let origin = telling_targets();
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    for number in 0..5 {
        let path = format!("/{number}");
        assert_eq!(connection.get(&path).text(), path);
    }
    connection.send("GET /last HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let last = connection.response();
    assert_eq!(
        (last.text().as_str(), last.field("connection")),
        ("/last", Some("close"))
    );
    assert!(connection.is_closed());
}

/// Requests that arrive in one segment, some with bodies, are answered in their order.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = telling_targets();
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    let requests: String = (0..20)
        .map(|number| match number % 2 {
            0 => format!("GET /{number} HTTP/1.1\r\nHost: test\r\n\r\n"),
            _ => format!("POST /{number} HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nGET /"),
        })
        .collect();
    // An empty line between requests is tolerated (RFC 9112 §2.2).
    connection.send(format!(
        "{requests}\r\nGET /end HTTP/1.1\r\nHost: test\r\n\r\n"
    ));
    for number in 0..20 {
        assert_eq!(connection.response().text(), format!("/{number}"));
    }
    assert_eq!(connection.response().text(), "/end");
}

#[test]
fn http_1_0_closes_unless_it_asked_to_keep_the_connection() {
    let origin = telling_targets();
    let gateway = Gateway::to(&[origin.address]);

    let mut connection = Connection::open(gateway.address);
    connection.send("GET /a HTTP/1.0\r\n\r\n");
    let response = connection.response();
    assert_eq!(
        (response.text().as_str(), response.field("connection")),
        ("/a", Some("close"))
    );
    assert!(connection.is_closed());
    // A request without `Host` gets the upstream's.
    let head = origin.next_head();
    assert!(head.starts_with("GET /a HTTP/1.1\r\n"), "{head}");
    assert_eq!(fields(&head, "host"), [origin.address.to_string()]);

    let mut connection = Connection::open(gateway.address);
    for path in ["/b", "/c"] {
        connection.send(format!(
            "GET {path} HTTP/1.0\r\nHost: test\r\nConnection: keep-alive\r\n\r\n"
        ));
        let response = connection.response();
        assert_eq!(
            (response.text().as_str(), response.field("connection")),
            (path, Some("keep-alive"))
        );
    }
}

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

#[test]
fn the_100_that_a_client_waits_for_comes_from_the_upstream() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            assert_eq!(field(&head, "expect"), Some("100-continue"));
            if head.contains("/refuse") {
                peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
            } else {
                peer.send("HTTP/1.1 100 Continue\r\n\r\n");
                let body = peer.body(4);
                peer.send(ok(&String::from_utf8(body).expect("text")));
            }
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let post = |path| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
        )
    };
    let mut connection = Connection::open(gateway.address);
    for _ in 0..2 {
        connection.send(post("/take"));
        assert_eq!(connection.response().status, 100);
        connection.send("body");
        let response = connection.response();
        assert_eq!((response.status, response.text().as_str()), (200, "body"));
    }
    connection.send(post("/refuse"));
    let response = connection.response();
    assert_eq!((response.status, response.text().as_str()), (403, "no"));
    // Whether the body still comes cannot be known, so the connection ends, and the client is told.
    assert_eq!(response.field("connection"), Some("close"));
    assert!(connection.is_closed());
}

#[test]
fn other_interim_responses_are_passed_on_to_those_who_know_them() {
    let origin = Origin::answering(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n\
         HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..2 {
        let hints = connection.get("/");
        assert_eq!(hints.status, 103);
        assert_eq!(hints.field("link"), Some("</a.css>; rel=preload"));
        assert_eq!(hints.field("x-hop"), None);
        assert_eq!(connection.response().status, 102);
        assert_eq!(connection.response().text(), "ok");
    }
    connection.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(connection.response().status, 200);
    assert!(connection.is_closed());
}

#[test]
fn fields_of_one_hop_stay_there_and_the_gateway_adds_its_own() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Private\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\n\
         X-Private: secret\r\nUpgrade: h2c\r\nServer: origin\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = Gateway::to(&[origin.address]);
    let response = client::send(
        gateway.address,
        "GET /a?b=c HTTP/1.1\r\nHost: www.example.com:8080\r\nConnection: keep-alive, x-one, Content-Length\r\n\
         X-One: 1\r\nX-Two: 2\r\nKeep-Alive: 1\r\nProxy-Connection: 1\r\nTE: gzip\r\nUpgrade: h2c\r\nProxy: evil\r\n\
         HTTP2-Settings: AAA\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: forged\r\nVia: 1.0 before\r\nAccept: */*\r\n\r\n",
    );
    assert_eq!(response.text(), "ok");
    for absent in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "x-private",
        "upgrade",
    ] {
        assert_eq!(response.field(absent), None, "{absent}");
    }
    assert_eq!(response.field("server"), Some("origin"));
    assert_eq!(response.field("via"), Some("1.1 weir"));
    assert_eq!(response.fields("date").len(), 1);

    let head = origin.next_head();
    assert!(head.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{head}");
    for absent in [
        "connection",
        "x-one",
        "keep-alive",
        "proxy-connection",
        "te",
        "upgrade",
        "proxy",
        "http2-settings",
    ] {
        assert_eq!(field(&head, absent), None, "{absent}");
    }
    for (name, values) in [
        ("host", &["www.example.com:8080"][..]),
        ("x-two", &["2"]),
        ("accept", &["*/*"]),
        ("x-forwarded-for", &["192.0.2.1, 192.0.2.2, 127.0.0.1"]),
        ("x-forwarded-proto", &["http"]),
        ("x-forwarded-host", &["www.example.com:8080"]),
        ("via", &["1.0 before", "1.1 weir"]),
    ] {
        assert_eq!(fields(&head, name), values, "{name}");
    }
}

#[test]
fn the_absolute_form_is_forwarded_in_origin_form() {
    let origin = telling_targets();
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    for (target, forwarded) in [
        ("http://www.example.com/a?b", "/a?b"),
        ("http://WWW.EXAMPLE.COM", "/"),
        ("http://www.example.com?q", "/?q"),
    ] {
        connection.send(format!(
            "GET {target} HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
        ));
        assert_eq!(connection.response().text(), forwarded);
        assert_eq!(fields(&origin.next_head(), "host"), ["www.example.com"]);
    }
    connection.send("OPTIONS * HTTP/1.1\r\nHost: www.example.com\r\n\r\n");
    assert_eq!(connection.response().text(), "*");
    connection.send("GET http://other.example.com/ HTTP/1.1\r\nHost: www.example.com\r\n\r\n");
    assert_eq!(connection.response().status, 400);
    assert!(connection.is_closed());
}

/// Whatever two readers could split differently never reaches a client.
#[test]
fn a_response_head_that_breaks_the_rules_is_a_502() {
    const RESPONSES: [&str; 18] = [
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

/// Bytes that an upstream sends unasked belong to nobody: the next request on that connection must not be answered
/// with them.
#[test]
fn unasked_bytes_on_an_idle_upstream_connection_reach_nobody() {
    let (go_on, may_go_on) = channel::<()>();
    let (tell, told) = channel();
    let may_go_on = std::sync::Mutex::new(may_go_on);
    let origin = Origin::start(move |mut peer, number| {
        while peer.head().is_some() {
            peer.send(ok(&number.to_string()));
            let _ = may_go_on.lock().expect("no handler panics").recv();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
            let _ = tell.send(());
        }
    });
    // One worker, so that the second request looks into the pool of the first.
    let gateway = Gateway::start(&format!(
        "[server]\nworkers = 1\n{}",
        crate::harness::forward_everything(&[origin.address], "")
    ));
    for number in 0..10 {
        let mut connection = Connection::open(gateway.address);
        assert_eq!(connection.get("/").text(), number.to_string());
        go_on.send(()).expect("the origin waits");
        told.recv().expect("the origin has written");
    }
    assert_eq!(gateway.metric("weir_upstream_pool_hits_total"), 0);
}

/// A response followed by more than it announced: whatever that is, it is not the answer to the next request.
#[test]
fn a_connection_with_bytes_behind_the_response_is_not_used_again() {
    const EXTRA: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let origin = Origin::start(|mut peer, number| {
        while let Some(head) = peer.head() {
            let path = head.split(' ').nth(1).expect("a target");
            let response = match path {
                "/chunked" => format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Connection: {number}\r\n\r\n0\r\n\r\n"
                ),
                "/204" => format!("HTTP/1.1 204 No Content\r\nX-Connection: {number}\r\n\r\n"),
                "/304" => format!(
                    "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\nX-Connection: {number}\r\n\r\n"
                ),
                _ => format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Connection: {number}\r\n\r\n"
                ),
            };
            peer.send(response + EXTRA);
        }
    });
    let gateway = Gateway::start(&format!(
        "[server]\nworkers = 1\n{}",
        crate::harness::forward_everything(&[origin.address], "")
    ));
    let mut connection = Connection::open(gateway.address);
    let requests = [
        "GET /length",
        "GET /chunked",
        "GET /204",
        "GET /304",
        "HEAD /head",
        "GET /length",
    ];
    for (number, request) in requests.into_iter().enumerate() {
        connection.send(format!("{request} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let method = request.split(' ').next().expect("a method");
        let response = connection.response_to(method).expect("an answer");
        assert_eq!(
            response.field("x-connection"),
            Some(&*number.to_string()),
            "{request}"
        );
        assert_eq!(response.text(), "", "{request}");
    }
}

/// What the gateway does not understand it passes on: methods, statuses and phrases.
#[test]
fn unknown_methods_and_statuses_are_passed_on() {
    let origin =
        Origin::answering("HTTP/1.1 299 Something of My Own\r\nContent-Length: 2\r\n\r\nok");
    let gateway = Gateway::to(&[origin.address]);
    let response = client::send(
        gateway.address,
        "PROPFIND /a HTTP/1.1\r\nHost: test\r\n\r\n",
    );
    assert!(
        response
            .head
            .starts_with("HTTP/1.1 299 Something of My Own\r\n"),
        "{}",
        response.head
    );
    assert!(origin.next_head().starts_with("PROPFIND /a HTTP/1.1\r\n"));
}
