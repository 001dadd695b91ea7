//! Clients that leave: whatever was held or worked on for them is let go.

use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use super::{gateway, is_well, reading, wait_for_failures};
use crate::harness::PATIENCE;
use crate::harness::client::Connection;
use crate::harness::origin::Origin;

/// Clients that leave in the middle of something take nothing with them.
#[test]
fn clients_that_leave_are_forgotten() {
    let origin = reading();
    let gateway = gateway(&origin, "");
    for begun in [
        "",
        "\r\n",
        "GET / HT",
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf",
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
    ] {
        for how in [Shutdown::Write, Shutdown::Both] {
            let mut connection = Connection::open(gateway.address);
            connection.send(begun);
            connection.stream.shutdown(how).expect("it is open");
            if how == Shutdown::Write {
                // There is no use in an answer to half a request.
                assert!(connection.is_closed(), "{begun:?}");
            }
        }
    }
    is_well(&gateway);
}

/// A client that leaves while its request is worked on is noticed: the endpoint is spared the rest of it.
#[test]
fn a_client_that_leaves_takes_its_request_with_it() {
    for response_so_far in ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"] {
        let (tell, gone) = channel();
        let origin = Origin::start(move |mut peer, _| {
            while peer.head().is_some_and(|head| head.contains("/held")) {
                peer.send(response_so_far);
            }
            let _ = tell.send(());
        });
        let gateway = gateway(&origin, "");
        let mut connection = Connection::open(gateway.address);
        connection.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
        let _ = origin.next_head();
        drop(connection);
        gone.recv_timeout(PATIENCE)
            .expect("the endpoint sees its connection end");
        wait_for_failures(&gateway, "client_gone", 1);
    }
}

/// What a client pipelines behind a request that is worked on does not look like leaving.
#[test]
fn a_client_that_sends_more_has_not_left() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let _ = released.lock().expect("no handler panics").recv();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = gateway(&origin, "");
    let mut connection = Connection::open(gateway.address);
    for path in ["/first", "/second"] {
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        if path == "/first" {
            let _ = origin.next_head();
        }
    }
    for _ in 0..2 {
        release.send(()).expect("the origin waits");
        assert_eq!(connection.response().status, 200);
    }
}
