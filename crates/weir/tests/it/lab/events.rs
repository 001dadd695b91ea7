//! Events that one service makes and another one handles, counted at both ends.

use serde_json::Value;

use super::{leftovers, run, stderr};
use crate::harness::Directory;

/// A service whose events are logged at once, later by weir, and through Kafka.
const EVENTS: &str = r#"title = "events"
baseline = "sync"
rounds = 1
warm_up = "200ms"
quick = { rounds = 1 }
events = { from = "app", to = "logs", patience = "20s" }

[[load]]
name = "two connections"
path = "/handle"
connections = 2
duration = "1s"
quick = "100ms"

[[configuration]]
name = "sync"
services = ["logs", "app"]
flags = { app = ["--events", "http://127.0.0.1:{port:logs}/sendEvent"], logs = ["--work", "20"] }

[[configuration]]
name = "deferred"
services = ["logs", "app", "weir"]
flags = { app = ["--events", "http://127.0.0.1:{port:weir}/sendEvent"], logs = ["--work", "20"] }

[[configuration]]
name = "Kafka"
services = ["kafka", "logs", "app"]

[configuration.flags]
app = ["--kafka", "127.0.0.1:{port:kafka}/events", "--linger", "0"]
logs = ["--consume", "127.0.0.1:{port:kafka}/events", "--work", "20"]

[service.app]
kind = "app"

[service.logs]
kind = "app"

[service.kafka]
kind = "kafka"

[service.weir]
kind = "weir"
config = '''
[[listener]]
address = "127.0.0.1:{port}"
[queue.events]
path = "{dir}/events"
[upstream.app]
servers = ["127.0.0.1:{port:app}"]
[upstream.logs]
servers = ["127.0.0.1:{port:logs}"]
[[route]]
path = "/handle"
upstream = "app"
[[route]]
path = "/sendEvent"
methods = ["POST"]
defer = "events"
upstream = "logs"
'''
"#;

/// How many of a block's events there were in the end, at one of the ends.
fn total(block: &Value, end: &str) -> u64 {
    let counted = block["events"][end].as_array().expect("counts");
    counted
        .last()
        .map_or(0, |last| last["count"].as_u64().expect("a count"))
}

#[test]
fn events_are_counted_from_end_to_end() {
    let directory = Directory::new();
    directory.write("events.toml", EVENTS);
    let output = run(&["run", "./events.toml", "--out", "out"], &directory);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(leftovers(&directory.file("")), [""; 0]);

    let raw = std::fs::read(directory.file("out/raw.json")).expect("there is raw data");
    let raw: Value = serde_json::from_slice(&raw).expect("it is JSON");
    let blocks = raw["blocks"].as_array().expect("there are blocks");
    for block in blocks {
        let events = &block["events"];
        let (made, handled) = (total(block, "made"), total(block, "handled"));
        // Every answer stands for an event, and each was handled by the end.
        let answers = block["outcomes"]["2xx"].as_u64().expect("answers");
        assert!(made >= answers && answers > 10, "{block}");
        assert_eq!((handled, &events["unknown"]), (made, &0.into()), "{block}");
        // To handle an event takes longer than to make one: those that are not waited for pile up.
        let handled_by = events["handled"].as_array().and_then(|all| all.last());
        let handled_by = handled_by.and_then(|last| last["at_s"].as_f64());
        let p50_us = events["latency_us"]["p50"].as_f64().expect("a median");
        if block["configuration"] == "sync" {
            assert!(handled_by < Some(1.3) && p50_us < 20_000.0, "{block}");
        } else {
            assert!(handled_by > Some(1.3) && p50_us > 20_000.0, "{block}");
        }
    }
    let names: Vec<&Value> = blocks.iter().map(|block| &block["configuration"]).collect();
    assert_eq!(names, ["sync", "deferred", "Kafka"]);

    let report = std::fs::read_to_string(directory.file("out/report.md")).expect("a report");
    for told in [
        "## Events from end to end",
        "| Nothing left after s |",
        "deferred: logs handled ",
    ] {
        assert!(report.contains(told), "no {told:?} in {report}");
    }
    let page = std::fs::read_to_string(directory.file("out/report.html")).expect("a report");
    assert!(page.contains("Events that wait to be handled"));
}

#[test]
fn events_that_nobody_handles_end_the_run() {
    let directory = Directory::new();
    let (before, _) = EVENTS
        .split_once("[[configuration]]\nname = \"deferred\"")
        .expect("one");
    let (_, services) = EVENTS.split_once("[service.app]").expect("one");
    let lost = format!("{before}[service.app]{services}")
        .replace("20s", "300ms")
        .replace("services = [\"logs\"", "services = [\"logs\", \"other\"")
        .replace("{port:logs}/sendEvent", "{port:other}/sendEvent")
        .replace(
            "[service.weir]",
            "[service.other]\nkind = \"app\"\n[service.weir]",
        );
    directory.write("lost.toml", lost);
    let output = run(&["run", "./lost.toml", "--out", "out"], &directory);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let told = stderr(&output);
    let told = told.lines().last().unwrap_or_default();
    assert_eq!(
        told,
        "events cannot be counted at logs: what the warm-up made is not handled within 0.3 s"
    );
}
