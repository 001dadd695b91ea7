//! What a run found, for a terminal: a table for each load and a sentence for each rung.

use std::fmt::Write as _;

use weir_lab::raw::{Block, Run};
use weir_lab::statistics::{self, MINIMUM_OF_INTEREST, RATE};

/// The same raw data gives the same text.
const SEED: u64 = 1;

/// A table for each load, and how each rung compares with the baseline.
pub(super) fn of(run: &Run) -> String {
    let mut text = String::new();
    for load in &run.loads {
        text.push_str(&table(run, &load.name));
        for configuration in run.configurations.iter().filter(|it| it.name != run.baseline) {
            if let Some(sentence) = sentence(run, &configuration.name, &load.name) {
                let _ = writeln!(text, "  {sentence}");
            }
        }
    }
    text
}

/// The rungs under one load: medians of the blocks that count.
pub(super) fn table(run: &Run, load: &str) -> String {
    let names = run.configurations.iter().map(|configuration| configuration.name.chars().count());
    let width = names.max().unwrap_or(0);
    let mut text = format!(
        "\n{load}\n  {:width$}  {:>10}  {:>9}  {:>9}  {:>12}\n",
        "", "req/s", "p50 ms", "p99 ms", "CPU µs/req"
    );
    for configuration in &run.configurations {
        let blocks = blocks(run, &configuration.name, load);
        let median = |value: &dyn Fn(&Block) -> Option<f64>| {
            let values: Vec<f64> = blocks.iter().filter_map(|block| value(block)).collect();
            statistics::median(&values)
        };
        let ms = |name: &'static str| median(&move |block| Some(block.latency_us.get(name)? / 1000.0));
        let _ = writeln!(
            text,
            "  {:width$}  {:>10}  {:>9}  {:>9}  {:>12}",
            configuration.name,
            shown(median(&|block| Some(block.rate)), 0),
            shown(ms("p50"), 2),
            shown(ms("p99"), 2),
            shown(median(&|block| cpu_us(block, &configuration.entry)), 1),
        );
    }
    text
}

/// How a rung compares with the baseline.
fn sentence(run: &Run, name: &str, load: &str) -> Option<String> {
    let (base, other) = (blocks(run, &run.baseline, load), blocks(run, name, load));
    let pairs: Vec<(f64, f64)> = base
        .iter()
        .filter_map(|a| Some((a.rate, other.iter().find(|b| b.round == a.round)?.rate)))
        .collect();
    let found = statistics::compare(&pairs, MINIMUM_OF_INTEREST, &mut fastrand::Rng::with_seed(SEED))?;
    Some(format!("{} (than {})", found.in_words(name, RATE), run.baseline))
}

fn blocks<'r>(run: &'r Run, configuration: &str, load: &str) -> Vec<&'r Block> {
    let blocks = run.blocks.iter().filter(|block| block.configuration == configuration);
    blocks.filter(|block| block.load == load && block.is_valid).collect()
}

fn cpu_us(block: &Block, service: &str) -> Option<f64> {
    block.services.iter().find(|usage| usage.name == service)?.cpu_us_per_request
}

fn shown(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(|| "–".to_owned(), |number| format!("{number:.digits$}"))
}
