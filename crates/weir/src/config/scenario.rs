//! Scenario files of `weir lab`: the same TOML, the same complaints.
//!
//! The keys stand here in the order in which a person reads such a file; what they mean is in weir-lab's `scenario`.

mod load;
mod service;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;
use weir_lab::raw::Published;
use weir_lab::scenario::{BUILT_IN, Configuration, Effort, Events, Part, Scenario};

use super::error::{ConfigError, Report};
use super::read::Table;
use super::suggest::{did_you_mean, nearest, one_of, quoted};
use super::syntax;
use super::units;
use super::value::Value;

const ROUNDS: RangeInclusive<u64> = 1..=1000;
const THREADS: RangeInclusive<u64> = 1..=255;
const DURATION: RangeInclusive<Duration> = units::ABOVE_ZERO..=Duration::from_secs(3600);
const WARM_UP: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
/// A share of one CPU; a service may use several.
const CPU_SHARE: RangeInclusive<f64> = 0.01..=1024.0;
/// Requests a second.
const CAPACITY: RangeInclusive<f64> = 0.001..=1e9;
const GENERATOR_CPUS: RangeInclusive<u64> = 0..=256;
const FIGURE: RangeInclusive<f64> = 0.0..=1e12;
const EVENTS_EXAMPLE: &str = "events = { from = \"app\", to = \"logs\" }";
/// How long events may take to be handled after a load.
const EVENTS_PATIENCE: Duration = Duration::from_secs(60);

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
    let of_key = |key: &str| {
        let at = root.get(key).map_or(0, |value| value.span().start);
        (at, key.to_owned())
    };
    let (list, index) = match part {
        Part::Baseline => return of_key("baseline"),
        Part::Events => return of_key("events"),
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
    let events = root.section("events", EVENTS_EXAMPLE).map(events);
    let generator_cpus = root.optional("generator_cpus");
    let generator_cpus = generator_cpus.and_then(|value| value.integer(GENERATOR_CPUS));
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
    let loads = loads.into_iter().map(load::load).collect();
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
        events,
        generator_cpus: generator_cpus.unwrap_or_default() as usize,
        columns,
        effort: normal,
        quick: quick.unwrap_or(normal),
        published,
    }
}

fn events(mut table: Table) -> Events {
    let from = text(&mut table, "from", "the service that makes events");
    let to = text(&mut table, "to", "the service that handles them");
    let patience = table.optional("patience");
    let patience = patience.and_then(|value| value.duration(&DURATION));
    table.finish();
    Events {
        from,
        to,
        patience: patience.unwrap_or(EVENTS_PATIENCE),
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
    let flags = table.section("flags", "flags = { app = [\"--delay\", \"5ms\"] }");
    let flags = flags.map_or_else(BTreeMap::new, |flags| {
        let flags = flags.entries().into_iter();
        flags
            .map(|(name, value)| (name.to_owned(), texts(&value, "flags of `weir app`")))
            .collect()
    });
    let needs = table.optional("needs");
    let needs = needs
        .and_then(|value| value.text("a config key of weir"))
        .map(str::to_owned);
    let with = free_texts(&mut table, "with");
    let is_led = table.optional("led");
    let is_led = is_led.and_then(|value| value.boolean());
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
        flags,
        notes,
        with,
        needs,
        is_led: is_led.unwrap_or_default(),
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
