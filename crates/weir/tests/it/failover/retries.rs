//! Which requests may be sent again, on another connection, and which are asked once.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use super::{ok, one_worker};
use crate::harness::client::Connection;
use crate::harness::origin::Origin;

/// An origin that answers the first request of each connection with the number of the connection, and closes when it
/// has read the head of the second one, before it answers. The sender gets the number when that has happened.
fn closing_on_the_second_request() -> (Origin, Receiver<usize>) {
    let (tell, closed) = channel();
    let origin = Origin::start(move |mut peer, number| {
        if peer.head().is_none() {
            return;
        }
        peer.send(ok(&number.to_string()));
        if peer.head().is_some() {
            drop(peer);
            let _ = tell.send(number);
        }
    });
    (origin, closed)
}

/// The endpoint closed an idle connection while the request was on its way: what is harmless to repeat is sent once
/// more, on a fresh one.
#[test]
fn a_get_that_met_a_dead_idle_connection_is_sent_again() {
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let (origin, closed) = closing_on_the_second_request();
        let gateway = one_worker(&[origin.address], "", "");
        let mut connection = Connection::open(gateway.address);
        assert_eq!(connection.get("/").text(), "0");
        connection.send(format!(
            "{method} / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
        ));
        let response = connection.response_to(method).expect("an answer");
        let expected = if method == "HEAD" { "" } else { "1" };
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, expected),
            "{method}"
        );
        assert_eq!(closed.recv(), Ok(0));
        assert_eq!(origin.heads_waiting(), 3, "{method}");
        assert_eq!(gateway.metric("weir_upstream_retries_total"), 1);
        assert_eq!(gateway.metric("weir_upstream_pool_hits_total"), 1);
    }
}

/// The same with a POST: its bytes were sent, so it may have been acted on, and is not sent again.
#[test]
fn a_post_that_met_a_dead_idle_connection_is_not_sent_again() {
    let (origin, closed) = closing_on_the_second_request();
    let gateway = one_worker(&[origin.address], "", "");
    for method in ["POST", "PATCH", "SUBSCRIBE"] {
        let mut connection = Connection::open(gateway.address);
        connection.get("/");
        let _ = origin.next_head();
        connection.send(format!(
            "{method} / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
        ));
        assert_eq!(connection.response().status, 502, "{method}");
        closed.recv().expect("it closed");
        assert!(origin.next_head().starts_with(method));
        assert_eq!(origin.heads_waiting(), 0, "{method} is asked once");
    }
    assert_eq!(gateway.metric("weir_upstream_retries_total"), 0);
}

/// A connection that the endpoint closed while it was idle is noticed before it is used: even a POST is safe.
#[test]
fn an_idle_connection_that_was_closed_is_not_used() {
    let (go_on, may_go_on) = channel::<()>();
    let (tell, closed) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let origin = Origin::start(move |mut peer, number| {
        if peer.head().is_some() {
            peer.body(4);
            peer.send(ok(&number.to_string()));
            let _ = may_go_on.lock().expect("no handler panics").recv();
            peer.close();
            let _ = tell.send(());
        }
    });
    let gateway = one_worker(&[origin.address], "", "");
    let mut connection = Connection::open(gateway.address);
    for number in 0..10 {
        connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!(connection.response().text(), number.to_string());
        go_on.send(()).expect("the origin waits");
        closed.recv().expect("it closed");
    }
    assert_eq!(gateway.metric("weir_upstream_pool_hits_total"), 0);
}

/// A body of which nothing was sent goes along when its head is sent again, even if the first endpoint refused it.
#[test]
fn a_body_that_was_not_sent_yet_goes_along_with_the_repeated_head() {
    let (go_on, may_go_on) = channel::<()>();
    let (tell, closed) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let origin = Origin::start(move |mut peer, number| {
        if number > 0 {
            peer.head();
            let body = peer.body(4);
            return peer.send(ok(&String::from_utf8(body).expect("text")));
        }
        peer.head();
        peer.send(ok("first"));
        peer.head();
        let _ = may_go_on.lock().expect("no handler panics").recv();
        let socket = socket2::SockRef::from(&peer.stream);
        let _ = socket.set_linger(Some(std::time::Duration::ZERO));
        drop(peer);
        let _ = tell.send(());
    });
    let gateway = one_worker(&[origin.address], "", "");
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").text(), "first");
    let _ = origin.next_head();
    connection.send("PUT / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\n");
    assert!(origin.next_head().starts_with("PUT"));
    // While the gateway stands still, its connection is reset and the body arrives: it learns of both at once.
    gateway.process.signal("STOP");
    go_on.send(()).expect("the origin waits");
    closed.recv().expect("it closed");
    connection.send("body");
    gateway.process.signal("CONT");
    assert_eq!(connection.response().text(), "body");
}
