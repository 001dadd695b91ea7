//! What a 304, and the answer to HEAD, may do to what is stored: what they say for one client reaches no other.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use super::caching;
use crate::harness::client::{Connection, get, send};
use crate::harness::origin::{Origin, Peer};

const GET: &str = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";
const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
const AUTHORIZED: &str = "GET / HTTP/1.1\r\nHost: test\r\nAuthorization: x\r\n\r\n";
const MAX_STALE: &str = "GET / HTTP/1.1\r\nHost: test\r\nCache-Control: max-stale\r\n\r\n";
const STALE: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"1\"\r\nContent-Length: 1\r\n\r\nx";

/// An origin whose answers are stale when they come, and which says `fields` when it confirms them.
fn confirming(fields: &'static str) -> Origin {
    Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            answer(&mut peer, &head, fields);
        }
    })
}

/// The same, where each confirmation waits for its turn.
fn confirming_in_turn(fields: &'static str) -> (Origin, Sender<()>) {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("If-None-Match") {
                let _ = wait.lock().expect("one at a time").recv();
            }
            answer(&mut peer, &head, fields);
        }
    });
    (origin, go)
}

fn answer(peer: &mut Peer, head: &str, fields: &str) {
    if head.starts_with("HEAD") {
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nETag: \"1\"\r\n{fields}\r\nContent-Length: 1\r\n\r\n"
        ));
    } else if head.contains("If-None-Match") {
        peer.send(format!(
            "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n{fields}\r\n\r\n"
        ));
    } else {
        peer.send(STALE);
    }
}

/// Which requests had a condition, in the order in which they came.
fn conditions(origin: &Origin) -> Vec<bool> {
    let heads = origin.heads();
    heads
        .iter()
        .map(|head| head.contains("If-None-Match"))
        .collect()
}

#[test]
fn a_cookie_in_a_confirmation_is_for_one_client() {
    for (cache, is_kept) in [("true", true), ("{ set_cookie = \"refuse\" }", false)] {
        let (origin, go) = confirming_in_turn("Cache-Control: max-age=60\r\nSet-Cookie: user=1");
        let gateway = caching(origin.address, cache);
        get(gateway.address, "/");
        let mut leads = Connection::open(gateway.address);
        leads.send(GET);
        origin.next_head();
        origin.next_head();
        let mut joins = Connection::open(gateway.address);
        joins.send(GET);
        gateway.wait_for_metric("weir_cache_waits_total", 1);
        go.send(()).expect("the origin waits");
        let own = leads.response();
        assert_eq!(
            (own.text().as_str(), own.field("set-cookie")),
            ("x", Some("user=1"))
        );
        for other in [joins.response(), send(gateway.address, MAX_STALE)] {
            assert_eq!(
                (other.text().as_str(), other.field("set-cookie")),
                ("x", None),
                "{cache}"
            );
        }
        assert_eq!(origin.heads().is_empty(), is_kept, "{cache}");
    }
}

#[test]
fn what_a_confirmation_makes_private_is_stored_no_more() {
    for fields in [
        "Cache-Control: private, max-age=60",
        "Cache-Control: no-store",
        "Cache-Control: max-age=60\r\nVary: *",
    ] {
        let (origin, go) = confirming_in_turn(fields);
        let gateway = caching(origin.address, "true");
        get(gateway.address, "/");
        let mut leads = Connection::open(gateway.address);
        leads.send(GET);
        origin.next_head();
        origin.next_head();
        let mut joins = Connection::open(gateway.address);
        joins.send(GET);
        gateway.wait_for_metric("weir_cache_waits_total", 1);
        go.send(()).expect("the origin waits");
        let own = leads.response();
        assert_eq!((own.status, own.text().as_str()), (200, "x"), "{fields}");
        let said = own.field("cache-status").unwrap_or_default();
        assert!(
            !said.contains("stored") && said.contains("detail="),
            "{said}"
        );
        assert_eq!(joins.response().text(), "x");
        assert_eq!(
            conditions(&origin),
            [false],
            "{fields}: it is gone, so whoever waited asks for all of it"
        );
    }
}

#[test]
fn an_answer_to_head_is_held_to_the_same() {
    for (fields, asked) in [
        ("Cache-Control: max-age=60\r\nSet-Cookie: user=1", &[][..]),
        ("Cache-Control: private, max-age=60", &[false][..]),
        ("Cache-Control: no-store", &[false][..]),
        ("Cache-Control: max-age=60\r\nVary: *", &[false][..]),
    ] {
        let origin = confirming(fields);
        let gateway = caching(origin.address, "true");
        get(gateway.address, "/");
        assert_eq!(send(gateway.address, HEAD).status, 200);
        assert_eq!(origin.heads_waiting(), 2);
        let after = get(gateway.address, "/");
        assert_eq!(
            (after.text().as_str(), after.field("set-cookie")),
            ("x", None)
        );
        assert_eq!(conditions(&origin), asked, "{fields}");
    }
}

#[test]
fn a_confirmation_for_one_who_is_authorized_is_for_others_only_where_it_says_so() {
    for (fields, asked) in [
        ("Cache-Control: max-age=60", &[true][..]),
        ("Cache-Control: max-age=60, public", &[][..]),
    ] {
        let origin = confirming(fields);
        let gateway = caching(origin.address, "true");
        get(gateway.address, "/");
        assert_eq!(send(gateway.address, AUTHORIZED).text(), "x");
        assert_eq!(conditions(&origin), [false, true]);
        assert_eq!(get(gateway.address, "/").text(), "x");
        assert_eq!(conditions(&origin), asked, "{fields}");
    }
}

#[test]
fn an_answer_to_head_confirms_no_error() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if head.starts_with("HEAD") {
                peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\n");
            } else {
                peer.send(STALE.replace("200 OK", "404 Not Found"));
            }
        }
    });
    let gateway = caching(origin.address, "true");
    assert_eq!(get(gateway.address, "/").status, 404);
    assert_eq!(send(gateway.address, HEAD).status, 200);
    assert_eq!(origin.heads_waiting(), 2);
    get(gateway.address, "/");
    assert_eq!(
        origin.heads_waiting(),
        1,
        "what was not found may be there now"
    );
}

/// One that wants nothing stored, and one that is selected by a field that passes for another: the confirmation that its request
/// gets renews nothing, and what is stored stays for the others.
#[test]
fn a_confirmation_that_may_not_be_kept_renews_nothing() {
    for asks in ["Cache-Control: no-store", "X_Device: tv"] {
        let origin = Origin::start(|mut peer, _| {
            while let Some(head) = peer.head() {
                if head.contains("If-None-Match") {
                    peer.send(
                        "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nVary: X-Device\r\n\
                         Cache-Control: max-age=60\r\n\r\n",
                    );
                } else {
                    peer.send(STALE.replace("ETag", "Vary: X-Device\r\nETag"));
                }
            }
        });
        let gateway = caching(origin.address, "true");
        let tv = "GET / HTTP/1.1\r\nHost: test\r\nX-Device: tv\r\n\r\n";
        assert_eq!(send(gateway.address, tv).text(), "x");
        let odd = format!("GET / HTTP/1.1\r\nHost: test\r\n{asks}\r\n\r\n");
        assert_eq!(send(gateway.address, &odd).text(), "x");
        assert_eq!(get(gateway.address, "/").text(), "x");
        assert_eq!(conditions(&origin), [false, true, true], "{asks}");
    }
}

#[test]
fn an_answer_to_head_confirms_nothing_by_what_is_not_stored() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let validator = if head.starts_with("HEAD") {
                "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            } else {
                "ETag: \"1\"\r\n"
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{validator}Content-Length: 1\r\n\r\n"
            ));
            if !head.starts_with("HEAD") {
                peer.send("x");
            }
        }
    });
    let gateway = caching(origin.address, "true");
    assert_eq!(get(gateway.address, "/").text(), "x");
    let head = HEAD.replace("Host", "Cache-Control: no-cache\r\nHost");
    assert_eq!(send(gateway.address, &head).status, 200);
    assert_eq!(get(gateway.address, "/").text(), "x");
    assert_eq!(conditions(&origin), [false, false, true]);
}
