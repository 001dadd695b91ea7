//! The tables of metrics in `docs/reference/observing.md`, and of the words of `Cache-Status` in `docs/reference/cache.md`:
//! what is declared, and nothing by hand.
//!
//! A table stands behind its mark, such as `<!-- metrics: AREA -->`, and ends with the last line that begins with a bar.

use std::path::Path;
use std::{env, fs};

use weir_cache::cache_status::Forwarded;
use weir_cache::store_rule::NotStored;

use crate::admin::prometheus::AREAS;
use crate::admin::prometheus::metric::{Kind, Label, Metric};

const MENDING: &str = "WEIR_WRITE_REFERENCE=1 cargo test -p weir-gateway --lib admin";

#[test]
fn the_reference_has_what_is_declared() {
    check("observing.md", |mut page| {
        for (area, metrics) in &AREAS {
            let rows: String = metrics.iter().map(row).collect();
            let head = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n";
            page = with_table(&page, &format!("metrics: {area}"), &[head, &rows].concat());
        }
        page
    });
}

#[test]
fn the_reference_has_every_word_of_cache_status() {
    check("cache.md", |page| {
        let why = Forwarded::ALL.map(|why| format!("| `{}` | {} |\n", why.name(), why.meaning()));
        let head = "| `fwd` | why the request went on to the origin |\n| --- | --- |\n";
        let page = with_table(&page, "cache-status: fwd", &[head, &why.concat()].concat());
        let details = NotStored::ALL.map(|it| {
            let (name, meaning, remedy) = (it.name(), it.meaning(), it.remedy());
            format!("| `{name}` | {meaning} | {remedy} |\n")
        });
        let head =
            "| `detail` | why it is not stored | what has it stored |\n| --- | --- | --- |\n";
        with_table(
            &page,
            "cache-status: detail",
            &[head, &details.concat()].concat(),
        )
    });
}

/// Compares a page with what it is `as_declared`; or writes that.
fn check(page: &str, as_declared: impl Fn(String) -> String) {
    let name = format!("docs/reference/{page}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(&name);
    let committed = fs::read_to_string(&path).expect("the reference is there");
    let written = as_declared(committed.clone());
    if env::var_os("WEIR_WRITE_REFERENCE").is_some() {
        fs::write(&path, written).expect("the reference can be written");
        return;
    }
    let mut lines = committed.lines().zip(written.lines());
    let different = lines.find(|(old, new)| old != new);
    assert!(
        committed == written,
        "{name} is not what is declared: {different:#?}; this mends it: {MENDING}"
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

/// The page with this table in the place of the one that stands behind the mark of that name.
fn with_table(page: &str, name: &str, table: &str) -> String {
    let mark = format!("<!-- {name} -->\n\n");
    let parts: Vec<&str> = page.split(&mark).collect();
    let [before, behind] = parts[..] else {
        panic!("the page has {mark:?} {} times", parts.len() - 1);
    };
    let lines = behind.split_inclusive('\n');
    let old: usize = lines
        .take_while(|line| line.starts_with('|'))
        .map(str::len)
        .sum();
    [before, &mark, table, &behind[old..]].concat()
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
