//! Runs from beginning to end, small ones.

use serde_json::Value;

use super::{TINY, lab, leftovers, run, stderr, stdout};
use crate::harness::{App, Directory};

#[test]
fn a_scenario_of_ones_own_is_measured_and_reported() {
    let directory = Directory::new();
    directory.write("tiny.toml", TINY);
    let output = run(&["run", "./tiny.toml", "--out", "out"], &directory);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output)
            .contains("left out: weir of tomorrow: it needs the config key \"foresight\""),
        "{}",
        stderr(&output)
    );

    let raw = std::fs::read(directory.file("out/raw.json")).expect("there is raw data");
    let raw: Value = serde_json::from_slice(&raw).expect("it is JSON");
    assert_eq!(raw["left_out"][0]["configuration"], "weir of tomorrow");
    assert_eq!(raw["published"][0]["rate"], 12345.0);
    let blocks = raw["blocks"].as_array().expect("there are blocks");
    let order: Vec<&str> = blocks
        .iter()
        .filter_map(|block| block["configuration"].as_str())
        .collect();
    assert_eq!(order, ["app", "weir", "weir", "app"]);
    for block in blocks {
        assert!(block["outcomes"]["2xx"].as_u64() > Some(10), "{block}");
        assert_eq!(block["outcomes"]["5xx"], 0, "{block}");
        let services = block["services"].as_array().expect("there are services");
        assert_eq!(
            services.len(),
            if block["configuration"] == "weir" {
                2
            } else {
                1
            }
        );
        for service in services {
            assert!(service["cpu_seconds"].as_f64() > Some(0.0), "{service}");
            assert!(
                service["rss_peak_bytes"].as_u64() > Some(100_000),
                "{service}"
            );
        }
    }
    assert_eq!(leftovers(&directory.file("")), [""; 0]);
    assert_report_is_rebuilt(&directory);

    let again = run(&["run", "./tiny.toml", "--out", "out"], &directory);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        stderr(&again).contains("out/raw.json is there already"),
        "{}",
        stderr(&again)
    );
}

/// The report follows from the raw data alone, to the byte.
fn assert_report_is_rebuilt(directory: &Directory) {
    let read = |name| std::fs::read_to_string(directory.file(name)).expect("there is a report");
    let files = ["out/report.md", "out/report.html"];
    let before = files.map(read);
    assert!(
        before[0].contains("12,345"),
        "the published figure is missing: {}",
        before[0]
    );
    for file in files {
        std::fs::remove_file(directory.file(file)).expect("it is there");
    }
    let output = run(&["report", "out"], directory);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(files.map(read), before);
}

#[test]
fn a_command_that_waits_is_found_to_be_slower() {
    let directory = Directory::new();
    let weir = env!("CARGO_BIN_EXE_weir");
    let quick = format!("exec {weir} app --listen 127.0.0.1:{{port}}");
    let slow = format!("{quick} --delay 5ms");
    let load = [
        "--connections",
        "1",
        "--duration",
        "200ms",
        "--warm-up",
        "20ms",
        "--repeats",
        "2",
    ];
    let arguments = [&["compare", "--command", &quick, &slow], &load[..]].concat();
    let output = run(&arguments, &directory);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    let line = |name: &str| {
        let found = text.lines().find(|line| line.starts_with(name));
        found
            .unwrap_or_else(|| panic!("no {name} in {text}"))
            .to_owned()
    };
    assert!(line("rate:").contains("% slower, 95 % interval"), "{text}");
    assert!(line("p50:").contains("times as long"), "{text}");
    assert!(line("noise:").contains("A against itself"), "{text}");
    assert_eq!(leftovers(&directory.file("")), [""; 0]);
}

#[test]
fn a_ladder_leaves_a_config_that_works() {
    let (first, second) = (App::start("one"), App::start("two"));
    let directory = Directory::new();
    let urls = [&first, &second].map(|app| format!("http://{}/", app.address));
    let arguments = [
        "ladder",
        "--to",
        &urls[0],
        "--to",
        &urls[1],
        "--connections",
        "4",
        "--rounds",
        "2",
    ];
    let output = lab(&arguments, &directory)
        .args(["--duration", "150ms", "--warm-up", "20ms"])
        .output()
        .expect("weir can be started");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for rung in [
        "direct",
        "weir, a connection for each request",
        "+ keep-alive",
        "+ balance over 2",
    ] {
        assert!(text.contains(rung), "no {rung} in {text}");
    }
    let config =
        std::fs::read_to_string(directory.file("lab-ladder/weir.toml")).expect("it is kept");
    assert!(config.contains(&first.address.to_string()), "{config}");
    let checked = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["check", "--config"])
        .arg(directory.file("lab-ladder/weir.toml"))
        .output()
        .expect("weir can be started");
    assert!(checked.status.success(), "{}", stderr(&checked));
    // The service is the user's: it still runs.
    assert_eq!(
        crate::harness::client::get(first.address, "/healthz").text(),
        "ok"
    );
    assert_eq!(leftovers(&directory.file("")), [""; 0]);
}
