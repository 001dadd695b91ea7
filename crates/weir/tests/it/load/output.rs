//! The forms of the results.

use super::load;
use crate::harness::{App, Directory};

#[test]
fn every_form_says_the_same() {
    let app = App::start("a");
    let url = format!("http://{}/", app.address);
    let directory = Directory::new();
    let [json, csv, hdr] = ["json", "csv", "hdr"].map(|name| directory.file(name));
    let path = |path: &std::path::PathBuf| path.to_str().expect("UTF-8").to_owned();
    let flags = [
        &url,
        "-c",
        "4",
        "-n",
        "2000",
        "--json",
        &path(&json),
        "--csv",
        &path(&csv),
        "--hdr-log",
        &path(&hdr),
    ];
    let run = load(&flags);
    assert!(run.status.success(), "{}", run.stderr);
    assert!(
        run.stdout.starts_with("2000 requests in "),
        "{}",
        run.stdout
    );
    let read = |path| std::fs::read_to_string(path).expect("it was written");

    let json: serde_json::Value = serde_json::from_str(&read(&json)).expect("JSON");
    assert_eq!(json["requests"], 2000);
    for key in ["seconds", "rate", "generator_cpu_s"] {
        assert!(
            json[key].as_f64().is_some_and(|value| value > 0.0),
            "{key}: {json}"
        );
    }
    for key in ["p50", "p90", "p99", "p99.9", "p99.99", "max"] {
        assert!(json["latency_us"][key].is_number(), "{key}: {json}");
    }
    assert!(
        json["valid"].is_boolean() && json["why_invalid"].is_array(),
        "{json}"
    );

    let csv = read(&csv);
    let counts = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(3).expect("a count of 2xx"));
    let sum: u64 = counts
        .map(|count| count.parse::<u64>().expect("a number"))
        .sum();
    assert_eq!(sum, 2000, "{csv}");

    let hdr = read(&hdr);
    assert!(
        hdr.contains("#[StartTime: ") && hdr.contains("\nTag=2xx,"),
        "{hdr}"
    );
}
