//! What a run found, for a terminal: a table for each load and a sentence for each rung.

use std::fmt::Write as _;

use weir_lab::raw::{Block, Run};
use weir_lab::statistics::{self, Bars, RATE};

/// The same raw data gives the same text.
const SEED: u64 = 1;

/// A table for each load, and how each rung compares with the first of its group.
pub(super) fn of(run: &Run) -> String {
    let mut text = String::new();
    for load in &run.loads {
        text.push_str(&table(run, &load.name));
        for configuration in &run.configurations {
            let baseline = baseline(run, &configuration.group);
            if configuration.name != baseline
                && let Some(sentence) = sentence(run, baseline, &configuration.name, &load.name)
            {
                let _ = writeln!(text, "  {sentence}");
            }
        }
    }
    text
}

/// What the rungs of a group are compared with: the baseline if it is one of them, else the first.
fn baseline<'r>(run: &'r Run, group: &str) -> &'r str {
    let mut of_group = run.configurations.iter().filter(|it| it.group == group);
    let first = of_group.clone().next();
    let named = of_group.find(|it| it.name == run.baseline);
    named.or(first).map_or("", |it| &it.name)
}

/// The rungs under one load: medians of the blocks that count. Where none does, the generator was the limit, and the
/// figures are marked as the least that the rung can do.
pub(super) fn table(run: &Run, load: &str) -> String {
    let names = run
        .configurations
        .iter()
        .map(|configuration| configuration.name.chars().count());
    let width = names.max().unwrap_or(0);
    let mut text = format!(
        "\n{load}\n  {:width$}  {:>10}  {:>9}  {:>9}  {:>12}\n",
        "", "req/s", "p50 ms", "p99 ms", "CPU µs/req"
    );
    let mut is_any_marked = false;
    for configuration in &run.configurations {
        let (blocks, are_valid) = blocks(run, &configuration.name, load);
        is_any_marked |= !are_valid;
        let median = |value: &dyn Fn(&Block) -> Option<f64>| {
            let values: Vec<f64> = blocks.iter().filter_map(|block| value(block)).collect();
            statistics::median(&values)
        };
        let ms =
            |name: &'static str| median(&move |block| Some(block.latency_us.get(name)? / 1000.0));
        let rate = shown(median(&|block| Some(block.rate)), 0);
        let _ = writeln!(
            text,
            "  {:width$}  {:>10}  {:>9}  {:>9}  {:>12}",
            configuration.name,
            if are_valid {
                rate
            } else {
                format!("≥ {rate}")
            },
            shown(ms("p50"), 2),
            shown(ms("p99"), 2),
            shown(median(&|block| cpu_us(block, &configuration.entry)), 1),
        );
    }
    if is_any_marked {
        text.push_str("  ≥: the generator was the limit, not the service\n");
    }
    text
}

/// How a rung compares with the baseline.
fn sentence(run: &Run, baseline: &str, name: &str, load: &str) -> Option<String> {
    let (base, is_base_valid) = blocks(run, baseline, load);
    let (other, are_valid) = blocks(run, name, load);
    let pairs: Vec<(f64, f64)> = base
        .iter()
        .filter_map(|a| Some((a.rate, other.iter().find(|b| b.round == a.round)?.rate)))
        .collect();
    let rng = &mut fastrand::Rng::with_seed(SEED);
    let found = statistics::compare(&pairs, Bars::USUAL, rng)?;
    let at_least = if are_valid { "" } else { "at least: " };
    let sentence = format!(
        "{at_least}{} (than {})",
        found.in_words(name, RATE),
        baseline
    );
    is_base_valid.then_some(sentence)
}

/// The blocks of a rung that count; if none does, all of them and `false`.
fn blocks<'r>(run: &'r Run, configuration: &str, load: &str) -> (Vec<&'r Block>, bool) {
    let is_meant = |block: &&Block| block.configuration == configuration && block.load == load;
    let (valid, invalid): (Vec<_>, Vec<_>) = run
        .blocks
        .iter()
        .filter(is_meant)
        .partition(|block| block.is_valid);
    if valid.is_empty() && !invalid.is_empty() {
        (invalid, false)
    } else {
        (valid, true)
    }
}

fn cpu_us(block: &Block, service: &str) -> Option<f64> {
    block
        .services
        .iter()
        .find(|usage| usage.name == service)?
        .cpu_us_per_request
}

fn shown(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(|| "–".to_owned(), |number| format!("{number:.digits$}"))
}
