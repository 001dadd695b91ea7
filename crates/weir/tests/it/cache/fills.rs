//! Many requests for one key: one asks, the others wait, read along, or go on their own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{caching, patient};
use crate::harness::client::{Connection, get};
use crate::harness::origin::Origin;
use crate::harness::wait_until;

const CLIENTS: usize = 200;

#[test]
fn two_hundred_misses_are_one_request() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let _ = wait.lock().expect("one at a time").recv();
            peer.send(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 6\r\n\r\nshared",
            );
        }
    });
    let gateway = patient(origin.address);
    let address = gateway.address;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| thread::spawn(move || get(address, "/")))
        .collect();
    gateway.wait_for_metric("weir_cache_waits_total", CLIENTS as u64 - 1);
    go.send(()).expect("the origin waits");
    for client in clients {
        let response = client.join().expect("it is answered");
        assert_eq!((response.status, response.text().as_str()), (200, "shared"));
    }
    assert_eq!(origin.heads_waiting(), 1);
    gateway.wait_for_metric("weir_cache_joins_total", CLIENTS as u64 - 1);
}

#[test]
fn two_hundred_requests_for_something_stale_are_one_request() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("If-None-Match") {
                let _ = wait.lock().expect("one at a time").recv();
                peer.send(
                    "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\n\r\n",
                );
            } else {
                peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"1\"\r\nContent-Length: 3\r\n\r\nold");
            }
        }
    });
    let gateway = patient(origin.address);
    let address = gateway.address;
    assert_eq!(get(address, "/").text(), "old");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| thread::spawn(move || get(address, "/")))
        .collect();
    gateway.wait_for_metric("weir_cache_waits_total", CLIENTS as u64 - 1);
    go.send(()).expect("the origin waits");
    for client in clients {
        assert_eq!(client.join().expect("it is answered").text(), "old");
    }
    assert_eq!(origin.heads_waiting(), 2);
}

#[test]
fn with_stale_while_revalidate_nobody_waits() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let count = Arc::clone(&asked);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let number = count.fetch_add(1, Ordering::SeqCst);
            if number > 0 {
                let _ = wait.lock().expect("one at a time").recv();
            }
            let age = if number > 0 { 60 } else { 0 };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age={age}\r\nContent-Length: 1\r\n\r\n{number}"
            ));
        }
    });
    let gateway = caching(origin.address, "{ stale_while_revalidate = \"60s\" }");
    assert_eq!(get(gateway.address, "/").text(), "0");
    for _ in 0..20 {
        assert_eq!(
            get(gateway.address, "/").text(),
            "0",
            "while the origin is asked"
        );
    }
    go.send(()).expect("the origin waits");
    wait_until("the refreshed response is served", || {
        get(gateway.address, "/").text() == "1"
    });
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(gateway.metric("weir_cache_refreshes_total"), 1);
}

#[test]
fn who_has_waited_for_too_long_gets_what_is_stale() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, number| {
        let _ = peer.head();
        if number == 0 {
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-if-error=60\r\nETag: \"1\"\r\nConnection: close\r\nContent-Length: 3\r\n\r\nold");
        } else if number == 1 {
            // Closed without a word, so that the leader asks once more, and waits longer than those who joined.
            let _ = wait.lock().expect("one at a time").recv();
        } else {
            peer.head();
        }
    });
    let gateway = caching(
        origin.address,
        "true\ntimeout = { connect = \"100ms\", response = \"1s\" }",
    );
    let address = gateway.address;
    assert_eq!(get(address, "/").text(), "old");
    let leader = thread::spawn(move || get(address, "/").text());
    origin.next_head();
    origin.next_head();
    let joins = thread::spawn(move || get(address, "/"));
    gateway.wait_for_metric("weir_cache_waits_total", 1);
    thread::sleep(Duration::from_millis(700));
    go.send(()).expect("the origin waits");
    let joined = joins.join().expect("it is answered");
    assert_eq!((joined.status, joined.text().as_str()), (200, "old"));
    assert_eq!(leader.join().expect("it is answered"), "old");
}

/// The leader has passed 103 on, has been told 304 of something else, and asks again without conditions; somebody asks in its place
/// meanwhile and is answered.
#[test]
fn a_leader_that_has_said_103_gets_the_answer_of_who_asks_in_its_place() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let leads = head.contains("X-Who: leader");
            if leads && head.contains("If-None-Match") {
                peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
                peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"other\"\r\n\r\n");
                continue;
            }
            if leads {
                let _ = wait.lock().expect("one at a time").recv();
            }
            let control = if head.contains("X-Who: first") {
                "max-age=0"
            } else {
                "max-age=60"
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nETag: \"1\"\r\nContent-Length: 1\r\n\r\nx"
            ));
        }
    });
    let gateway = caching(origin.address, "{ collapse_wait = \"100ms\" }");
    let ask = |who: &str| {
        let mut client = Connection::open(gateway.address);
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: test\r\nX-Who: {who}\r\n\r\n"
        ));
        client
    };
    assert_eq!(ask("first").response().text(), "x");
    let mut leads = ask("leader");
    leads.until(b"103 Early Hints\r\n");
    leads.until(b"\r\n\r\n");
    assert_eq!(ask("other").response().text(), "x");
    let response = leads.response();
    assert_eq!((response.status, response.text().as_str()), (200, "x"));
    drop(go);
}
