//! The profiles beside the raw data, and what they say in words.
//!
//! In the Markdown, graphs stay separate files; the HTML contains them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::ReportError;
use super::number;
use crate::profile::{self, Calls, Finding, ProfileSummary, TargetProfile};

/// A profile with its graphs.
pub(super) struct Profile {
    pub(super) summary: ProfileSummary,
    /// By file, as `profiles/NAME.svg`.
    graphs: BTreeMap<String, Graph>,
}

/// A flame graph.
pub(super) struct Graph {
    pub(super) text: String,
    /// Pixels.
    pub(super) height: u32,
}

impl Profile {
    pub(super) fn graph(&self, file: &str) -> Option<&Graph> {
        self.graphs.get(file)
    }
}

/// The profiles of the run in `directory`, in the order of their file names; none when it was not profiled.
pub(super) fn read(directory: &Path) -> Result<Vec<Profile>, ReportError> {
    let Ok(entries) = fs::read_dir(directory.join(profile::DIRECTORY)) else {
        return Ok(Vec::new());
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.sort();
    let profiles = paths.iter().map(|path| {
        let bad = |problem: String| ReportError::Profile(path.clone(), problem);
        let text = fs::read(path).map_err(|error| bad(error.to_string()))?;
        let summary: ProfileSummary =
            serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        let files = summary
            .targets
            .iter()
            .flat_map(graphs)
            .map(|(_, file)| file);
        let graphs =
            files.filter_map(|file| Some((file.clone(), read_graph(&directory.join(file))?)));
        Ok(Profile {
            graphs: graphs.collect(),
            summary,
        })
    });
    profiles.collect()
}

/// A graph that was removed from the directory is missing in the report as well.
fn read_graph(path: &Path) -> Option<Graph> {
    let text = fs::read_to_string(path).ok()?;
    let (_, height) = text.split_once(" height=\"")?;
    let (height, _) = height.split_once('"')?;
    let height = height.parse().ok()?;
    Some(Graph { text, height })
}

/// Topics and files, as `profiles/NAME.svg`. A name that leads out of the directory is left out.
pub(super) fn graphs(target: &TargetProfile) -> Vec<(&'static str, String)> {
    let mut graphs = Vec::new();
    if let Finding::Measured(cpu) = &target.cpu {
        graphs.push(("CPU flame graph", &cpu.graph));
    }
    if let Finding::Measured(waits) = &target.waits {
        graphs.push(("Off-CPU flame graph", &waits.graph));
    }
    let inside = graphs.into_iter().filter(|(_, file)| {
        let name = Path::new(file).file_name();
        name.is_some_and(|name| name == file.as_str())
    });
    inside
        .map(|(topic, file)| (topic, format!("{}/{file}", profile::DIRECTORY)))
        .collect()
}

/// What was profiled, and what not to conclude from it.
pub(super) fn introduction(summary: &ProfileSummary) -> String {
    format!(
        "{} requests in {} s. A profile slows down what it looks at: compare shares and counts, not rates.",
        number::count(summary.requests),
        number::figure(summary.seconds)
    )
}

/// What was found about a service: topic and finding, or why there is none.
pub(super) fn lines(target: &TargetProfile) -> Vec<(&'static str, String)> {
    let cpu = in_words(&target.cpu, |cpu| {
        format!(
            "{} s; {}",
            number::figure(cpu.seconds),
            shares(&cpu.hottest)
        )
    });
    let waits = in_words(&target.waits, |waits| {
        let kinds = waits.by_kind.iter();
        let kinds = kinds.map(|(kind, seconds)| format!("{kind} {} s", number::figure(*seconds)));
        let kinds: Vec<String> = kinds.collect();
        format!(
            "thread time in {} s: {}",
            number::figure(waits.seconds),
            kinds.join(", ")
        )
    });
    vec![
        ("On the CPU", cpu),
        ("Off the CPU", waits),
        (
            "System calls per request",
            in_words(&target.system_calls, calls),
        ),
        (
            "Allocations per request",
            in_words(&target.allocations, calls),
        ),
    ]
}

fn in_words<T>(finding: &Finding<T>, say: impl Fn(&T) -> String) -> String {
    match finding {
        Finding::Measured(found) => say(found),
        Finding::Unavailable(why) => format!("not measured: {why}"),
    }
}

fn shares(shares: &[(String, f64)]) -> String {
    let shares = shares
        .iter()
        .map(|(name, share)| format!("{name} {} %", number::figure(share * 100.0)));
    shares.collect::<Vec<_>>().join(", ")
}

fn calls(calls: &Calls) -> String {
    let names = calls
        .by_name
        .iter()
        .map(|(name, count)| format!("{name} {}", number::figure(*count)));
    let names: Vec<String> = names.collect();
    let names = if names.is_empty() {
        String::new()
    } else {
        format!(": {}", names.join(", "))
    };
    format!(
        "{}{names} ({})",
        number::figure(calls.per_request),
        calls.method
    )
}
