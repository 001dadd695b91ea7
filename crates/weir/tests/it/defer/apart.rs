//! What fails is kept apart from what does not: upstreams, dead letters, messages that are never taken, records that cannot be read.

use std::fs;
use std::net::TcpListener;

use super::Queued;
use super::sink::{Answer, Sink};
use crate::harness::tool;
use crate::harness::wait_until;

/// A place where nobody listens.
fn nowhere() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

fn reload(queued: &Queued) {
    let admin = queued.admin().to_string();
    let run = tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &["reload", "--admin", &admin]);
    assert!(run.status.success(), "{}", run.stderr);
}

#[test]
fn an_upstream_that_is_gone_holds_up_no_other() {
    let sink = Sink::start();
    let mut queued = Queued::start(&sink, "", "");
    queued.write(&format!(
        "[queue.events]\npath = \"{}\"\n[upstream.sink]\nservers = [\"{}\"]\n[upstream.gone]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/gone\"\ndefer = \"events\"\nupstream = \"gone\"\n\
         [[route]]\npath = \"/well\"\ndefer = \"events\"\nupstream = \"sink\"\n",
        queued.path().display(),
        sink.address,
        nowhere()
    ));
    queued.restart();
    for number in 0..30 {
        queued.accepted("/gone", &format!("gone {number}"));
    }
    wait_until("it is known to be ill", || {
        queued.status()["is_ill"] == true
    });
    for number in 0..200 {
        queued.accepted("/well", &format!("well {number}"));
    }
    queued.wait_for("delivered", 200);
    // Also when that is how it begins.
    queued.restart();
    queued.accepted("/well", "later");
    wait_until("it is delivered", || {
        sink.bodies().contains(&"later".to_owned())
    });
    queued.wait_for("waiting", 30);
    assert_eq!(queued.status()["dead"], 0);
}

#[test]
fn a_dead_letter_whose_upstream_is_gone_holds_up_nothing() {
    let sink = Sink::answering(|_| Answer::status(422));
    let queued = Queued::start(&sink, "", "");
    queued.accepted("/", "dead");
    queued.wait_for("dead", 1);
    sink.answer(|_| Answer::status(200));
    let other = format!(
        "[queue.events]\npath = \"{}\"\n[upstream.other]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\ndefer = \"events\"\nupstream = \"other\"\n",
        queued.path().display(),
        sink.address
    );
    queued.write(&other);
    reload(&queued);
    queued.told(&["dead", "redrive", "events", "--all"]);
    assert_eq!(
        queued.told(&["dead", "redrive", "events", "0"]),
        "queue events delivers 0 messages\n",
        "it is on its way already"
    );
    for number in 0..100 {
        queued.accepted("/", &number.to_string());
    }
    queued.wait_for("delivered", 100);
    queued.told(&["dead", "drop", "events", "--all"]);
    assert_eq!(queued.status()["dead"], 0);
}

/// One that fails for ever is the oldest, and keeps everything behind it on the disk.
#[test]
fn a_message_that_fails_does_not_fill_the_queue() {
    let sink = Sink::answering(|delivered| match &*delivered.body {
        "poison" => Answer::status(500),
        _ => Answer::status(200),
    });
    let queued = Queued::start(
        &sink,
        "size = \"4MiB\"\nattempts = 1000\nbackoff = \"20ms\"\nkeep = \"0s\"",
        "",
    );
    queued.accepted("/", "poison");
    let body = "x".repeat(50_000);
    for _ in 0..200 {
        wait_until("it is taken", || queued.post("/", &body).status == 202);
    }
    let listed = queued.told(&["dead", "list", "events"]);
    assert!(listed.contains("room"), "{listed}");
    queued.wait_for("waiting", 0);
}

#[test]
fn dead_letters_that_are_gone_leave_room() {
    let sink = Sink::answering(|delivered| match delivered.body.len() {
        0..1000 => Answer::status(200),
        _ => Answer::status(422),
    });
    let queued = Queued::start(
        &sink,
        "size = \"4MiB\"\nmessage_size = \"1MiB\"\nkeep = \"0s\"",
        "",
    );
    let body = "x".repeat(1_000_000);
    for _ in 0..3 {
        wait_until("it is taken", || queued.post("/", &body).status == 202);
    }
    queued.wait_for("dead", 3);
    queued.told(&["dead", "drop", "events", "--all"]);
    wait_until("there is room", || {
        queued.status()["bytes"].as_u64() < Some(3 << 20)
    });
    wait_until("it is taken", || queued.post("/", &body).status == 202);
}

#[test]
fn a_letter_that_was_dropped_has_failed_and_one_that_was_replayed_has_not() {
    let sink = Sink::answering(|_| Answer::status(422));
    let mut queued = Queued::start(&sink, "", "");
    let locations = ["a", "b"].map(|body| {
        let response = queued.post("/", body);
        response.field("location").expect("a location").to_owned()
    });
    queued.wait_for("dead", 2);
    queued.told(&["dead", "drop", "events", "0"]);
    sink.answer(|_| Answer::status(200));
    queued.told(&["replay", "events", "--from", "1"]);
    queued.wait_for("dead", 0);
    for round in ["before", "after"] {
        let states = [0, 1].map(|at: usize| {
            let response = crate::harness::client::get(queued.address(), &locations[at]);
            super::json(&response)["state"].clone()
        });
        assert_eq!(states, ["failed", "delivered"], "{round} a restart");
        queued.restart();
    }
}

#[test]
fn a_batch_is_no_way_around_the_bounds() {
    let sink = Sink::start();
    let route = "[[route]]\npath = \"/bulk\"\ndefer = { queue = \"events\", batch = \"ndjson\" }\nupstream = \"sink\"\n";
    let queued = Queued::start(&sink, "", route);
    let lines = "1\n".repeat(10_000);
    let long = format!("X-Long: {}\r\n", "x".repeat(8000));
    let response = queued.post_with("/bulk", &long, &lines);
    assert_eq!(response.status, 413, "{}", response.text());
    assert_eq!(queued.post("/bulk", &lines).status, 202);
    queued.wait_for("delivered", 10_000);
}

#[test]
fn records_that_cannot_be_read_are_passed_by_when_somebody_says_so() {
    let sink = Sink::answering(|_| Answer::status(503));
    let mut queued = Queued::start(&sink, "size = \"64MiB\"\nbackoff = \"50ms\"", "");
    let filler = "x".repeat(20_000);
    // More than a segment, which is half a mebibyte here.
    for number in 0..60 {
        queued.accepted("/", &format!("message {number} {filler}"));
    }
    queued.end();
    let path = queued.path().join("log/00000000000000000000.log");
    let mut bytes = fs::read(&path).expect("a segment");
    let at = bytes
        .windows(11)
        .position(|it| it == b"message 12 ")
        .expect("the message");
    bytes[at] ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    sink.answer(|_| Answer::status(200));
    let before = sink.seen().len();
    queued.restart();
    wait_until("it has stopped", || queued.status()["stopped"].is_string());
    assert!(queued.told(&["list"]).contains("is damaged at byte"));
    queued.told(&["resume", "events"]);
    wait_until("it has stopped again", || {
        queued.status()["stopped"].is_string()
    });
    let said = queued.told(&["resume", "events", "--skip-damaged"]);
    assert!(said.contains("cannot be read"), "{said}");
    queued.wait_for("waiting", 0);
    let delivered: std::collections::BTreeSet<u64> =
        sink.seen()[before..].iter().map(|it| it.offset).collect();
    assert!(!delivered.contains(&12) && delivered.contains(&59));
    assert!(delivered.len() >= 55, "{delivered:?}");
}

#[test]
fn an_upstream_that_fails_beside_one_that_does_not_costs_no_message() {
    let (well, sick) = (Sink::start(), Sink::answering(|_| Answer::status(503)));
    let mut queued = Queued::start(&well, "", "");
    queued.write(&format!(
        "[queue.events]\npath = \"{}\"\nattempts = 2\nbackoff = \"10ms\"\n[upstream.well]\nservers = [\"{}\"]\n\
         [upstream.sick]\nservers = [\"{}\"]\n[[route]]\npath = \"/sick\"\ndefer = \"events\"\nupstream = \"sick\"\n\
         [[route]]\npath = \"/well\"\ndefer = \"events\"\nupstream = \"well\"\n",
        queued.path().display(),
        well.address,
        sick.address
    ));
    queued.restart();
    for number in 0..20 {
        queued.accepted("/sick", &number.to_string());
    }
    for number in 0..50 {
        queued.accepted("/well", &number.to_string());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    queued.wait_for("delivered", 50);
    assert_eq!(queued.status()["dead"], 0);
    sick.answer(|_| Answer::status(200));
    queued.wait_for("waiting", 0);
}

/// All that was delivered is in the segment that is written.
#[test]
fn a_queue_that_is_empty_is_not_full() {
    let sink = Sink::start();
    let queued = Queued::start(
        &sink,
        "size = \"4MiB\"\nmessage_size = \"1MiB\"\nkeep = \"1h\"",
        "",
    );
    queued.told(&["pause", "events"]);
    let body = "x".repeat(1_000_000);
    while queued.post("/", &body).status == 202 {}
    queued.told(&["resume", "events"]);
    queued.wait_for("waiting", 0);
    for _ in 0..10 {
        wait_until("it is taken", || queued.post("/", &body).status == 202);
        queued.wait_for("waiting", 0);
    }
}

#[test]
fn what_has_waited_too_long_is_given_up_however_rarely_it_is_tried() {
    let sink = Sink::start();
    let mut queued = Queued::start(&sink, "", "");
    queued.write(&format!(
        "[queue.events]\npath = \"{}\"\ngive_up = \"4s\"\n[upstream.gone]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\ndefer = \"events\"\nupstream = \"gone\"\n",
        queued.path().display(),
        nowhere()
    ));
    queued.restart();
    for number in 0..300 {
        queued.accepted("/", &number.to_string());
    }
    queued.wait_for("dead", 300);
    assert!(queued.told(&["dead", "list", "events"]).contains("age"));
    wait_until("nothing waits for it", || {
        queued.status()["is_ill"] == false
    });
}

#[test]
fn only_what_cannot_be_read_is_passed_by() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    queued.told(&["pause", "events"]);
    queued.accepted("/", "x");
    let run = queued.weir_queue(&["resume", "events", "--skip-damaged"]);
    assert_eq!(
        run.stderr,
        "it has not stopped because of what cannot be read\n"
    );
    queued.told(&["resume", "events"]);
    queued.wait_for("waiting", 0);
    assert_eq!(sink.bodies(), ["x"]);
}
