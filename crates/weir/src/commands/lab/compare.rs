//! `weir lab compare`: two targets, or two commands, and which is better.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use weir_lab::compare::{self, Found, Metric, NAMES, Plan};
use weir_lab::raw::Block;
use weir_lab::scenario::Kind;
use weir_lab::statistics::{self, CPU_TIME, LATENCY, RATE};

use super::target::{LoadArgs, Target};

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// The URL of a running target; with --command, a shell command that starts a server on {port}.
    #[arg(value_name = "A")]
    a: String,
    /// What it is compared with.
    #[arg(value_name = "B")]
    b: String,
    /// A and B are commands: each block starts its own process.
    #[arg(long)]
    command: bool,
    /// What commands are asked; URLs bring their own.
    #[arg(long, value_name = "PATH", default_value = "/", requires = "command")]
    path: String,
    /// How many times blocks go A B B A; as often, A is compared with itself first.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=1000))]
    repeats: u16,
    /// The least difference of interest, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    minimum: f64,
    /// Writes all that was measured, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    load: LoadArgs,
}

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let (targets, path) = if args.command {
        commands(args)?
    } else {
        running(args)?
    };
    anyhow::ensure!(
        args.minimum.is_finite() && args.minimum >= 0.0,
        "--minimum: expected a number of percent that is not negative"
    );
    let plan = Plan {
        targets,
        load: args.load.load(&path)?,
        repeats: usize::from(args.repeats),
        warm_up: args.load.warm_up,
        minimum: args.minimum / 100.0,
        seed: fastrand::u64(..),
    };
    let lab = super::open()?;
    let mut measured = 0;
    let found = compare::run(&lab, &plan, &mut |block, of| {
        measured += 1;
        tell(measured, of, block);
    })?;
    drop(lab);
    print!("{}", in_words(&found));
    if let Some(path) = &args.json {
        let text = serde_json::to_vec_pretty(&found.blocks)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn running(args: &CompareArgs) -> anyhow::Result<([Kind; 2], String)> {
    let [a, b] = [Target::parse(&args.a)?, Target::parse(&args.b)?];
    anyhow::ensure!(
        a.path == b.path,
        "both are asked the same: {:?} is not {:?}; give both URLs the same path",
        a.path,
        b.path
    );
    a.probe()?;
    b.probe()?;
    let path = a.path.clone();
    let kinds = [a, b].map(|target| Kind::Running {
        address: target.where_to(),
        authority: target.authority,
    });
    Ok((kinds, path))
}

fn commands(args: &CompareArgs) -> anyhow::Result<([Kind; 2], String)> {
    for line in [&args.a, &args.b] {
        anyhow::ensure!(
            line.contains("{port}"),
            "{line:?}: expected {{port}} where the command is told its port"
        );
    }
    let kinds = [&args.a, &args.b].map(|line| Kind::Command { line: line.clone() });
    Ok((kinds, args.path.clone()))
}

fn tell(measured: usize, of: usize, block: &Block) {
    let what = if measured <= of / 2 {
        "A against itself"
    } else {
        block.configuration.as_str()
    };
    let _ = writeln!(
        std::io::stderr(),
        "{measured:>4}/{of} {what:16} {:>9.0} req/s",
        block.rate
    );
}

fn in_words(found: &Found) -> String {
    let mut lines: Vec<String> = NAMES.iter().map(|name| figures(found, name)).collect();
    let noise = found.noise.get(Metric::Rate);
    let noise = noise.map_or_else(not_known, |it| it.in_words("the second", RATE));
    lines.push(format!("noise: A against itself: {noise}"));
    if let Some(bars) = found.bars.get(&Metric::Rate) {
        let bar = bars.higher() * 100.0;
        lines.push(format!("so rates are called different from {bar:.1} % on"));
    }
    for (metric, label, b, wording) in [
        (Metric::Rate, "rate", "B", RATE),
        (Metric::CpuTime, "CPU", "B", CPU_TIME),
        (Metric::Median, "p50", "p50 of B", LATENCY),
        (Metric::Percentile99, "p99", "p99 of B", LATENCY),
    ] {
        let words = found.differences.get(metric);
        let words = words.map_or_else(not_known, |it| it.in_words(b, wording));
        lines.push(format!("{label}: {words}"));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn not_known() -> String {
    "not known".to_owned()
}

/// Medians of one of the two.
fn figures(found: &Found, name: &str) -> String {
    let blocks = second_half(found, name);
    let median = |metric: Metric| {
        let values: Vec<f64> = blocks.iter().filter_map(|block| metric.of(block)).collect();
        statistics::median(&values)
    };
    let rate = median(Metric::Rate).unwrap_or(0.0);
    let cpu = median(Metric::CpuTime).map_or_else(
        || "CPU time unknown".to_owned(),
        |us| format!("{us:.1} µs CPU per request"),
    );
    format!("{name}: {rate:.0} requests/s, {cpu}")
}

fn second_half<'f>(found: &'f Found, name: &str) -> Vec<&'f Block> {
    let blocks = found.blocks[found.blocks.len() / 2..].iter();
    blocks.filter(|block| block.configuration == name).collect()
}
