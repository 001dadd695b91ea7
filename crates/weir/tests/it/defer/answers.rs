//! What clients are told.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use super::sink::{Answer, Sink};
use super::{Queued, json};
use crate::harness::client::{get, send};
use crate::harness::wait_until;

#[test]
fn a_request_is_accepted_and_delivered_as_it_came() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    let lines = "X-Own: 1\r\nCookie: a=b\r\nTransfer-Encoding: gone\r\n";
    let refused = queued.post_with("/a", lines, "x");
    assert_eq!(refused.status, 400, "framing is what it was");
    let response = queued.post_with("/a%20b?c=d", "X-Own: 1\r\nCookie: a=b\r\n", "hello");
    assert_eq!(response.status, 202);
    assert_eq!(response.text(), "{\"offset\":0}\n");
    assert_eq!(response.field("content-type"), Some("application/json"));
    let [delivered] = &sink.wait_for(1)[..] else {
        panic!("one was sent");
    };
    assert!(
        delivered.head.starts_with("POST /a%20b?c=d HTTP/1.1\r\n"),
        "{}",
        delivered.head
    );
    assert_eq!(delivered.body, "hello");
    assert_eq!((delivered.offset, delivered.attempt), (0, 1));
    for (name, value) in [
        ("host", "test"),
        ("x-own", "1"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "127.0.0.1"),
        ("content-length", "5"),
    ] {
        assert_eq!(delivered.field(name), Some(value), "{name}");
    }
}

#[test]
fn a_client_cannot_make_up_an_offset() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    queued.post_with("/", "Weir-Offset: 7\r\nWeir_Attempt: 9\r\n", "x");
    let delivered = &sink.wait_for(1)[0];
    assert_eq!((delivered.offset, delivered.attempt), (0, 1));
    assert_eq!(delivered.field("weir_attempt"), None);
}

#[test]
fn the_location_tells_what_has_become_of_it() {
    let sink = Sink::answering(|delivered| match &*delivered.body {
        "bad" => Answer::status(422),
        _ => Answer::status(503),
    });
    let queued = Queued::start(&sink, "answers = \"1KiB\"\nbackoff = \"50ms\"", "");
    let location = |body| {
        let response = queued.post("/", body);
        response.field("location").expect("a location").to_owned()
    };
    let (good, bad) = (location("good"), location("bad"));
    let state = |location: &str| {
        let response = get(queued.address(), location);
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.field("cache-control"), Some("no-store"));
        json(&response)
    };
    wait_until("one has failed", || state(&bad)["state"] == "failed");
    assert_eq!(state(&bad)["status"], 422);
    assert_eq!(state(&good)["state"], "pending");
    sink.answer(|_| Answer::status(201));
    wait_until("the other is delivered", || {
        state(&good)["state"] == "delivered"
    });
    let said = state(&good);
    assert_eq!(
        (&said["status"], &said["answer"]),
        (&201.into(), &"said\n".into())
    );
    // Nobody finds another message by counting.
    let (path, _) = good.rsplit_once('-').expect("an offset and a proof");
    for guess in [
        format!("{path}-0"),
        path.to_owned(),
        path.replace("/0", "/1-ab"),
    ] {
        assert_eq!(get(queued.address(), &guess).status, 404, "{guess}");
    }
}

#[test]
fn what_is_sent_twice_is_kept_once() {
    let sink = Sink::start();
    let mut queued = Queued::start(&sink, "", "");
    let post = |queued: &Queued, key: &str, body: &str| {
        let response = queued.post_with("/", &format!("Idempotency-Key: {key}\r\n"), body);
        (response.status, json(&response))
    };
    let (status, first) = post(&queued, "\"a\"", "1");
    assert_eq!((status, &first["duplicate"]), (202, &().into()));
    for round in 0..2 {
        let (status, again) = post(&queued, "\"a\"", "1");
        assert_eq!(
            (status, &again["offset"]),
            (202, &first["offset"]),
            "{round}"
        );
        assert_eq!(again["duplicate"], true);
        let (status, other) = post(&queued, "\"a\"", "2");
        assert_eq!(status, 422, "{other}");
        // Also after a crash.
        queued.restart();
    }
    assert_eq!(post(&queued, "\"b\"", "1").0, 202);
    // Somebody else with the same key learns nothing of it.
    let lines = "Idempotency-Key: \"a\"\r\nAuthorization: Bearer other\r\n";
    let other = json(&queued.post_with("/", lines, "1"));
    assert!(other["duplicate"].is_null(), "{other}");
    let mode = std::fs::metadata(queued.path().join("log")).expect("it is there");
    assert_eq!(mode.permissions().mode() & 0o777, 0o700);
    assert_eq!(post(&queued, &"k".repeat(256), "1").0, 400);
    queued.wait_for("waiting", 0);
    // A kill may have it delivered again, under its offset.
    let offsets = sink.seen().into_iter().map(|it| it.offset);
    assert_eq!(offsets.collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn each_line_of_a_batch_is_a_message() {
    let sink = Sink::start();
    let route = "[[route]]\npath = \"/bulk\"\ndefer = { queue = \"events\", batch = \"ndjson\" }\nupstream = \"sink\"\n";
    let queued = Queued::start(&sink, "concurrency = 1", route);
    let response = queued.post_with(
        "/bulk",
        "Content-Type: application/x-ndjson\r\n",
        "{\"a\":1}\r\n\n[2]\n3",
    );
    assert_eq!(response.status, 202);
    assert_eq!(response.text(), "{\"offset\":0,\"messages\":3}\n");
    let seen = sink.wait_for(3);
    assert_eq!(sink.bodies(), ["{\"a\":1}", "[2]", "3"]);
    assert_eq!(seen[0].field("content-type"), Some("application/json"));
    for empty in ["", "\n\r\n"] {
        assert_eq!(queued.post("/bulk", empty).status, 400);
    }
    let response = queued.post_with("/bulk", "Content-Encoding: gzip\r\n", "x");
    assert_eq!(response.status, 415);
}

#[test]
fn bodies_have_a_bound() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "message_size = \"1KiB\"", "");
    assert_eq!(queued.post("/", &"x".repeat(1024)).status, 202);
    assert_eq!(queued.post("/", &"x".repeat(1025)).status, 413);
    let chunked =
        "POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = "3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(
        send(queued.address(), &format!("{chunked}{body}")).status,
        202
    );
    let bodies = sink.wait_for(2);
    assert_eq!(bodies[1].body, "abc");
    assert_eq!(bodies[1].field("content-length"), Some("3"));
}
