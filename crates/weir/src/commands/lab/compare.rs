//! `weir lab compare`: two targets, or two commands, and which is better.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_lab::LabError;
use weir_lab::blocks::{self, Ends};
use weir_lab::compare::{self, Found, Half, Metric, NAMES, Parts, Plan, Unknown};
use weir_lab::raw::Block;
use weir_lab::scenario::Kind;
use weir_lab::statistics::{
    CPU_TIME, Comparison, Interval, LATENCY, PAIRS_MIN, RATE, Verdict, Wording,
};

use super::run::reservations;
use super::target::{LoadArgs, Target};

/// What is compared, in the order in which it is told.
const METRICS: [(Metric, &str, Wording); 4] = [
    (Metric::Rate, "rate", RATE),
    (Metric::CpuTime, "CPU", CPU_TIME),
    (Metric::Median, "p50", LATENCY),
    (Metric::Percentile99, "p99", LATENCY),
];

/// With more noise than so many percent, no difference is told.
const TELLING_MAX: f64 = 1_000.0;

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
    /// Writes all that was measured, and what it says, as JSON.
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
    let (found, ended) = compare::run(&lab, &plan, &mut |blocks, of| {
        tell(blocks, of);
        let raw = json!({ "blocks": blocks });
        args.json.as_ref().map_or(Ok(()), |path| keep(&raw, path))
    });
    drop(lab);
    if let Some(path) = &args.json {
        keep(&as_json(&found), path)?;
    }
    if !found.blocks.is_empty() {
        print!("{}", in_words(&found));
    }
    Ok(ended?)
}

/// Writes what there is after each block, so it survives however the comparison ends.
fn keep(found: &Value, path: &Path) -> Result<(), LabError> {
    let text = serde_json::to_vec_pretty(found).expect("it is plain data");
    std::fs::write(path, text)
        .map_err(|cause| LabError::System(format!("write {}", path.display()), cause))
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

fn tell(blocks: &[Block], of: usize) {
    let (measured, Some(block)) = (blocks.len(), blocks.last()) else {
        return;
    };
    let what = if measured <= of / 2 {
        "A against itself"
    } else {
        block.configuration.as_str()
    };
    let _ = writeln!(
        std::io::stderr(),
        "{measured:>4}/{of} {what:16} {:>9.0} answers/s{}",
        block.rate,
        reservations(block)
    );
}

fn in_words(found: &Found) -> String {
    let mut lines = blocks::not_valid(&found.blocks);
    if !lines.is_empty() {
        let [same, different] = found.halves.each_ref().map(|half| {
            let (counted, measured) = (half.fours(), half.measured);
            format!("{counted} of {measured}")
        });
        lines.push(format!(
            "what follows rests on the A B B A without them: {same} of A against itself, {different} of B against A"
        ));
    }
    lines.extend(figures(found));
    let noise = found.noise(Metric::Rate);
    let noise = noise.map(|it| it.in_words(["the first", "the second"], RATE));
    let noise = noise.unwrap_or_else(|why| unknown(&why, &found.halves[0]));
    lines.push(format!("noise: A against itself: {noise}"));
    if let Some(bars) = found.bars.get(&Metric::Rate) {
        let bar = bars.higher() * 100.0;
        lines.push(if bar < TELLING_MAX {
            format!("so rates are called different from {bar:.1} % on")
        } else {
            "so no difference between rates can be told".to_owned()
        });
    }
    for (metric, label, wording) in METRICS {
        let words = difference_in_words(found, metric, wording);
        lines.push(format!("{label}: {words}"));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn difference_in_words(found: &Found, metric: Metric, wording: Wording) -> String {
    let difference = found.difference(metric);
    let words = difference.map(|it| it.in_words(NAMES, wording));
    words.unwrap_or_else(|why| unknown(&why, &found.halves[1]))
}

/// What was measured, and what it says: `B` divided by `A`, and the same of A against itself.
fn as_json(found: &Found) -> Value {
    let comparison = |it: &Comparison| {
        let verdict = match it.verdict {
            Verdict::Different => "different",
            Verdict::AlikeEnough => "alike",
            Verdict::CannotTell => "cannot tell",
        };
        let Interval {
            estimate,
            low,
            high,
        } = it.ratio;
        json!({ "ratio": estimate, "low": low, "high": high, "pairs": it.pairs, "verdict": verdict })
    };
    let metrics = METRICS.map(|(metric, label, wording)| {
        let said = json!({
            "found": found.difference(metric).ok().map(comparison),
            "noise": found.noise(metric).ok().map(comparison),
            "words": difference_in_words(found, metric, wording),
        });
        (label.to_ascii_lowercase(), said)
    });
    let metrics: serde_json::Map<String, Value> = metrics.into_iter().collect();
    json!({ "b_against_a": metrics, "blocks": found.blocks })
}

/// Why there is no comparison.
fn unknown(why: &Unknown, half: &Half) -> String {
    match why {
        Unknown::TooFew(fours) => {
            format!("nothing can be said: valid A B B A {fours}, needed {PAIRS_MIN}")
        }
        Unknown::Failures => {
            let [a, b] = half.ends.each_ref().map(Ends::share_in_words);
            format!(
                "not compared: {a} of the requests to A failed and {b} of those to B, and answers alone have latencies"
            )
        }
        Unknown::NoNoise => "nothing can be said: the noise is not known".to_owned(),
        Unknown::NotMeasured => "not known".to_owned(),
    }
}

/// One line for each target: medians, what its CPU time consists of, and how requests ended.
fn figures(found: &Found) -> [String; 2] {
    let half = &found.halves[1];
    let figures = |(name, ends, parts): (&str, &Ends, &Parts)| {
        let Some(rate) = half.median(name, Metric::Rate) else {
            return format!("{name}: nothing that counts was measured");
        };
        let cpu = half.median(name, Metric::CpuTime).map_or_else(
            || "CPU time unknown".to_owned(),
            |us| format!("{us:.1} µs CPU per answer"),
        );
        let called = |service: &str| match service.strip_prefix(name).unwrap_or(service) {
            "" if parts.own.is_empty() => name.to_owned(),
            "" => parts.own.clone(),
            behind => behind.trim_start().to_owned(),
        };
        let consists = half.cpu_parts(name, called).unwrap_or_default();
        let ends = ends.in_words();
        let elsewhere: Vec<String> = parts.elsewhere.iter().map(ToString::to_string).collect();
        let elsewhere = if elsewhere.is_empty() {
            String::new()
        } else {
            format!(", without {} elsewhere", elsewhere.join(" and "))
        };
        format!(
            "{name}: {rate:.0} answers/s, {cpu} ({consists}{elsewhere}); of its requests, {ends}"
        )
    };
    let [a, b] = [0, 1].map(|place| (NAMES[place], &half.ends[place], &found.parts[place]));
    [figures(a), figures(b)]
}
