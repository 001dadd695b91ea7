//! How messages are delivered: in order, again, or not at all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Queued;
use super::sink::{Answer, Sink};
use crate::harness::origin::Origin;
use crate::harness::wait_until;

const BY_PATH: &str = "[[route]]\npath = \"/{user}\"\ndefer = { queue = \"events\", key = \"path:user\" }\nupstream = \"sink\"\n";

#[test]
fn a_key_keeps_its_order_and_holds_up_no_other() {
    let sink = Sink::answering(|delivered| match &*delivered.body {
        "a0" if delivered.attempt < 4 => Answer::status(500),
        _ => Answer::status(200),
    });
    let queued = Queued::start(&sink, "backoff = \"300ms\"", BY_PATH);
    for number in 0..20 {
        for user in ["a", "b", "c"] {
            queued.accepted(&format!("/{user}"), &format!("{user}{number}"));
        }
    }
    queued.wait_for("waiting", 0);
    let seen = sink.seen();
    let mut by_key: HashMap<&str, Vec<&str>> = HashMap::new();
    for delivered in &seen {
        let key = &delivered.body[..1];
        let bodies = by_key.entry(key).or_default();
        if bodies.last() != Some(&&*delivered.body) {
            bodies.push(&delivered.body);
        }
    }
    for user in ["a", "b", "c"] {
        let expected: Vec<String> = (0..20).map(|number| format!("{user}{number}")).collect();
        assert_eq!(by_key[user], expected);
    }
    let attempts: Vec<u32> = seen
        .iter()
        .filter(|it| it.body == "a0")
        .map(|it| it.attempt)
        .collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    let at = |body: &str| seen.iter().position(|it| it.body == body);
    assert!(at("b5") < at("a1"), "others do not wait");
}

#[test]
fn keys_are_taken_from_a_field_or_from_json() {
    let sink = Sink::answering(|delivered| {
        let wait = if delivered.body.contains("slow") {
            300
        } else {
            0
        };
        Answer(200, "", Duration::from_millis(wait))
    });
    let routes = "[[route]]\npath = \"/field\"\ndefer = { queue = \"events\", key = \"header:X-User\" }\nupstream = \"sink\"\n\
                  [[route]]\npath = \"/json\"\ndefer = { queue = \"events\", key = \"json:/user/id\" }\nupstream = \"sink\"\n";
    let queued = Queued::start(&sink, "", routes);
    // The window of deliveries grows with what succeeds.
    for _ in 0..20 {
        queued.accepted("/json", "warm");
    }
    queued.wait_for("waiting", 0);
    queued.post_with("/field", "X-User: 1\r\n", "slow field 1");
    queued.post_with("/field", "X-User: 1\r\n", "next field 1");
    queued.post_with("/field", "X-User: 2\r\n", "other field");
    queued.accepted("/json", "{\"user\": {\"id\": 1}, \"slow\": 1}");
    queued.accepted("/json", "{\"user\": {\"id\": 1}}");
    queued.accepted("/json", "{\"user\": {\"id\": \"1\"}}");
    queued.wait_for("waiting", 0);
    let bodies = sink.bodies();
    let at = |body: &str| {
        bodies
            .iter()
            .position(|it| it == body)
            .expect("it was delivered")
    };
    assert!(at("slow field 1") < at("next field 1"));
    assert!(at("other field") < at("next field 1"));
    assert!(at("{\"user\": {\"id\": 1}, \"slow\": 1}") < at("{\"user\": {\"id\": 1}}"));
}

#[test]
fn what_is_refused_for_good_is_a_dead_letter_at_once() {
    let sink = Sink::answering(|delivered| match delivered.body.parse() {
        Ok(status) => Answer::status(status),
        Err(_) => Answer::status(200),
    });
    let queued = Queued::start(&sink, "backoff = \"20ms\"", "");
    for status in ["400", "413", "422", "501"] {
        queued.accepted("/", status);
    }
    queued.accepted("/", "good");
    queued.wait_for("dead", 4);
    queued.wait_for("waiting", 0);
    let mut bodies = sink.bodies();
    bodies.sort();
    assert_eq!(
        bodies,
        ["400", "413", "422", "501", "good"],
        "each was tried once"
    );
}

#[test]
fn a_message_that_always_fails_is_given_up_after_its_attempts() {
    let sink = Sink::answering(|delivered| match &*delivered.body {
        "poison" => Answer::status(500),
        _ => Answer::status(200),
    });
    let queued = Queued::start(&sink, "attempts = 3\nbackoff = \"20ms\"", "");
    queued.accepted("/", "poison");
    // What is delivered besides makes its attempts count.
    wait_until("it is given up", || {
        queued.accepted("/", "good");
        queued.status()["dead"] == 1
    });
    queued.wait_for("waiting", 0);
    let tried = sink
        .seen()
        .into_iter()
        .filter(|it| it.body == "poison")
        .count();
    // Those do not count in which nothing else was delivered meanwhile.
    assert!((3..=20).contains(&tried), "{tried}");
    let listed = queued.told(&["dead", "list", "events"]);
    assert!(
        listed.contains("attempts") && listed.contains("status 500: said"),
        "{listed}"
    );
}

#[test]
fn an_upstream_that_is_down_costs_no_message() {
    let sink = Sink::answering(|_| Answer::status(500));
    let queued = Queued::start(&sink, "attempts = 1\nbackoff = \"5ms\"", "");
    for number in 0..50 {
        queued.accepted("/", &number.to_string());
    }
    sink.wait_for(10);
    assert_eq!(queued.status()["dead"], 0);
    sink.answer(|_| Answer::status(200));
    queued.wait_for("waiting", 0);
    assert_eq!(
        (
            queued.status()["dead"].clone(),
            queued.status()["delivered"].clone()
        ),
        (0.into(), 50.into())
    );
}

#[test]
fn an_upstream_that_is_not_there_is_waited_for() {
    let sink = Sink::start();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = gone.local_addr().expect("an address");
    drop(gone);
    let queued = Queued::start(&sink, "attempts = 1", "");
    let config = |address| {
        format!(
            "[queue.events]\npath = \"{}\"\nattempts = 1\n[upstream.sink]\nservers = [\"{address}\"]\n\
             [[route]]\npath = \"/{{*rest}}\"\ndefer = \"events\"\nupstream = \"sink\"\n",
            queued.path().display()
        )
    };
    queued.write(&config(address));
    let reload = || {
        let admin = queued.admin().to_string();
        let run = crate::harness::tool::run_to_end(
            env!("CARGO_BIN_EXE_weir"),
            &["reload", "--admin", &admin],
        );
        assert!(run.status.success(), "{}", run.stderr);
    };
    reload();
    for number in 0..10 {
        queued.accepted("/", &number.to_string());
    }
    wait_until("it is known to be ill", || {
        queued.status()["is_ill"] == true
    });
    let listed = queued.told(&["list"]);
    assert!(listed.contains("deliveries fail"), "{listed}");
    assert!(listed.contains("events: "), "it says why: {listed}");
    queued.write(&config(sink.address));
    reload();
    queued.wait_for("waiting", 0);
    assert_eq!(sink.seen().len(), 10);
    assert_eq!(queued.status()["dead"], 0);
}

#[test]
fn retry_after_is_kept() {
    let sink = Sink::answering(|delivered| match delivered.attempt {
        1 => Answer(503, "Retry-After: 1\r\n", Duration::ZERO),
        _ => Answer::status(200),
    });
    let queued = Queued::start(&sink, "backoff = \"1ms\"\nbackoff_max = \"1ms\"", "");
    let began = Instant::now();
    queued.accepted("/", "x");
    queued.wait_for("waiting", 0);
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[test]
fn what_waits_for_longer_than_its_time_is_a_dead_letter() {
    let sink = Sink::answering(|_| Answer::status(503));
    let route = "[[route]]\npath = \"/\"\ndefer = { queue = \"events\", ttl = \"1s\" }\nupstream = \"sink\"\n";
    let queued = Queued::start(&sink, "backoff = \"50ms\"", route);
    queued.accepted("/", "x");
    queued.wait_for("dead", 1);
    assert!(queued.told(&["dead", "list", "events"]).contains("expired"));
}

#[test]
fn no_more_than_the_rate_is_delivered() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "rate = 20", "");
    let began = Instant::now();
    for number in 0..30 {
        queued.accepted("/", &number.to_string());
    }
    queued.wait_for("waiting", 0);
    // A tenth of a second may be made up for.
    assert!(
        began.elapsed() >= Duration::from_millis(1300),
        "{:?}",
        began.elapsed()
    );
}

/// An upstream that takes requests and answers none: each attempt ends, and the others go on.
#[test]
fn an_upstream_that_hangs_is_left() {
    let origin = Origin::start(|mut peer, number| {
        while let Some(head) = peer.head() {
            let length = head.contains("Content-Length: 1\r\n");
            assert!(length, "{head}");
            peer.body(1);
            if number == 0 {
                std::thread::sleep(Duration::from_secs(3));
                return;
            }
            peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let sink = Sink::start();
    let mut queued = Queued::start(&sink, "", "");
    queued.write(&format!(
        "[queue.events]\npath = \"{}\"\ntimeout = \"300ms\"\nbackoff = \"10ms\"\n[upstream.sink]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\ndefer = \"events\"\nupstream = \"sink\"\n",
        queued.path().display(),
        origin.address
    ));
    queued.restart();
    for _ in 0..3 {
        queued.accepted("/", "x");
    }
    queued.wait_for("delivered", 3);
    assert!(queued.status()["retried"].as_u64() >= Some(1));
}
