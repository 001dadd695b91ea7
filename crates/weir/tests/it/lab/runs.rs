//! Runs from beginning to end, small ones.

use serde_json::Value;

use super::{TINY, lab, leftovers, run, stderr, stdout};
use crate::harness::process::Process;
use crate::harness::{App, Directory, Gateway, free_port, wait_until};

#[test]
fn a_scenario_of_ones_own_is_measured_and_reported() {
    let directory = Directory::new();
    directory.write("tiny.toml", TINY);
    let output = run(&["run", "./tiny.toml", "--out", "out"], &directory);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output)
            .contains("left out: weir of tomorrow: it needs \"foresight\", which this version of weir does not"),
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

#[test]
fn a_block_that_fails_leaves_those_before_it() {
    let directory = Directory::new();
    let broken = "kind = \"command\"\nline = \"echo {port} is not for me; exit 3\"\n";
    let (before, _) = TINY.split_once("[service.weir]").expect("there is one");
    let (_, after) = TINY.split_once("[service.tomorrow]").expect("there is one");
    let scenario = format!("{before}[service.weir]\n{broken}[service.tomorrow]{after}");
    directory.write("broken.toml", scenario);
    let output = run(&["run", "./broken.toml", "--out", "out"], &directory);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let failure = "weir, page, round 1: weir did not start: it ended with exit status: 3";
    let told = stderr(&output);
    let told = told.lines().last().unwrap_or_default();
    assert!(told.starts_with(failure), "{told}");
    assert!(
        told.ends_with("; what there is rests on 1 blocks"),
        "{told}"
    );

    let raw = std::fs::read(directory.file("out/raw.json")).expect("there is raw data");
    let raw: Value = serde_json::from_slice(&raw).expect("it is JSON");
    assert_eq!(raw["blocks"].as_array().map(Vec::len), Some(1));
    assert_eq!(raw["blocks"][0]["configuration"], "app");
    let report = std::fs::read_to_string(directory.file("out/report.md")).expect("a report");
    assert!(
        report.contains(&format!("stands here. {failure}")),
        "{report}"
    );
    assert_eq!(leftovers(&directory.file("")), [""; 0]);
}

#[test]
fn a_comparison_that_breaks_off_keeps_what_was_measured() {
    let directory = Directory::new();
    let good = format!(
        "exec {} app --listen 127.0.0.1:{{port}}",
        env!("CARGO_BIN_EXE_weir")
    );
    let bad = "echo {port} is not for me; exit 3";
    let load = [
        "--connections",
        "1",
        "--duration",
        "50ms",
        "--warm-up",
        "0ms",
    ];
    let compare = [
        "compare",
        "--command",
        &good,
        bad,
        "--repeats",
        "2",
        "--json",
        "blocks.json",
    ];
    let output = run(&[&compare[..], &load].concat(), &directory);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("B did not start: it ended with"),
        "{}",
        stderr(&output)
    );
    let text = stdout(&output);
    assert!(text.contains("noise: A against itself"), "{text}");
    assert!(
        text.contains("rate: nothing can be said: valid A B B A 0"),
        "{text}"
    );
    let raw = std::fs::read(directory.file("blocks.json")).expect("there is raw data");
    let raw: Value = serde_json::from_slice(&raw).expect("it is JSON");
    assert_eq!(
        raw["blocks"].as_array().map(Vec::len),
        Some(9),
        "A against itself, and A once more"
    );
    let rate = &raw["b_against_a"]["rate"];
    assert!(
        rate["found"].is_null() && rate["noise"]["verdict"].is_string(),
        "{rate}"
    );
    assert_eq!(
        rate["words"],
        "nothing can be said: valid A B B A 0, needed 2"
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
    // Both wait, so that the generator mostly waits as well, and its blocks are valid on a busy machine.
    let app = format!("exec {weir} app --listen 127.0.0.1:{{port}} --delay");
    let (quick, slow) = (format!("{app} 1ms"), format!("{app} 20ms"));
    let load = [
        "--connections",
        "1",
        "--duration",
        "200ms",
        "--warm-up",
        "20ms",
        "--repeats",
        "3",
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
    assert!(line("rate:").starts_with("rate: A is "), "{text}");
    assert!(
        line("p50:").contains("% less latency than B, 95 % interval"),
        "{text}"
    );
    assert!(line("noise:").contains("A against itself"), "{text}");
    assert_eq!(leftovers(&directory.file("")), [""; 0]);
}

/// A proxy is not cheap because its application is somewhere else.
#[test]
fn what_is_behind_a_target_is_a_part_of_it() {
    let app = App::start("a");
    let gateway = Gateway::to(&[app.address]);
    let directory = Directory::new();
    let urls = [app.address, gateway.address].map(|address| format!("http://{address}/"));
    let load = [
        "--connections",
        "2",
        "--duration",
        "100ms",
        "--warm-up",
        "0ms",
    ];
    let arguments = [
        &["compare", &urls[0], &urls[1], "--repeats", "2"],
        &load[..],
    ]
    .concat();
    let output = run(&arguments, &directory);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let line = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .expect("a line")
    };
    let behind = format!(" + weir:{} ", app.address.port());
    assert!(line("B: ").contains(&behind), "{text}");
    assert!(
        line("A: ").contains("(weir ") && !line("A: ").contains(" + "),
        "{text}"
    );
    // On a machine that others keep busy, blocks are not valid, and it says so.
    let is_told = !line("CPU: ").contains("nothing can be said");
    assert!(is_told || text.contains("blocks not valid"), "{text}");
}

/// One connection to a service that takes 20 ms cannot carry 1,000 requests a second.
const TOO_MUCH: [&str; 8] = [
    "--rate",
    "1000",
    "--connections",
    "1",
    "--duration",
    "100ms",
    "--warm-up",
    "0ms",
];

#[test]
fn nothing_is_said_of_a_load_that_could_not_be_sent() {
    let app = App::start_with("slow", free_port(), &["--delay", "20ms"]);
    let directory = Directory::new();
    let url = format!("http://{}/", app.address);
    let compare = ["compare", &url, &url, "--repeats", "2"];
    let output = run(&[&compare[..], &TOO_MUCH].concat(), &directory);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for told in [
        "16 of 16 blocks not valid:",
        "16 ×: Only ",
        "0 of 2 of A against itself, 0 of 2 of B against A",
        "B: nothing that counts was measured",
        "rate: nothing can be said: valid A B B A 0, needed 2",
        "p99: nothing can be said: valid A B B A 0",
    ] {
        assert!(text.contains(told), "no {told:?} in {text}");
    }

    let ladder = ["ladder", "--to", &url, "--rounds", "2"];
    let output = run(&[&ladder[..], &TOO_MUCH].concat(), &directory);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("no rung is worth keeping"), "{told}");
    assert!(!directory.file("lab-ladder/weir.toml").exists());
    let text = stdout(&output);
    for told in [
        "6 of 6 blocks not valid:",
        "+ keep-alive: nothing can be said against weir, a connection for each request: rounds valid in both 0",
    ] {
        assert!(text.contains(told), "no {told:?} in {text}");
    }
    let report = std::fs::read_to_string(directory.file("lab-ladder/report.md")).expect("a report");
    assert!(report.contains("6 of 6 blocks are not valid"), "{report}");
    let again = format!("weir lab {} {}", ladder.join(" "), TOO_MUCH.join(" "));
    assert!(report.contains(&again), "no {again:?} in {report}");
}

#[test]
fn whoever_fails_is_told_and_not_compared_by_latency() {
    let directory = Directory::new();
    let weir = env!("CARGO_BIN_EXE_weir");
    let app = format!("exec {weir} app --listen 127.0.0.1:{{port}} --delay 2ms --fail-ratio");
    let (whole, half) = (format!("{app} 0"), format!("{app} 0.3"));
    let load = [
        "--connections",
        "8",
        "--duration",
        "300ms",
        "--warm-up",
        "0ms",
    ];
    // Two fours are needed, and an answer in each block, however few there are on a busy machine; some blocks are not valid there.
    let compare = ["compare", "--command", &whole, &half, "--repeats", "4"];
    let output = run(&[&compare[..], &load].concat(), &directory);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let line = |name: &str| text.lines().find(|line| line.starts_with(name));
    let of_b = line("B:").expect("B is told");
    assert!(
        of_b.contains("% failed (") && of_b.ends_with(" 5xx)"),
        "{text}"
    );
    assert!(
        line("A:").is_some_and(|line| line.ends_with("of its requests, none failed")),
        "{text}"
    );
    for name in ["p50:", "p99:"] {
        let told = line(name).expect("it is told");
        assert!(
            told.contains("not compared: 0 % of the requests to A failed and "),
            "{text}"
        );
    }
}

#[test]
fn a_ladder_that_was_ended_recommends_nothing() {
    let app = App::start("a");
    let directory = Directory::new();
    let url = format!("http://{}/?q=a&b=(c)", app.address);
    let out = directory.file("o");
    let out = out.to_str().expect("UTF-8");
    let ladder = ["lab", "ladder", "--to", &url, "--out", out, "--rounds", "9"];
    let mut ladder = Process::weir(&ladder, &directory);
    wait_until("a block is measured", || {
        directory.file("o/raw.json").exists()
    });
    ladder.signal("TERM");
    assert_eq!(ladder.wait().code(), Some(2), "{}", ladder.output());
    let told = ladder.output();
    assert!(
        told.contains("ended early; what there is rests on ") && !told.contains("keep it"),
        "{told}"
    );
    assert!(!directory.file("o/weir.toml").exists());
    let report = std::fs::read_to_string(directory.file("o/report.md")).expect("a report");
    let again = format!("weir lab ladder --to '{url}' --rounds 9\n");
    assert!(report.contains(&again), "no {again:?} in {report}");
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
    // CPU time is that of all that took part.
    let parts = |rung: &str| {
        let mut lines = text.lines().map(str::trim_start);
        let line = lines.find(|line| line.starts_with(rung));
        line.map_or(0, |line| line.matches(" + ").count())
    };
    assert_eq!(
        (parts("direct "), parts("+ keep-alive  ")),
        (0, 1),
        "{text}"
    );
    assert!(
        parts("+ balance over 2 ") == 2 && text.contains(" + service-2 "),
        "{text}"
    );
    let config =
        std::fs::read_to_string(directory.file("lab-ladder/weir.toml")).expect("it is kept");
    assert!(config.contains(&first.address.to_string()), "{config}");
    assert!(config.contains("\n#   "), "what each step gave: {config}");
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
