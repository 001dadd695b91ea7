//! The findings of a run, for a terminal: a table for each load and a sentence for each rung.

use std::fmt::Write as _;

use weir_lab::blocks::{self, Ends};
use weir_lab::raw::{Block, Configuration, Run};
use weir_lab::statistics::{self, Bars, PAIRS_MIN, RATE};

/// A fixed seed: the same raw data gives the same text.
const SEED: u64 = 1;

/// A table for each load, and how each rung compares with the first of its group.
pub(super) fn of(run: &Run) -> String {
    let mut text = String::new();
    for load in &run.loads {
        text.push_str(&table(run, &load.name));
        for configuration in &run.configurations {
            let baseline = baseline(run, &configuration.group);
            if configuration.name != baseline {
                let sentence = sentence(run, baseline, &configuration.name, &load.name);
                let _ = writeln!(text, "  {sentence}");
            }
        }
    }
    text + &not_valid(run)
}

/// The blocks that do not count, with reasons, below an empty line; empty when all count.
pub(super) fn not_valid(run: &Run) -> String {
    let mut text = String::new();
    for (index, line) in blocks::not_valid(&run.blocks).iter().enumerate() {
        let _ = writeln!(text, "{}{line}", if index == 0 { "\n" } else { "" });
    }
    text
}

/// The rung that others of a group are compared with: the baseline if it is in the group, else the first.
fn baseline<'r>(run: &'r Run, group: &str) -> &'r str {
    let mut of_group = run.configurations.iter().filter(|it| it.group == group);
    let first = of_group.clone().next();
    let named = of_group.find(|it| it.name == run.baseline);
    named.or(first).map_or("", |it| &it.name)
}

/// The rungs under one load: medians of the valid blocks, and how many requests failed. A rung without valid blocks
/// stands in brackets.
pub(super) fn table(run: &Run, load: &str) -> String {
    let names = run.configurations.iter();
    let width = names.map(|it| it.name.chars().count()).max().unwrap_or(0);
    let mut text = format!(
        "\n{load}\n  {:width$}  {:>10}  {:>9}  {:>9}  {:>9}  {:>13}  of which\n",
        "", "answers/s", "p50 ms", "p99 ms", "failed", "CPU µs/answer"
    );
    let mut is_any_in_brackets = false;
    for configuration in &run.configurations {
        let name = &configuration.name;
        let (blocks, are_valid) = blocks::counted(&run.blocks, name, load);
        is_any_in_brackets |= !are_valid && !blocks.is_empty();
        let called = |service: &str| called(configuration, service);
        let parts = blocks::parts_in_words(&blocks, called);
        let parts = parts.map_or(String::new(), |parts| format!("  {parts}"));
        let [rate, p50, p99, failed, cpu] = figures(&blocks).map(|figure| match figure {
            Some(figure) if are_valid => figure,
            Some(figure) => format!("({figure})"),
            None => "–".to_owned(),
        });
        let _ = writeln!(
            text,
            "  {name:width$}  {rate:>10}  {p50:>9}  {p99:>9}  {failed:>9}  {cpu:>13}{parts}"
        );
    }
    if is_any_in_brackets {
        text.push_str("  (…): no block is valid, these are not the figures of the service\n");
    }
    text
}

/// A gateway by what it is, since each rung may have one of its own; all else by its name.
fn called(configuration: &Configuration, service: &str) -> String {
    let mut services = configuration.services.iter();
    let is_weir = services.any(|it| it.name == service && it.kind == "weir");
    if is_weir { "weir" } else { service }.to_owned()
}

/// The columns of the table: medians, and the share of requests that failed. CPU time is that of all services between the
/// client and the answer.
fn figures(blocks: &[&Block]) -> [Option<String>; 5] {
    let median = |digits: usize, value: &dyn Fn(&Block) -> Option<f64>| {
        let values: Vec<f64> = blocks.iter().filter_map(|block| value(block)).collect();
        statistics::median(&values).map(|number| format!("{number:.digits$}"))
    };
    let ms = |name: &str| median(2, &|block| Some(block.latency_us.get(name)? / 1000.0));
    let failed = Ends::of(blocks.iter().copied()).share_in_words();
    [
        median(0, &|block| Some(block.rate)),
        ms("p50"),
        ms("p99"),
        (!blocks.is_empty()).then_some(failed),
        median(1, &blocks::cpu_us_per_answer),
    ]
}

/// How a rung compares with the baseline, in the rounds in which both were valid.
fn sentence(run: &Run, baseline: &str, name: &str, load: &str) -> String {
    let pairs = blocks::pairs_of_rates(&run.blocks, load, [baseline, name]);
    let rng = &mut fastrand::Rng::with_seed(SEED);
    match statistics::compare(&pairs, Bars::USUAL, rng) {
        Some(found) => found.in_words([baseline, name], RATE),
        None => format!(
            "{name}: nothing can be said against {baseline}: rounds valid in both {}, needed {PAIRS_MIN}",
            pairs.len()
        ),
    }
}
