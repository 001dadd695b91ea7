//! `weir lab ladder`: weir in front of a user's own service, one step at a time.

use std::path::PathBuf;

use anyhow::Context as _;
use weir_lab::experiment::{self, Options};
use weir_lab::ladder::{self, Ladder, Replica, Step};
use weir_lab::scenario::Effort;

use super::run::{Progress, again, ensure_complete, keep, report, writable};
use super::summary;
use super::target::{LoadArgs, Target};

#[derive(Debug, clap::Args)]
pub(crate) struct LadderArgs {
    /// The URL of the service; repeat it for replicas, the first one is asked directly too.
    #[arg(long, value_name = "URL", required = true)]
    to: Vec<String>,
    /// Answers may be kept as far as the service's own headers allow it.
    #[arg(long)]
    cache: bool,
    /// How often each rung is measured.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=1000))]
    rounds: u16,
    /// Where raw data, report and the config to keep go.
    #[arg(long, value_name = "DIRECTORY", default_value = "lab-ladder")]
    out: PathBuf,
    #[command(flatten)]
    load: LoadArgs,
}

pub(super) fn run(args: &LadderArgs) -> anyhow::Result<()> {
    let targets: Vec<Target> = args
        .to
        .iter()
        .map(|url| Target::parse(url))
        .collect::<anyhow::Result<_>>()?;
    targets.iter().try_for_each(Target::probe)?;
    let replicas = targets.iter().map(|target| Replica {
        address: target.where_to(),
        authority: target.authority.clone(),
        server: target.authority.clone(),
    });
    let ladder = Ladder {
        replicas: replicas.collect(),
        load: args.load.load(&targets[0].path)?,
        may_cache: args.cache,
        effort: Effort {
            rounds: usize::from(args.rounds),
            warm_up: args.load.warm_up,
        },
    };
    let out = writable(&args.out)?;
    let lab = super::open()?;
    let options = Options {
        is_quick: false,
        rounds: None,
        command: again(),
        seed: fastrand::u64(..),
    };
    let mut progress = Progress::default();
    let run = experiment::run(&lab, &ladder.scenario(), &options, &mut |event| {
        progress.tell(&event);
        keep(&event, &out)
    });
    drop(lab);
    let run = run?;
    run.write(&out)?;
    print!(
        "{}{}",
        summary::table(&run, &run.loads[0].name),
        summary::not_valid(&run)
    );
    let steps = ladder::steps(&run);
    let kept = ladder.to_keep(&run);
    let mut findings: Vec<String> = steps.iter().map(Step::in_words).collect();
    if let Some(kept) = &kept
        && steps.first().is_some_and(|step| step.name != kept.name)
    {
        // No step but the first is measured against the service alone.
        findings.push(format!("in all: {}", kept.in_words()));
    }
    println!();
    for finding in &findings {
        println!("{finding}");
    }
    report(&out)?;
    ensure_complete(&run)?;
    let kept = kept.context(
        "no rung is worth keeping: fewer than two of its rounds are valid, or more of its requests failed than of those to the service",
    )?;
    let path = out.join("weir.toml");
    std::fs::write(&path, ladder.config_of(&kept.name, &findings))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!(
        "{path}: {:?}; keep it with `weir serve --config {path}`",
        kept.name,
        path = path.display()
    );
    Ok(())
}
