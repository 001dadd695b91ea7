//! An access log whose lines are messages of a queue.

use serde_json::Value;

use super::Queued;
use super::sink::Sink;
use crate::harness::client::Connection;
use crate::harness::wait_until;

const ROUTES: &str = "[access_log]\nqueue = \"events\"\nflush = \"100ms\"\n[[route]]\npath = \"/{*rest}\"\nrespond = { body = \"x\" }\n";

fn logging(sink: &str) -> Queued {
    let mut queued = Queued::start(&Sink::start(), "", "");
    let file = queued.directory.file("log.ndjson");
    let queue = format!(
        "[queue.events.sink.out]\nfile = {{ path = \"{}\"{sink} }}",
        file.display()
    );
    queued.configure(&Sink::start(), &queue, ROUTES);
    queued.restart();
    queued
}

fn lines(queued: &Queued) -> Vec<Value> {
    let text = std::fs::read_to_string(queued.directory.file("log.ndjson")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn lines_are_messages() {
    let queued = logging(", lines = \"body\"");
    for number in 0..50 {
        assert_eq!(
            Connection::open(queued.address())
                .get(&format!("/{number}"))
                .status,
            200
        );
    }
    wait_until("all are written", || lines(&queued).len() == 50);
    let all = lines(&queued);
    let seventh = all.iter().find(|line| line["target"] == "/7");
    assert_eq!(seventh.expect("each has a line")["status"], 200);
    assert_eq!(queued.status()["accepted"], 50);
}

/// What was logged until the end is kept, and goes on after it.
#[test]
fn the_last_lines_are_kept() {
    let mut queued = logging(", lines = \"body\"");
    queued.told(&["pause", "events/out"]);
    for number in 0..20 {
        assert_eq!(
            Connection::open(queued.address())
                .get(&format!("/{number}"))
                .status,
            200
        );
    }
    assert_eq!(queued.end(), Some(0));
    assert_eq!(lines(&queued).len(), 0);
    queued.restart();
    queued.told(&["resume", "events/out"]);
    wait_until("all are written", || lines(&queued).len() == 20);
}

#[test]
fn a_queue_without_a_sink_takes_no_log() {
    let queued = Queued::start(&Sink::start(), "", "");
    queued.configure(&Sink::start(), "", ROUTES);
    let path = queued.directory.file("weir.toml");
    let path = path.to_str().expect("UTF-8");
    let run =
        crate::harness::tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &["check", "--config", path]);
    assert!(
        run.stderr.contains("access_log.queue") && run.stderr.contains("no sink"),
        "{}",
        run.stderr
    );
}
