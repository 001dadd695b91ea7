//! Persistence on both sides: which connections carry further requests, and which must not be used again.

use std::sync::mpsc::channel;

use super::{fields, ok, telling_targets};
use crate::harness::Gateway;
use crate::harness::client::Connection;
use crate::harness::origin::Origin;

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
