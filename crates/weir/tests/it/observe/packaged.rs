//! What is packaged for Prometheus and Grafana asks only for metrics and labels that a gateway has.

use std::collections::BTreeSet;
use std::path::Path;

use regex_lite::Regex;
use serde_json::Value;

use super::admin::metrics;
use super::prometheus::Page;
use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::{Gateway, free_port, wait_until};

/// What Prometheus itself says of every sample, and the bounds of histograms.
const LABELS_OF_ALL: [&str; 3] = ["job", "instance", "le"];

/// A file of this repository.
fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Everything that a gateway can have, and traffic of each kind.
fn gateway_with_everything() -> Gateway {
    let well = super::answering();
    let sick = Origin::answering("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start_in(|directory| {
        format!(
            "[cache]\nmemory = \"8MiB\"\ndisk = {{ path = \"{}\", size = \"8MiB\" }}\n\
             [upstream.app]\nservers = [\"{}\", \"{}\"]\nejection = true\nbreaker = true\nconcurrency = {{ limit = 9 }}\n\
             [upstream.gone]\nservers = [\"127.0.0.1:{}\"]\n\
             [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\nbreaker = true\n\
             [[route]]\npath = \"/gone\"\nupstream = \"gone\"\nfallback = {{ status = 200, body = \"later\" }}\n\
             [queue.q]\npath = \"{queue}\"\n[queue.q.sink.file]\nfile = \"{queue}/out\"\n\
             [[route]]\npath = \"/later\"\nmethods = [\"POST\"]\ndefer = \"q\"\n\
             [kv]\nengine = {{ path = \"{store}\" }}\nnode = \"127.0.0.1:{one}\"\nnodes = [\"127.0.0.1:{one}\", \"127.0.0.1:{other}\"]\n\
             [[route]]\npath = \"/v1/{{*rest}}\"\nkv = true\n\
             [table.t]\nengine = {{ postgres = \"postgres://weir@127.0.0.1:{away}/none\" }}\n\
             [[route]]\npath = \"/events\"\ncollect = {{ table = \"t\" }}\n",
            directory.file("cache").display(),
            well.address,
            sick.address,
            free_port(),
            queue = directory.file("queue").display(),
            store = directory.file("store").display(),
            one = free_port(),
            other = free_port(),
            away = free_port(),
        )
    });
    let mut connection = Connection::open(gateway.address);
    for request in 0..20 {
        connection.get(&format!("/{request}"));
    }
    connection.get("/gone");
    wait_until("all is counted", || {
        gateway.metric("weir_requests_total") == 21
    });
    gateway
}

/// The expressions of the dashboard with the legends of their samples, and those of its variables.
fn of_dashboard() -> Vec<(String, String)> {
    let dashboard: Value =
        serde_json::from_str(&file("packaging/grafana/weir.json")).expect("it is JSON");
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let panels = list(&dashboard["panels"]);
    let targets = panels.iter().filter(|panel| panel["type"] != "row");
    let targets = targets.flat_map(|panel| list(&panel["targets"]));
    let mut all: Vec<_> = targets
        .map(|target| (text(&target["expr"]), text(&target["legendFormat"])))
        .collect();
    for variable in list(&dashboard["templating"]["list"]) {
        let query = text(&variable["query"]);
        if let Some(inside) = query.strip_prefix("label_values(") {
            let (series, label) = inside
                .trim_end_matches(')')
                .rsplit_once(", ")
                .expect("a label");
            all.push((series.to_owned(), format!("{{{{{label}}}}}")));
        }
    }
    all
}

/// The expressions of the alert rules with what their annotations say; each rule has all that it needs.
fn of_rules() -> Vec<(String, String)> {
    let text = file("packaging/prometheus/weir.rules.yml");
    let alerts = text.split("- alert: ").skip(1);
    let rules = alerts.map(|alert| {
        let of = |key: &str| {
            let lines = alert.lines().map(str::trim_start);
            let mut found = lines.filter_map(|line| line.strip_prefix(key));
            found
                .next()
                .unwrap_or_else(|| panic!("{key} is missing: {alert}"))
                .trim()
        };
        assert!(of("labels: ").contains("severity: "), "{alert}");
        let said = [of("summary: "), of("description: ")].concat();
        let said = said.replace("{{ $labels.", "{{").replace(" }}", "}}");
        (of("expr: ").to_owned(), said)
    });
    rules.collect()
}

/// What an expression asks for and the gateway does not have.
fn missing(page: &Page, reasons: &str, expression: &str, said: &str) -> Vec<String> {
    let mut missing = Vec::new();
    let series = Regex::new(r"\b(weir_[a-z0-9_]+)(?:\{([^}]*)\})?").expect("a pattern");
    let matcher = Regex::new(r#"([a-z_]+)(=~|=)"([^"]*)""#).expect("a pattern");
    let group = Regex::new(r"\b(?:by|on) \(([^)]*)\)").expect("a pattern");
    let legend = Regex::new(r"\{\{([a-z_]+)\}\}").expect("a pattern");
    let mut known: Vec<BTreeSet<String>> = Vec::new();
    for found in series.captures_iter(expression) {
        let name = &found[1];
        let labels = page.labels(name);
        if labels.is_empty() && !page.has(name) {
            missing.push(name.to_owned());
            continue;
        }
        for found in matcher.captures_iter(found.get(2).map_or("", |labels| labels.as_str())) {
            let (label, value) = (&found[1], &found[3]);
            if LABELS_OF_ALL.contains(&label) {
                continue;
            }
            if !labels.contains(label) {
                missing.push(format!("{name} has no {label}"));
            }
            for value in value.split('|').filter(|value| !value.contains(['$', '.'])) {
                let is_there = page.has_value(name, label, value)
                    || label == "reason" && reasons.contains(&format!("`{value}`"));
                if !is_there {
                    missing.push(format!("{name} has no {label}={value}"));
                }
            }
        }
        known.push(labels);
    }
    let mut grouped = BTreeSet::new();
    for found in group.captures_iter(expression) {
        grouped.extend(found[1].split(", ").map(str::to_owned));
    }
    let is_of_all = |label: &str| LABELS_OF_ALL.contains(&label);
    for label in grouped.iter().filter(|label| !is_of_all(label)) {
        if !known.iter().all(|labels| labels.contains(label)) {
            missing.push(format!("not everything has {label}"));
        }
    }
    for found in legend.captures_iter(said) {
        let label = &found[1];
        let is_left = grouped.is_empty() || grouped.contains(label) || expression.contains(" on (");
        let is_there = is_of_all(label) || known.iter().any(|labels| labels.contains(label));
        if !(is_left && is_there) {
            missing.push(format!("nothing has {label}, which is shown"));
        }
    }
    missing
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_what_there_is() {
    let gateway = gateway_with_everything();
    let page = metrics(&gateway);
    let reasons = file("docs/reference/messages.md");
    let (dashboard, rules) = (of_dashboard(), of_rules());
    assert!(dashboard.len() > 30 && rules.len() > 10);
    let mut wrong = Vec::new();
    for (expression, said) in dashboard.iter().chain(&rules) {
        let count = |c: char| expression.matches(c).count();
        assert_eq!(count('('), count(')'), "{expression}");
        let missing = missing(&page, &reasons, expression, said);
        wrong.extend(missing.into_iter().map(|it| format!("{it}: {expression}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_there_is_not_is_found() {
    let gateway = gateway_with_everything();
    let page = metrics(&gateway);
    for (expression, said, expected) in [
        ("rate(weir_requests_total[5m])", "{{route}}", None),
        (
            "rate(weir_request_total[5m])",
            "",
            Some("weir_request_total"),
        ),
        (
            "weir_requests_total{clas=\"5xx\"}",
            "",
            Some("weir_requests_total has no clas"),
        ),
        (
            "weir_requests_total{class=\"6xx\"}",
            "",
            Some("weir_requests_total has no class=6xx"),
        ),
        (
            "weir_failures_total{reason=\"tired\"}",
            "",
            Some("weir_failures_total has no reason=tired"),
        ),
        (
            "sum by (upstream) (weir_requests_total)",
            "",
            Some("not everything has upstream"),
        ),
        (
            "sum by (route) (weir_requests_total)",
            "{{class}}",
            Some("nothing has class, which is shown"),
        ),
    ] {
        let found = missing(&page, "`queue_full`", expression, said);
        assert_eq!(found.first().map(String::as_str), expected, "{expression}");
    }
}
