//! The tables of metrics in `docs/reference.md`: what is declared, and nothing by hand.
//!
//! A table stands behind its mark, `<!-- metrics: AREA -->`, and ends with the last line that begins with a bar.

use std::path::Path;
use std::{env, fs};

use crate::admin::prometheus::AREAS;
use crate::admin::prometheus::metric::{Kind, Label, Metric};

const MENDING: &str = "WEIR_WRITE_REFERENCE=1 cargo test -p weir-gateway --lib admin";

#[test]
fn the_reference_has_what_is_declared() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let committed = fs::read_to_string(&path).expect("the reference is there");
    let mut written = committed.clone();
    for (area, metrics) in &AREAS {
        written = with_table(&written, area, metrics);
    }
    if env::var_os("WEIR_WRITE_REFERENCE").is_some() {
        fs::write(&path, written).expect("the reference can be written");
        return;
    }
    let mut lines = committed.lines().zip(written.lines());
    let different = lines.find(|(old, new)| old != new);
    assert!(
        committed == written,
        "docs/reference.md is not what is declared: {different:#?}; this mends it: {MENDING}"
    );
}

#[test]
fn every_metric_is_declared_once_and_named_as_its_kind() {
    let metrics = || AREAS.iter().flat_map(|(_, metrics)| *metrics);
    for metric in metrics() {
        let name = metric.name;
        let same = metrics().filter(|other| other.name == name);
        assert_eq!(same.count(), 1, "{name}");
        let is_counter = metric.kind == Kind::Counter;
        assert_eq!(is_counter, name.ends_with("_total"), "{name}");
        let is_cell = metric.help.ends_with('.') && !metric.help.contains(['\n', '|']);
        assert!(is_cell, "{name}");
    }
}

/// The reference with the table of an area in the place of the one that is there.
fn with_table(reference: &str, area: &str, metrics: &[Metric]) -> String {
    let mark = format!("<!-- metrics: {area} -->\n\n");
    let parts: Vec<&str> = reference.split(&mark).collect();
    let [before, behind] = parts[..] else {
        panic!("docs/reference.md has {mark:?} {} times", parts.len() - 1);
    };
    let lines = behind.split_inclusive('\n');
    let old: usize = lines
        .take_while(|line| line.starts_with('|'))
        .map(str::len)
        .sum();
    let rows: String = metrics.iter().map(row).collect();
    let head = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n";
    [before, &mark, head, &rows, &behind[old..]].concat()
}

fn row(metric: &Metric) -> String {
    let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
    let lists: Vec<_> = metric.labels.iter().map(|labels| list(labels)).collect();
    let labels = lists.join(", or ");
    let blank = if labels.is_empty() { "" } else { " " };
    format!("| `{name}` | {kind} |{blank}{labels} | {help} |\n")
}

fn list(labels: &[Label]) -> String {
    let labels = labels.iter().map(|Label { name, values }| {
        let values = values().into_iter().map(|value| format!("`{value}`"));
        let values: Vec<_> = values.collect();
        if values.is_empty() {
            format!("`{name}`,")
        } else {
            format!("`{name}`: {};", values.join(", "))
        }
    });
    let list = labels.collect::<Vec<_>>().join(" ");
    list.trim_end_matches([',', ';']).to_owned()
}
