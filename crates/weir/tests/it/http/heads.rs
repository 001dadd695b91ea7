//! Heads on their way through: fields of one hop, targets, unknown methods and statuses, and interim responses.

use super::{field, fields, ok, telling_targets};
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything};

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

/// Else a service that leads everybody to https leads them in a circle.
#[test]
fn a_trusted_proxy_says_how_its_client_has_connected() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let said = field(&head, "x-forwarded-proto").expect("it is told");
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{said}",
                said.len()
            ));
        }
    });
    let forward = forward_everything(&[origin.address], "") + "cache = true\n";
    let moved = "[[route]]\npath = \"/moved\"\nredirect = { to = \"{scheme}://{host}/\" }\n";
    let trusted = "[trusted_proxies]\nnetworks = [\"127.0.0.1\"]\n";
    for (proxies, by_tls) in [("", "http"), (trusted, "https")] {
        let gateway = Gateway::start(&format!("{proxies}{forward}{moved}"));
        let ask = |path: &str, said: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: test:443\r\n{said}\r\n");
            client::send(gateway.address, &request)
        };
        for (said, expected) in [
            ("X-Forwarded-Proto: https\r\n", by_tls),
            ("", "http"),
            ("X-Forwarded-Proto: HTTPS\r\n", by_tls),
            ("X-Forwarded-Proto: https, http\r\n", "http"),
            ("X-Forwarded-Proto: gopher\r\n", "http"),
        ] {
            assert_eq!(ask("/", said).text(), expected, "{said}");
            let host = if expected == "https" {
                "test"
            } else {
                "test:443"
            };
            let location = format!("{expected}://{host}/");
            let moved = ask("/moved", said);
            assert_eq!(moved.field("location"), Some(location.as_str()), "{said}");
        }
        // The page of the one is not given to the other.
        let asked = if proxies.is_empty() { 1 } else { 2 };
        assert_eq!(origin.heads().len(), asked);
    }
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
    ] {
        assert_eq!(fields(&head, name), values, "{name}");
    }
    let via = fields(&head, "via");
    assert_eq!((via.len(), via[0]), (2, "1.0 before"));
    assert!(via[1].starts_with("1.1 weir-"), "{via:?}");
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
