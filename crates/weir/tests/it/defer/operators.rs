//! What operators see and do.

use super::sink::{Answer, Sink};
use super::{Queued, json};
use crate::harness::browser::Page;
use crate::harness::client::{ask_admin, send};
use crate::harness::wait_until;

#[test]
fn a_pause_outlasts_a_restart() {
    let sink = Sink::start();
    let mut queued = Queued::start(&sink, "", "");
    let said = queued.told(&["pause", "events"]);
    assert_eq!(
        said,
        "queue events is paused: it accepts, and delivers nothing\n"
    );
    queued.accepted("/", "x");
    queued.restart();
    queued.accepted("/", "y");
    assert!(
        queued.told(&["list"]).contains("paused"),
        "{}",
        queued.told(&["list"])
    );
    assert_eq!(queued.status()["waiting"], 2);
    assert_eq!(sink.seen(), []);
    assert_eq!(queued.told(&["resume", "events"]), "queue events goes on\n");
    queued.wait_for("waiting", 0);
    assert_eq!(sink.bodies(), ["x", "y"]);
}

#[test]
fn what_was_delivered_is_delivered_again() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "concurrency = 1", "");
    for number in 0..5 {
        queued.accepted("/", &number.to_string());
    }
    queued.wait_for("waiting", 0);
    assert_eq!(
        queued.told(&["replay", "events", "--from", "3"]),
        "queue events delivers 2 messages\n"
    );
    sink.wait_for(7);
    queued.wait_for("waiting", 0);
    assert_eq!(sink.bodies()[5..], ["3", "4"]);
    queued.told(&["replay", "events", "--since", "1h"]);
    sink.wait_for(12);
    assert_eq!(sink.bodies()[7..], ["0", "1", "2", "3", "4"]);
    let run = queued.weir_queue(&["replay", "events"]);
    assert!(
        !run.status.success() && run.stderr.contains("--since"),
        "{}",
        run.stderr
    );
}

#[test]
fn dead_letters_are_delivered_after_all_or_dropped() {
    let sink = Sink::answering(|_| Answer::status(422));
    let mut queued = Queued::start(&sink, "concurrency = 1", "");
    for number in 0..4 {
        queued.accepted("/", &number.to_string());
    }
    queued.wait_for("dead", 4);
    // They outlast a crash.
    queued.restart();
    queued.wait_for("dead", 4);
    let listed = queued.told(&["dead", "list", "events"]);
    assert_eq!(listed.matches("status 422: said").count(), 4, "{listed}");
    assert!(listed.contains("POST / HTTP/1.1"), "{listed}");
    wait_until("the dashboard has them", || {
        queued.status()["dead_letters"].as_array().map(Vec::len) == Some(4)
    });
    assert_eq!(
        queued.told(&["dead", "drop", "events", "2"]),
        "queue events has dropped 1 message\n"
    );
    // One that fails again stays.
    queued.told(&["dead", "redrive", "events", "0"]);
    sink.wait_for(5);
    assert_eq!(queued.status()["dead"], 3);
    sink.answer(|_| Answer::status(200));
    assert_eq!(
        queued.told(&["dead", "redrive", "events", "--all"]),
        "queue events delivers 3 messages\n"
    );
    queued.wait_for("dead", 0);
    queued.restart();
    queued.wait_for("dead", 0);
    let mut bodies = sink.bodies().split_off(5);
    bodies.sort();
    assert_eq!(bodies, ["0", "1", "3"]);
    assert_eq!(
        queued.told(&["dead", "list", "events"]),
        "queue events has no dead letters\n"
    );
    let run = queued.weir_queue(&["dead", "drop", "events", "9"]);
    assert_eq!(run.stderr, "there is no dead letter 9\n");
}

#[test]
fn metrics_and_commands_say_how_it_is() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    queued.accepted("/", "x");
    queued.wait_for("delivered", 1);
    let page = ask_admin(queued.admin(), "/metrics").text();
    for line in [
        "weir_queue_accepted_total{queue=\"events\"} 1",
        "weir_queue_delivered_total{queue=\"events\"} 1",
        "weir_queue_refused_total{queue=\"events\",reason=\"full\"} 0",
        "weir_queue_offset{queue=\"events\"} 1",
        "weir_queue_paused{queue=\"events\"} 0",
    ] {
        assert!(page.lines().any(|own| own == line), "{line} in\n{page}");
    }
    let shown = queued.told(&["show", "events"]);
    assert!(shown.contains("durability         group"), "{shown}");
    let run = queued.weir_queue(&["show", "event"]);
    assert_eq!(
        run.stderr,
        "there is no queue \"event\"; there are: events\n"
    );
    let run = queued.weir_queue(&["pause", "event"]);
    assert_eq!(
        run.stderr,
        "there is no queue \"event\"; there are events\n"
    );
}

#[test]
fn mistaken_orders_are_told() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    let post = |path: &str, body: &str| {
        let length = body.len();
        let admin = queued.admin();
        let response = send(
            admin,
            &format!(
                "POST {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            ),
        );
        (
            response.status,
            json(&response)["error"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    for (path, body, status, said) in [
        ("/queues/events/replay", "{}", 400, "exactly one of"),
        (
            "/queues/events/replay",
            "{\"from\": 1, \"since_ms\": 2}",
            400,
            "exactly one of",
        ),
        ("/queues/events/replay", "{\"form\": 1}", 400, "form"),
        (
            "/queues/events/replay",
            "7",
            400,
            "expected an object such as",
        ),
        (
            "/queues/events/dead/drop",
            "{\"ids\": [1], \"all\": true}",
            400,
            "exactly one of",
        ),
        ("/queues/events/dead", "{}", 405, "GET, HEAD"),
        ("/queues/events/pauze", "{}", 404, "pause, resume"),
        ("/queues/other/pause", "{}", 404, "there are events"),
    ] {
        let (found, error) = post(path, body);
        assert_eq!(found, status, "{path} {body}: {error}");
        assert!(error.contains(said), "{path} {body}: {error}");
    }
    let response = ask_admin(queued.admin(), "/queues/events/dead?limit=0");
    assert_eq!(response.status, 400);
}

#[test]
fn a_browser_shows_dead_letters_and_has_them_delivered() {
    let sink = Sink::answering(|_| Answer::status(422));
    let queued = Queued::start(&sink, "", "");
    queued.accepted("/<b>", "x");
    queued.accepted("/other", "y");
    queued.wait_for("dead", 2);
    sink.answer(|_| Answer::status(200));
    let mut page = Page::open(&format!("http://{}/", queued.admin()));
    let letters =
        "document.querySelectorAll(\"[aria-label='Dead letters of events'] tbody tr\").length";
    page.wait_for("both are shown", &format!("{letters} === 2"));
    let text = page.value("document.getElementById('parts').innerText");
    let text = text.as_str().expect("a text");
    assert!(
        text.contains("POST /%3Cb%3E HTTP/1.1") || text.contains("POST /<b> HTTP/1.1"),
        "{text}"
    );
    assert!(text.contains("status 422: said"), "{text}");
    let now = page.value("document.getElementById('now').innerText");
    assert!(
        now.as_str()
            .is_some_and(|now| now.contains("queue events has 2 dead letters")),
        "{now}"
    );
    page.value("document.querySelector('button[data-redrive]').click()");
    queued.wait_for("dead", 1);
    page.wait_for("one is left", &format!("{letters} === 1"));
    page.value("[...document.querySelectorAll('button[data-redrive]')].at(-1).click()");
    queued.wait_for("dead", 0);
    page.wait_for("none is left", &format!("{letters} === 0"));
    assert_eq!(sink.seen().len(), 4);
}
