//! `--find-max`: what a search finds, and whose limit it is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::load;
use super::server::Server;
use crate::harness::process::Process;
use crate::harness::{App, Directory, free_port, wait_until};

/// What a search with these flags found.
fn search(flags: &[&str]) -> Value {
    let run = load(&[flags, &["--find-max", "-q", "--json", "-"]].concat());
    let found: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let is_any_kept = found["rate"].as_f64() > Some(0.0);
    let expected = match (found["valid"] == true, is_any_kept) {
        (false, _) => 4,
        (true, false) => 3,
        (true, true) => 0,
    };
    assert_eq!(run.status.code(), Some(expected), "{found}");
    found
}

#[test]
fn a_search_finds_what_the_server_allows() {
    // At most 500 answers a second, one after the other.
    let gate = Arc::new(Mutex::new(()));
    let server = Server::answering(move |_| {
        let _held = gate.lock().expect("no panic");
        std::thread::sleep(Duration::from_millis(2));
        vec![b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()]
    });
    let slo = "p90=100ms,errors=1%";
    let found = search(&[&server.url("/"), "-c", "128", "-d", "300ms", "--slo", slo]);
    let rate = found["rate"].as_f64().expect("a rate");
    assert!(rate > 0.0 && rate <= 800.0, "{found}");
    assert!(found["low"].as_f64() <= found["rate"].as_f64(), "{found}");
}

/// A server that is behind keeps every promise for as long as the trial is short. Connections enough to send it all hide that it
/// is.
#[test]
fn a_promise_as_long_as_the_trial_is_none() {
    let app = App::start_with("limited", free_port(), &["--delay", "10ms", "--slots", "1"]);
    let url = format!("http://{}/", app.address);
    let found = search(&[&url, "-c", "500", "-t", "1", "-d", "1s", "--slo", "p99=1s"]);
    let rate = found["rate"].as_f64().expect("a rate");
    assert!((50.0..=115.0).contains(&rate), "{found}");
}

/// One connection carries 50 requests a second to a server that could answer any number of them at once.
#[test]
fn what_the_connections_carry_is_not_the_servers_limit() {
    let app = App::start_with("slow", free_port(), &["--delay", "20ms"]);
    let url = format!("http://{}/", app.address);
    let found = search(&[&url, "-c", "1", "-d", "300ms", "--slo", "p99=500ms"]);
    assert_eq!(found["valid"], false, "{found}");
    let why = found["why_invalid"][0].as_str().expect("a sentence");
    // Where the machine stands still, that comes first.
    let is_told = why.contains("raise --connections") || why.contains("sent late");
    assert!(
        why.starts_with("the generator could not send more") && is_told,
        "{why}"
    );
    assert_eq!(found["high"], Value::Null, "{found}");
    assert!(
        found["rate"].as_f64().is_some_and(|rate| rate <= 50.0),
        "{found}"
    );
}

/// The trial that is cut short is in no step, and no rate was too high.
#[test]
fn an_interrupted_search_counts_whole_steps() {
    let app = App::start("a");
    let url = format!("http://{}/", app.address);
    let directory = Directory::new();
    let json = directory.file("json");
    let path = json.to_str().expect("UTF-8");
    let flags = ["load", &url, "--find-max", "-c", "4", "-d", "500ms"];
    let flags = [&flags[..], &["--slo", "p50=10s", "--json", path]].concat();
    let mut process = Process::weir(&flags, &directory);
    wait_until("a rate held", || {
        let output = process.output();
        output.contains("3 of 3 trials")
    });
    process.signal("INT");
    assert_eq!(
        process.wait().code(),
        Some(4),
        "the highest rate is not known"
    );
    let text = std::fs::read_to_string(json).expect("results are written");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let steps = found["steps"].as_array().expect("steps");
    assert!(!steps.is_empty(), "{found}");
    for step in steps {
        // On a busy machine trials may say nothing, and two or three such end a step; the one that was cut short is in none.
        let count = |key: &str| step[key].as_u64().expect("a count");
        let is_whole = count("passed") == 3 || count("said_nothing") >= 2;
        assert!(is_whole && count("broken") == 0, "{found}");
    }
    assert_eq!(found["cut_short"], "ended early, as told");
    assert_eq!(found["valid"], false);
    assert!(
        process.output().contains("at least"),
        "{}",
        process.output()
    );
}
