//! Loads that run at the same time, and keys that are asked for at the service that has them.

use serde_json::Value;

use super::{leftovers, run, stderr};
use crate::harness::Directory;

/// Two services that redirect to others: one that is asked like any other, and one whose redirects are remembered.
const LED: &str = r#"title = "led"
baseline = "asked"
rounds = 2
warm_up = "50ms"
quick = { rounds = 1 }

[[load]]
name = "first"
path = "/?n={key}"
keys = 20
rate = 200
connections = 4
duration = "600ms"
quick = "100ms"

[[load]]
name = "later"
path = "/?n={key}"
keys = 20
rate = 100
connections = 4
duration = "300ms"
quick = "50ms"
beside = { load = "first", delay = "300ms", quick = "50ms" }

[[configuration]]
name = "asked"
services = ["app", "other", "weir"]

[[configuration]]
name = "led"
services = ["app", "other", "weir"]
led = true

[service.app]
kind = "app"

[service.other]
kind = "app"

[service.weir]
kind = "weir"
config = '''
[[listener]]
address = "127.0.0.1:{port}"
[[route]]
path = "/{*rest}"
query = { n = "7" }
redirect = { to = "http://127.0.0.1:{port:other}/", status = 307 }
[[route]]
path = "/{*rest}"
redirect = { to = "http://127.0.0.1:{port:app}/", status = 307 }
'''
"#;

/// How many requests of a block ended so.
fn count(block: &Value, end: &str) -> u64 {
    block["outcomes"][end].as_u64().expect("a count")
}

#[test]
fn loads_run_beside_each_other_and_keys_are_asked_for_where_they_are() {
    let directory = Directory::new();
    directory.write("led.toml", LED);
    let output = run(&["run", "./led.toml", "--out", "out"], &directory);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(leftovers(&directory.file("")), [""; 0]);
    let raw = std::fs::read(directory.file("out/raw.json")).expect("there is raw data");
    let raw: Value = serde_json::from_slice(&raw).expect("it is JSON");
    let blocks = raw["blocks"].as_array().expect("there are blocks");
    let of = |block: &Value| (block["configuration"].clone(), block["load"].clone());
    let order: Vec<_> = blocks.iter().map(of).collect();
    let (asked, led) = (Value::from("asked"), Value::from("led"));
    let (first, later) = (Value::from("first"), Value::from("later"));
    let pair = |name: &Value| [(name.clone(), first.clone()), (name.clone(), later.clone())];
    assert_eq!(
        order,
        [pair(&asked), pair(&led), pair(&led), pair(&asked)].concat()
    );
    for block in blocks {
        let is_led = block["configuration"] == "led";
        let (answered, led) = if is_led {
            ("2xx", "3xx")
        } else {
            ("3xx", "2xx")
        };
        assert!(
            count(block, answered) > 10 && count(block, led) == 0,
            "{block}"
        );
    }
    for pair in blocks.chunks(2) {
        let answers = |block: &Value| count(block, "2xx") + count(block, "3xx");
        let beside = |block: &Value| block["answers_beside"].as_u64().expect("a count");
        assert_eq!(answers(&pair[0]), beside(&pair[1]));
        assert_eq!(answers(&pair[1]), beside(&pair[0]));
        assert_eq!(pair[0]["services"], pair[1]["services"]);
    }
    let report = std::fs::read_to_string(directory.file("out/report.md")).expect("a report");
    for told in [
        "beside first, 0.3 s later",
        "Loads that ran at the same time share it",
    ] {
        assert!(report.contains(told), "no {told:?} in {report}");
    }
}
