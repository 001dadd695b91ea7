//! Scenario files of `weir lab`: the same TOML, the same complaints.
//!
//! The keys stand here in the order in which a person reads such a file; what they mean is in weir-lab's `scenario`.

mod service;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;
use weir_lab::raw::Published;
use weir_lab::scenario::{
    Amount, Arrivals, BUILT_IN, Configuration, Effort, Fault, Load, Part, Scenario,
};

use super::error::{ConfigError, Report};
use super::read::Table;
use super::suggest::{did_you_mean, nearest, one_of, quoted};
use super::syntax;
use super::units;
use super::value::Value;

const ROUNDS: RangeInclusive<u64> = 1..=1000;
const CONNECTIONS: RangeInclusive<u64> = 1..=1_000_000;
const THREADS: RangeInclusive<u64> = 1..=255;
const REQUESTS: RangeInclusive<u64> = 1..=1_000_000_000;
const DURATION: RangeInclusive<Duration> = units::ABOVE_ZERO..=Duration::from_secs(3600);
const WARM_UP: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
/// A share of one CPU; a service may use several.
const CPU_SHARE: RangeInclusive<f64> = 0.01..=1024.0;
/// Requests a second.
const CAPACITY: RangeInclusive<f64> = 0.001..=1e9;
const ARRIVALS_EXPECTED: &str = "\"even\", \"poisson\" or as in \"bursts of 100\"";
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
const FAULT_EXAMPLE: &str = "fault = { service = \"app\", mode = \"fail\", from = 0.2, to = 0.6 }";
const FIGURE: RangeInclusive<f64> = 0.0..=1e12;

/// The scenario of this name, or in the file at this path.
pub(crate) fn open(name_or_path: &str) -> anyhow::Result<Scenario> {
    let built_in = BUILT_IN.iter().find(|(name, _)| *name == name_or_path);
    if let Some((name, text)) = built_in {
        return Ok(parse(name, text, &format!("{name}.toml"))?);
    }
    let path = Path::new(name_or_path);
    if path.extension().is_none() && !name_or_path.contains('/') {
        let names = || BUILT_IN.iter().map(|(name, _)| *name);
        let help = match nearest(name_or_path, names()) {
            Some(meant) => did_you_mean(Some(meant)),
            None => format!("; expected {} or the path of a file", one_of(names())),
        };
        anyhow::bail!("there is no scenario {}{help}", quoted(name_or_path));
    }
    let bytes = super::regular::whole(path).map_err(|cause| ConfigError::Unreadable {
        file: name_or_path.to_owned(),
        cause,
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(parse(
        &name,
        super::text_of(&bytes, name_or_path)?,
        name_or_path,
    )?)
}

/// Reads the text of the scenario `name`; `file_name` begins every line of the error.
pub(crate) fn parse(name: &str, text: &str, file_name: &str) -> Result<Scenario, ConfigError> {
    let report = Report::on(text);
    let document = syntax::parse(text, &report);
    if !report.is_empty() {
        return Err(report.into_error(file_name));
    }
    let root = Table::new(&report, text.len(), String::new(), document.get_ref());
    let scenario = scenario(name, root);
    if report.is_empty() {
        for (part, problem) in scenario.validate() {
            let (at, key) = place(part, document.get_ref());
            report.add(at, &key, problem);
        }
    }
    if report.is_empty() {
        Ok(scenario)
    } else {
        Err(report.into_error(file_name))
    }
}

/// Where a part of the scenario stands, and its key.
fn place(part: Part, root: &DeTable) -> (usize, String) {
    let (list, index) = match part {
        Part::Baseline => {
            let at = root.get("baseline").map_or(0, |value| value.span().start);
            return (at, "baseline".to_owned());
        }
        Part::Load(index) => ("load", index),
        Part::Configuration(index) => ("configuration", index),
    };
    let item = root
        .get(list)
        .and_then(|list| list.get_ref().as_array()?.get(index));
    (
        item.map_or(0, |item| item.span().start),
        format!("{list}[{}]", index + 1),
    )
}

fn scenario(name: &str, mut root: Table) -> Scenario {
    let title = text(&mut root, "title", "what it is about, in one line");
    let source = optional_text(&mut root, "source");
    let about = optional_text(&mut root, "about");
    let baseline = root.required(
        "baseline",
        "the configuration that others are compared with",
    );
    let baseline = baseline.and_then(|value| value.text("the name of a configuration"));
    let capacity = root.optional("capacity");
    let capacity = capacity.and_then(|value| value.number(&CAPACITY));
    let columns = root.optional("columns");
    let columns = columns.map_or_else(Vec::new, |value| texts(&value, "columns"));
    let normal = effort(&mut root);
    let quick = root.required("quick", "`{ rounds = 2, warm_up = \"100ms\" }`");
    let quick = quick
        .and_then(|value| value.table("quick = { rounds = 2 }"))
        .map(|mut table| {
            let effort = effort(&mut table);
            table.finish();
            effort
        });
    let loads = root.sections("load", "add `[[load]]` with what is asked");
    let loads = loads.into_iter().map(load).collect();
    let mut published = Vec::new();
    let tables = root.sections(
        "configuration",
        "add `[[configuration]]` with the services that run",
    );
    let configurations = tables
        .into_iter()
        .map(|table| configuration(table, &mut published))
        .collect();
    let services = service::all(&mut root);
    root.finish();
    Scenario {
        name: name.to_owned(),
        title,
        about,
        source,
        services,
        configurations,
        baseline: baseline.unwrap_or_default().to_owned(),
        loads,
        capacity,
        columns,
        effort: normal,
        quick: quick.unwrap_or(normal),
        published,
    }
}

fn effort(table: &mut Table) -> Effort {
    let rounds = table.required("rounds", "how often each configuration is measured");
    let rounds = rounds.and_then(|value| value.integer(ROUNDS)).unwrap_or(1) as usize;
    let warm_up = table.optional("warm_up");
    let warm_up = warm_up
        .and_then(|value| value.duration(&WARM_UP))
        .unwrap_or_default();
    Effort { rounds, warm_up }
}

fn load(mut table: Table) -> Load {
    let name = text(&mut table, "name", "a name for tables");
    let method = optional_text(&mut table, "method");
    let path = text(&mut table, "path", "path and query, as in \"/\"");
    let headers = table.optional("headers");
    let headers = headers.map_or_else(Vec::new, |value| headers_of(&value));
    let body = optional_text(&mut table, "body");
    let connections = table.required("connections", "how many are open at once");
    let connections = connections
        .and_then(|value| value.integer(CONNECTIONS))
        .unwrap_or(1) as usize;
    let threads = table.optional("threads");
    let threads = threads
        .and_then(|value| value.integer(THREADS))
        .unwrap_or(1) as usize;
    let keep_alive = table.optional("keep_alive");
    let keep_alive = keep_alive.and_then(|value| value.boolean()).unwrap_or(true);
    let rate = table.optional("rate");
    let rate = rate.and_then(|value| value.number(&FIGURE));
    let arrivals = table.optional("arrivals");
    let arrivals = arrivals.and_then(|value| value.parsed(ARRIVALS_EXPECTED, arrivals_of));
    let timeout = table.optional("timeout");
    let timeout = timeout.and_then(|value| value.duration(&DURATION));
    let duration = table.optional("duration");
    let duration = duration
        .and_then(|value| value.duration(&DURATION))
        .map(Amount::Time);
    let requests = table.optional("requests");
    let requests = requests
        .and_then(|value| value.integer(REQUESTS))
        .map(Amount::Requests);
    if duration.is_some() == requests.is_some() {
        table.wrong("duration", "expected either \"duration\" or \"requests\"");
    }
    let amount = duration.or(requests).unwrap_or(Amount::Requests(1));
    let quick = table.required("quick", "a duration for `--quick`, as in \"1s\"");
    let quick = quick
        .and_then(|value| value.duration(&DURATION))
        .map(Amount::Time);
    let fault = table.section("fault", FAULT_EXAMPLE).and_then(fault);
    let notes = notes(&mut table);
    let with = free_texts(&mut table, "with");
    table.finish();
    Load {
        name,
        notes,
        arrivals: arrivals.unwrap_or_default(),
        with,
        method: if method.is_empty() {
            "GET".to_owned()
        } else {
            method
        },
        path,
        headers,
        body,
        connections,
        threads,
        keep_alive,
        rate,
        timeout: timeout.unwrap_or(Load::TIMEOUT_DEFAULT),
        amount,
        quick: quick.unwrap_or(amount),
        fault,
    }
}

fn arrivals_of(text: &str) -> Result<Arrivals, String> {
    match text {
        "even" => Ok(Arrivals::Even),
        "poisson" => Ok(Arrivals::Poisson),
        _ => {
            let count = text
                .strip_prefix("bursts of ")
                .and_then(|count| count.parse().ok());
            let count = count.filter(|count| *count > 0);
            count
                .map(Arrivals::Bursts)
                .ok_or_else(|| format!("expected {ARRIVALS_EXPECTED}"))
        }
    }
}

fn fault(mut table: Table) -> Option<Fault> {
    let service = text(&mut table, "service", "the name of a service");
    let modes = Fault::MODES.map(|mode| (mode, mode));
    let mode = table.required("mode", "what goes wrong, as in \"fail\"");
    let mode = mode.and_then(|value| value.choice(&modes));
    let mut share = |key| {
        let value = table.required(key, "a share of the load's duration, as in 0.2");
        value.and_then(|value| value.number(&SHARE))
    };
    let (from, to) = (share("from"), share("to"));
    table.finish();
    Some(Fault {
        service,
        mode: mode?.to_owned(),
        from: from?,
        to: to?,
    })
}

fn configuration(mut table: Table, published: &mut Vec<Published>) -> Configuration {
    let name = text(&mut table, "name", "a name for tables");
    let group = optional_text(&mut table, "group");
    let services = table.required(
        "services",
        "the services that run, in the order of their start",
    );
    let services = services.map_or_else(Vec::new, |value| texts(&value, "names of services"));
    let entry = optional_text(&mut table, "entry");
    // Mostly what was started last stands in front of the others.
    let entry = if entry.is_empty() {
        services.last().cloned().unwrap_or_default()
    } else {
        entry
    };
    let cpu_share = table.section("cpu_share", "cpu_share = { app = 0.2 }");
    let cpu_share = cpu_share.map_or_else(BTreeMap::new, |shares| {
        let shares = shares.entries().into_iter();
        shares
            .filter_map(|(name, value)| Some((name.to_owned(), value.number(&CPU_SHARE)?)))
            .collect()
    });
    let needs = table.optional("needs");
    let needs = needs
        .and_then(|value| value.text("a config key of weir"))
        .map(str::to_owned);
    let notes = notes(&mut table);
    if let Some(figures) = table.section("published", "[configuration.published]") {
        let figures = figures.entries().into_iter();
        published.extend(figures.map(|(load, value)| figure(&name, load, &value)));
    }
    table.finish();
    Configuration {
        name,
        group,
        services,
        entry,
        cpu_share,
        notes,
        needs,
    }
}

/// A rate, or a table of a rate and of latencies in milliseconds.
fn figure(configuration: &str, load: &str, value: &Value) -> Published {
    let mut figure = Published {
        configuration: configuration.to_owned(),
        load: load.to_owned(),
        rate: None,
        latency_ms: BTreeMap::new(),
    };
    if !value.is_table() {
        figure.rate = value.number(&FIGURE);
    } else if let Some(table) = value.table("{ rate = 100, p50 = 1.5 }") {
        for (name, value) in table.entries() {
            let number = value.number(&FIGURE);
            if name == "rate" {
                figure.rate = number;
            } else if let Some(ms) = number {
                figure.latency_ms.insert(name.to_owned(), ms);
            }
        }
    }
    figure
}

fn notes(table: &mut Table) -> BTreeMap<String, String> {
    free_texts(table, "notes")
}

/// The texts of a table whose keys are free names.
fn free_texts(table: &mut Table, key: &'static str) -> BTreeMap<String, String> {
    let entries = table.section(key, "{ name = \"text\" }");
    let entries = entries.as_ref().map_or_else(Vec::new, Table::entries);
    let texts = entries.into_iter();
    texts
        .filter_map(|(name, value)| Some((name.to_owned(), value.text("a text")?.to_owned())))
        .collect()
}

fn text(table: &mut Table, key: &'static str, expected: &str) -> String {
    let value = table.required(key, expected);
    value
        .and_then(|value| value.text(expected))
        .unwrap_or_default()
        .to_owned()
}

fn optional_text(table: &mut Table, key: &'static str) -> String {
    let value = table.optional(key);
    value
        .and_then(|value| value.text("a text"))
        .unwrap_or_default()
        .to_owned()
}

fn texts(value: &Value, expected: &str) -> Vec<String> {
    let items = value.list(expected).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| Some(item.text("a text")?.to_owned()))
        .collect()
}

fn headers_of(value: &Value) -> Vec<(String, String)> {
    let expected = "a header such as \"Host: www.example.com\"";
    let items = value.list(expected).unwrap_or_default();
    let header = |text: &str| {
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| format!("expected {expected}"))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    items
        .iter()
        .filter_map(|item| item.parsed(expected, header))
        .collect()
}

#[cfg(test)]
mod tests;
