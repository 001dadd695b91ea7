//! Databases that the laboratory starts, and the scenarios that come with weir for stores and tables.

use serde_json::Value;

use super::{leftovers, run, stderr};
use crate::harness::Directory;

const SHARDING: &str = include_str!("../../../../weir-lab/src/scenarios/sharding.toml");
const SQL_NOSQL: &str = include_str!("../../../../weir-lab/src/scenarios/sql-nosql.toml");

/// Runs a scenario that comes with weir, shortened by these changes; the blocks.
fn blocks(scenario: &str, changes: &[(&str, &str)], directory: &Directory) -> Vec<Value> {
    let mut text = scenario.to_owned();
    for (long, short) in changes {
        assert!(text.contains(long), "{long}");
        text = text.replace(long, short);
    }
    directory.write("short.toml", text);
    let arguments = [
        "run",
        "./short.toml",
        "--quick",
        "--rounds",
        "1",
        "--out",
        "out",
    ];
    let output = run(&arguments, directory);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(leftovers(&directory.file("")), [""; 0]);
    let raw = std::fs::read(directory.file("out/raw.json")).expect("there is raw data");
    let mut raw: Value = serde_json::from_slice(&raw).expect("it is JSON");
    let Value::Array(blocks) = raw["blocks"].take() else {
        panic!("no blocks in {raw}");
    };
    blocks
}

/// Every rung answers, and what was put is found, whoever has it.
#[test]
fn a_key_that_was_put_is_found_on_every_rung_of_sharding() {
    let directory = Directory::new();
    let changes = [
        (
            "keys = 10000\nrate = 2000\nconnections = 64",
            "keys = 50\nrate = 100\nconnections = 8",
        ),
        ("quick = \"3s\"", "quick = \"1s\""),
        ("quick = \"2s\"", "quick = \"400ms\""),
        ("quick = \"1s\" }", "quick = \"600ms\" }"),
        ("warm_up = \"300ms\"", "warm_up = \"600ms\""),
    ];
    let blocks = blocks(SHARDING, &changes, &directory);
    assert_eq!(blocks.len(), 14);
    for block in blocks {
        let outcomes = block["outcomes"].as_object().expect("outcomes");
        for (end, count) in outcomes {
            let count = count.as_u64().expect("a count");
            assert_eq!(count > 20, end == "2xx", "{block}");
            assert!(count == 0 || end == "2xx", "{block}");
        }
    }
}

#[test]
fn events_become_rows_of_every_database() {
    let directory = Directory::new();
    // One rung of each engine, in the second group.
    let (head, rest) = SQL_NOSQL.split_once("[[configuration]]").expect("rungs");
    let (rungs, services) = rest.split_once("# --- the services").expect("services");
    let kept = rungs.split("[[configuration]]").filter(|rung| {
        let names = [
            "\"Postgres, off, batched\"",
            "\"Cassandra, periodic, batched\"",
            "\"embedded, os\"",
        ];
        names
            .iter()
            .any(|name| rung.contains(&format!("name = {name}\n")))
    });
    let kept: Vec<String> = kept
        .map(|rung| format!("[[configuration]]{rung}"))
        .collect();
    assert_eq!(kept.len(), 3);
    let text = format!("{head}{}# --- the services{services}", kept.concat());
    let changes = [
        ("baseline = \"Postgres\"", "baseline = \"embedded, os\""),
        ("quick = \"500ms\"", "quick = \"200ms\""),
        (
            "[[load]]\nname = \"1 connection\"",
            "[[load]]\nname = \"one\"",
        ),
    ];
    let blocks = blocks(&text, &changes, &directory);
    assert_eq!(blocks.len(), 9);
    for block in blocks {
        let outcomes = &block["outcomes"];
        let answered = outcomes["2xx"].as_u64().expect("a count");
        let refused = ["4xx", "5xx"].map(|end| outcomes[end].as_u64());
        assert!(answered > 0 && refused == [Some(0), Some(0)], "{block}");
        let services = block["services"].as_array().expect("services");
        for service in services {
            assert!(service["cpu_seconds"].as_f64() > Some(0.0), "{block}");
        }
    }
}
