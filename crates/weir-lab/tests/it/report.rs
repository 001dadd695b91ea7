//! Reports, from raw data to files. `report/raw.json` is a small run with names that try to be HTML and Markdown, and
//! `report/report.md` is what it must give, checked by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quick_xml::Reader;
use quick_xml::events::Event;
use weir_lab::raw::{Block, Run};
use weir_lab::report::{self, ReportError};

const RAW: &str = include_str!("report/raw.json");
const MARKDOWN: &str = include_str!("report/report.md");

/// Elements that have no end in HTML.
const VOID: [&str; 2] = ["meta", "br"];

/// A directory of its own, gone with the test.
struct Directory(PathBuf);

impl Directory {
    fn with_raw_data(test: &str) -> Self {
        let name = format!("weir-report-{}-{test}", std::process::id());
        let directory = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&directory.0).expect("a directory for the test");
        fs::write(directory.0.join("raw.json"), RAW).expect("raw data");
        directory
    }

    fn report(&self) -> (String, String) {
        let written = report::write(&self.0).expect("a report");
        let read = |path: &Path| fs::read_to_string(path).expect("what was written");
        (read(&written.markdown), read(&written.html))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_markdown_is_the_expected_one() {
    let (markdown, _) = Directory::with_raw_data("markdown").report();
    assert_eq!(markdown, MARKDOWN);
}

#[test]
fn a_report_made_again_is_the_same() {
    let directory = Directory::with_raw_data("again");
    assert_eq!(directory.report(), directory.report());
}

#[test]
fn every_element_of_the_html_is_closed_where_it_should_be() {
    let (_, html) = Directory::with_raw_data("elements").report();
    let mut reader = Reader::from_str(&html);
    reader.config_mut().check_end_names = false;
    let mut open: Vec<String> = Vec::new();
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Start(start) => {
                let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
                if !VOID.contains(&name.as_str()) {
                    open.push(name);
                }
            }
            Event::End(end) => {
                let name = String::from_utf8_lossy(end.name().as_ref()).into_owned();
                assert_eq!(
                    open.pop(),
                    Some(name),
                    "at byte {}",
                    reader.buffer_position()
                );
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open, Vec::<String>::new());
}

#[test]
fn nothing_in_the_html_runs_or_loads() {
    let (_, html) = Directory::with_raw_data("loads").report();
    let mut reader = Reader::from_str(&html);
    reader.config_mut().check_end_names = false;
    loop {
        let (Event::Start(element) | Event::Empty(element)) =
            (match reader.read_event().expect("well-formed") {
                Event::Eof => break,
                event => event,
            })
        else {
            continue;
        };
        let name = String::from_utf8_lossy(element.name().as_ref()).into_owned();
        assert!(
            !["script", "link", "img", "object", "embed"].contains(&name.as_str()),
            "<{name}>"
        );
        for attribute in element.html_attributes().flatten() {
            let key = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
            let value = String::from_utf8_lossy(&attribute.value).into_owned();
            assert!(!key.starts_with("on"), "{key}={value}");
            assert!(
                !(key == "src" || value.contains("javascript:")),
                "{key}={value}"
            );
        }
    }
    assert!(!html.contains("url("), "the style sheet loads nothing");
}

#[test]
fn names_from_the_data_are_text() {
    let (markdown, html) = Directory::with_raw_data("names").report();
    assert!(html.contains("nginx | &lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(html.contains("weir *cached* &amp;amp;"));
    assert!(html.contains("a fence inside &lt;/pre&gt;"));
    for line in markdown.lines().filter(|line| line.starts_with("| nginx")) {
        assert!(
            line.starts_with(r"| nginx \| &lt;script&gt;alert(1)&lt;/script&gt; |"),
            "{line}"
        );
    }
}

/// Recomputed here in the plainest way, from the raw data.
#[test]
fn the_numbers_of_the_tables_are_those_of_the_raw_data() {
    let (markdown, _) = Directory::with_raw_data("numbers").report();
    let run: Run = serde_json::from_str(RAW).expect("raw data");
    let rates = column(&markdown, "## Throughput", "Requests per second");
    let requests = column(&markdown, "## Outcomes", "Requests");
    let errors = column(&markdown, "## Outcomes", "5xx");
    let cpu = column(&markdown, "## CPU time", "app");
    let mut row = 0;
    for configuration in &run.configurations {
        for load in &run.loads {
            let blocks = run.blocks.iter();
            let blocks = blocks.filter(|b| {
                b.configuration == configuration.name && b.load == load.name && b.is_valid
            });
            let blocks: Vec<&Block> = blocks.collect();
            let logs: f64 = blocks.iter().map(|block| block.rate.ln()).sum();
            let rate = (logs / blocks.len() as f64).exp();
            assert_eq!(rates[row].replace(',', ""), format!("{rate:.0}"));
            let all: u64 = blocks.iter().map(|block| block.requests).sum();
            assert_eq!(requests[row].replace(',', ""), all.to_string());
            let of_5xx: u64 = blocks.iter().map(|block| block.outcomes["5xx"]).sum();
            assert_eq!(errors[row], of_5xx.to_string());
            let mut us: Vec<f64> = blocks
                .iter()
                .filter_map(|block| {
                    let answers = block.outcomes["2xx"] as f64;
                    Some(block.services[0].cpu_seconds? * 1e6 / answers)
                })
                .collect();
            us.sort_by(f64::total_cmp);
            let median = f64::midpoint(us[(us.len() - 1) / 2], us[us.len() / 2]);
            assert_eq!(cpu[row], format!("{median:.0}"));
            row += 1;
        }
    }
    assert_eq!(row, rates.len());
}

/// The report of the run after `change`.
fn report_of(test: &str, change: impl FnOnce(&mut Run)) -> (String, String) {
    let directory = Directory::with_raw_data(test);
    let mut run: Run = serde_json::from_str(RAW).expect("raw data");
    change(&mut run);
    run.write(&directory.0).expect("raw data");
    directory.report()
}

#[test]
fn whoever_sheds_its_slow_requests_is_not_the_fastest() {
    let fastest = "was the fastest: a 99th percentile 76 %";
    let (markdown, _) = Directory::with_raw_data("all-answered").report();
    assert!(markdown.contains(fastest), "{markdown}");
    let (markdown, html) = report_of("shed", |run| {
        let open = run
            .blocks
            .iter_mut()
            .filter(|block| block.configuration.starts_with("weir") && block.load == "date, 500/s");
        for block in open {
            block.outcomes.insert("2xx".to_owned(), 700);
            block.outcomes.insert("5xx".to_owned(), 302);
        }
    });
    assert!(!markdown.contains(fastest), "{markdown}");
    for told in [
        "than the 0.20 % of backend: weir",
        "of those to weir \\*cached\\* &amp;amp;, 30 % failed (906 5xx).",
        "| not compared, 30 % failed |",
    ] {
        assert!(markdown.contains(told), "no {told:?} in {markdown}");
    }
    let against = column(&markdown, "## Throughput", "Against backend");
    assert_eq!(against, ["", "", "−22 %", "+33 %", "4.0 ×", "not compared"]);
    let failed = column(&markdown, "## Latency", "Failed");
    assert_eq!(failed[4..], ["0.20 %", "30 %"]);
    assert!(html.contains("weir *cached* &amp;amp;, without the 30 % that failed"));
}

#[test]
fn figures_without_a_valid_block_are_marked_wherever_they_stand() {
    let (markdown, html) = report_of("brackets", |run| {
        let all = run.blocks.iter_mut();
        for block in all.filter(|block| block.load == "date, 6 at a time") {
            block.is_valid &= !block.configuration.starts_with("weir");
        }
    });
    assert!(
        markdown.contains("Without a valid block, so that nothing is said of it: weir"),
        "{markdown}"
    );
    for (table, title, cells) in [
        ("### At a glance", "date, 6 at a time", ["not valid"; 1]),
        ("## Throughput", "Requests per second", ["(2,837)"]),
        ("## Throughput", "Against backend", [""]),
        ("## Latency", "p99", ["(2.94)"]),
        ("## CPU time", "weir", ["(12.5)"]),
        ("## Outcomes", "2xx", ["(3,000)"]),
    ] {
        let of_weir = if table == "### At a glance" { 2 } else { 4 };
        let column = column(&markdown, table, title);
        assert_eq!(column[of_weir..=of_weir], cells, "{table}, {title}");
        assert!(!column[0].starts_with('('), "{table}, {title}");
    }
    assert!(html.contains("weir *cached* &amp;amp;, without the 0.20 % that failed, not valid"));
}

/// The cells of a column of the first table below `heading`.
fn column(markdown: &str, heading: &str, title: &str) -> Vec<String> {
    let (_, below) = markdown.split_once(heading).expect("the heading");
    // An escaped bar is part of a cell; no cell that is looked at has one.
    let below = below.replace(r"\|", "/");
    let lines = below
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = lines
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let index = rows[0]
        .iter()
        .position(|cell| *cell == title)
        .expect("the column");
    rows[2..].iter().map(|row| row[index].to_owned()).collect()
}

#[test]
fn graphs_of_profiles_are_inside_the_html() {
    let directory = Directory::with_raw_data("graphs");
    let profiles = directory.0.join("profiles");
    fs::create_dir(&profiles).expect("a directory for profiles");
    let measured = |graph: &str| serde_json::json!({ "measured": { "seconds": 1.0, "hottest": [["<f>", 0.5]], "graph": graph } });
    let unavailable = serde_json::json!({ "unavailable": "perf is not installed" });
    let target = |name: &str, graph: &str| {
        BTreeMap::from([
            ("name", serde_json::json!(name)),
            ("cpu", measured(graph)),
            ("waits", unavailable.clone()),
            ("system_calls", unavailable.clone()),
            ("allocations", unavailable.clone()),
        ])
    };
    let summary = serde_json::json!({
        "title": "a <profile>", "seconds": 2.0, "requests": 100,
        "targets": [target("app", "app.svg"), target("outside", "../outside.svg")],
    });
    fs::write(profiles.join("a.json"), summary.to_string()).expect("a profile");
    fs::write(
        profiles.join("app.svg"),
        r#"<svg width="10" height="70"></svg>"#,
    )
    .expect("a graph");
    fs::write(
        directory.0.join("outside.svg"),
        r#"<svg width="10" height="70"></svg>"#,
    )
    .expect("a file outside");
    let (markdown, html) = directory.report();
    assert_eq!(
        html.matches("<iframe").count(),
        1,
        "a file outside of the directory is no graph"
    );
    assert!(html.contains("data:image/svg+xml;base64,PHN2Zy"));
    assert!(html.contains("&lt;f&gt; 50.0 %"));
    assert_eq!(
        markdown
            .matches("not measured: perf is not installed")
            .count(),
        6
    );
    assert!(markdown.contains("[CPU flame graph](profiles/app.svg)"));
    assert!(!markdown.contains("outside.svg"));
}

#[test]
fn a_run_without_measurements_has_no_report() {
    let directory = Directory::with_raw_data("empty");
    let mut run: Run = serde_json::from_str(RAW).expect("raw data");
    run.blocks.clear();
    run.write(&directory.0).expect("raw data");
    let error = report::write(&directory.0).expect_err("nothing to report");
    assert!(matches!(error, ReportError::Empty(_)), "{error}");
    fs::remove_file(directory.0.join("raw.json")).expect("raw data to remove");
    let error = report::write(&directory.0).expect_err("nothing to read");
    assert!(error.to_string().contains("raw.json"), "{error}");
}
