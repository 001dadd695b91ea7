//! A purge while the origin is being asked: what it answers was asked for before, and is used for nothing that begins
//! after it.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::{caching, purge};
use crate::harness::client::{Connection, get};
use crate::harness::origin::Origin;

/// The head, and half of the body, of which the rest is `old`.
const HALF: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nCache-Tag: news\r\nContent-Length: 6\r\n\r\nold";
const NEW: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nCache-Tag: news\r\nContent-Length: 3\r\n\r\nnew";
const ASK: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

/// An origin whose first answer is `parts`, each of them sent when it is told to, and any other [`NEW`].
fn slow(parts: &'static [&'static str]) -> (Origin, Sender<()>) {
    let (go, wait) = channel::<()>();
    let wait: Mutex<Receiver<()>> = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, number| {
        while peer.head().is_some() {
            if number > 0 {
                peer.send(NEW);
                continue;
            }
            for part in parts {
                let _ = wait.lock().expect("one at a time").recv();
                peer.send(part);
            }
        }
    });
    (origin, go)
}

const SCOPES: [&str; 5] = [
    "{\"url\": \"http://h/a\"}",
    "{\"prefix\": \"http://h/\"}",
    "{\"prefix\": \"/a\"}",
    "{\"tag\": \"news\"}",
    "{\"all\": true}",
];

#[test]
fn nobody_joins_a_fill_from_before_a_purge_and_nothing_of_it_is_stored() {
    for what in SCOPES {
        for soft in [false, true] {
            for parts_before in 0..2 {
                let (origin, go) = slow(&[HALF, "old"]);
                let gateway = caching(origin.address, "true");
                let mut before = Connection::open(gateway.address);
                before.send(ASK);
                origin.next_head();
                if parts_before > 0 {
                    go.send(()).expect("the origin waits");
                    before.until(b"\r\n\r\nold");
                }
                let what = what.replace('}', &format!(", \"soft\": {soft}}}"));
                purge(&gateway, &what);
                let mut after = Connection::open(gateway.address);
                after.send(ASK);
                assert_eq!(after.response().text(), "new", "{what} {parts_before}");
                for _ in parts_before..2 {
                    go.send(()).expect("the origin waits");
                }
                before.until(if parts_before > 0 { b"old" } else { b"oldold" });
                // The old answer is whole by now, and came later than the new one.
                for _ in 0..2 {
                    after.send(ASK);
                    assert_eq!(after.response().text(), "new", "{what} {parts_before}");
                }
            }
        }
    }
}

#[test]
fn a_fill_that_a_purge_does_not_name_is_shared_and_stored() {
    let (origin, go) = slow(&[HALF, "old"]);
    let gateway = caching(origin.address, "true");
    let mut before = Connection::open(gateway.address);
    before.send(ASK);
    origin.next_head();
    go.send(()).expect("the origin waits");
    before.until(b"\r\n\r\nold");
    for what in [
        "{\"url\": \"http://h/b\"}",
        "{\"prefix\": \"/b\"}",
        "{\"tag\": \"sports\"}",
    ] {
        purge(&gateway, what);
    }
    let mut after = Connection::open(gateway.address);
    after.send(ASK);
    gateway.wait_for_metric("weir_cache_waits_total", 1);
    go.send(()).expect("the origin waits");
    assert_eq!(after.response().text(), "oldold");
    after.send(ASK);
    assert_eq!(after.response().text(), "oldold");
    assert_eq!(origin.heads_waiting(), 0);
}

/// Asks for what is stale, purges while the origin is asked whether it is right still, and has it say so; both answers have a
/// tag. The next request has nothing to ask about.
fn purge_during_confirmation(tags: [&'static str; 2], what: &str) {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("If-None-Match") {
                let _ = wait.lock().expect("one at a time").recv();
                peer.send(format!(
                    "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\nCache-Tag: {}\r\nETag: \"1\"\r\n\r\n",
                    tags[1]
                ));
            } else {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nCache-Tag: {}\r\nETag: \"1\"\r\nContent-Length: 1\r\n\r\nx",
                    tags[0]
                ));
            }
        }
    });
    let gateway = caching(origin.address, "true");
    assert_eq!(get(gateway.address, "/a").text(), "x");
    origin.next_head();
    let mut validating = Connection::open(gateway.address);
    validating.send("GET /a HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(origin.next_head().contains("If-None-Match"));
    purge(&gateway, what);
    go.send(()).expect("the origin waits");
    assert_eq!(validating.response().text(), "x");
    assert_eq!(get(gateway.address, "/a").text(), "x");
    let asked = origin.next_head();
    assert!(!asked.contains("If-None-Match"), "{asked}");
}

#[test]
fn what_was_purged_does_not_come_back_by_a_confirmation_that_was_under_way() {
    purge_during_confirmation(["a", "a"], "{\"all\": true}");
}

#[test]
fn a_confirmation_with_new_tags_is_met_by_a_purge_of_the_old_ones() {
    purge_during_confirmation(["a", "b"], "{\"tag\": \"a\"}");
}

#[test]
fn a_request_that_changes_something_ends_what_is_under_way_too() {
    // The second asks for itself alone: nobody joins it, and its answer is stored.
    for fields in ["", "Cache-Control: no-cache\r\n"] {
        let (origin, go) = slow(&[HALF, "old"]);
        let gateway = caching(origin.address, "true");
        let mut before = Connection::open(gateway.address);
        before.send(format!("GET /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        origin.next_head();
        let mut after = Connection::open(gateway.address);
        after.send("DELETE /a HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(after.response().text(), "new");
        after.send(ASK);
        assert_eq!(after.response().text(), "new", "{fields}");
        for _ in 0..2 {
            go.send(()).expect("the origin waits");
        }
        before.until(b"oldold");
        for _ in 0..2 {
            after.send(ASK);
            assert_eq!(after.response().text(), "new", "{fields}");
        }
    }
}
