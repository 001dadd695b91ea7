//! `weir lab run` and `weir lab report`.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use weir_lab::LabError;
use weir_lab::blocks::Ends;
use weir_lab::experiment::{self, Event, Options};
use weir_lab::raw::{Block, Run};
use weir_lab::scenario::Scenario;

use super::summary;
use crate::config;

/// How many directory names are tried for a run without `--out`.
const DIRECTORIES_MAX: usize = 10_000;

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// A name from `weir lab list`, or the path of a scenario file.
    #[arg(value_name = "NAME|FILE")]
    scenario: String,
    /// Measure for three minutes at most.
    #[arg(long)]
    quick: bool,
    /// How often each configuration is measured, instead of what the scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Profile each configuration once more afterwards: flame graphs, waits, system calls, allocations.
    #[arg(long)]
    profile: bool,
    /// Where raw data and report go [default: lab-NAME, with a number if that exists].
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    let scenario = config::scenario::open(&args.scenario)?;
    let lab = super::open()?;
    let directory = directory(args, &scenario)?;
    let options = Options {
        is_quick: args.quick,
        rounds: args.rounds.map(usize::from),
        command: again(),
        seed: fastrand::u64(..),
    };
    eprintln!("{}: {}", scenario.name, scenario.title);
    let mut progress = Progress::default();
    let run = experiment::run(&lab, &scenario, &options, &mut |event| {
        progress.tell(&event);
        keep(&event, &directory)
    })?;
    run.write(&directory)?;
    let profiled = if args.profile && run.failure.is_none() {
        experiment::profile(&lab, &scenario, &run, &directory, &mut |rung| {
            let _ = tell(&format!("profile of {rung}"));
        })
    } else {
        Ok(())
    };
    drop(lab);
    print!("{}", summary::of(&run));
    report(&directory)?;
    profiled?;
    ensure_complete(&run)
}

/// Writes the raw data so far as soon as a block is measured.
pub(super) fn keep(event: &Event<'_>, directory: &Path) -> Result<(), LabError> {
    let Event::Measured(run) = event else {
        return Ok(());
    };
    std::fs::create_dir_all(directory)
        .map_err(|cause| LabError::System(format!("make {}", directory.display()), cause))?;
    Ok(run.write(directory)?)
}

/// Fails for a run that was ended early: it has not done what was asked.
pub(super) fn ensure_complete(run: &Run) -> anyhow::Result<()> {
    let measured = run.blocks.len();
    if let Some(failure) = &run.failure {
        anyhow::bail!("{failure}; what there is rests on {measured} blocks");
    }
    anyhow::ensure!(
        !run.is_interrupted,
        "ended early; what there is rests on {measured} blocks"
    );
    Ok(())
}

pub(super) fn report(directory: &Path) -> anyhow::Result<()> {
    let written = weir_lab::report::write(directory)?;
    println!(
        "\n{}\n{}",
        written.markdown.display(),
        written.html.display()
    );
    Ok(())
}

/// The command that runs it again. Results of another run are not written into the same directory, so it goes without `--out`.
pub(super) fn again() -> Vec<String> {
    let typed = std::env::args_os().skip(1);
    let mut typed = typed.map(|word| word.to_string_lossy().into_owned());
    let mut command = vec!["weir".to_owned()];
    while let Some(word) = typed.next() {
        if word == "--out" {
            typed.next();
        } else if !word.starts_with("--out=") {
            command.push(word);
        }
    }
    command
}

/// The directory of the run. It is checked to be writable before minutes are spent on measuring.
fn directory(args: &RunArgs, scenario: &Scenario) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.out {
        return writable(path);
    }
    let named = |number: usize| match number {
        1 => PathBuf::from(format!("lab-{}", scenario.name)),
        _ => PathBuf::from(format!("lab-{}-{number}", scenario.name)),
    };
    let mut free = (1..DIRECTORIES_MAX)
        .map(named)
        .filter(|path| !path.exists());
    writable(&free.next().context("choose a directory with --out")?)
}

/// Fails when no run can be kept at `path`. It leaves nothing behind, so a run that is killed early has
/// no directory.
pub(super) fn writable(path: &Path) -> anyhow::Result<PathBuf> {
    let raw = path.join(weir_lab::raw::FILE);
    anyhow::ensure!(
        !raw.exists(),
        "{} is there already; choose another --out",
        raw.display()
    );
    if !path.is_dir() {
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let made = parent.map_or(Ok(()), std::fs::create_dir_all);
        let made = made
            .and_then(|()| std::fs::create_dir(path))
            .and_then(|()| std::fs::remove_dir(path));
        made.with_context(|| format!("cannot make {}", path.display()))?;
    }
    Ok(path.to_owned())
}

/// One line for each block on standard error.
#[derive(Debug, Default)]
pub(super) struct Progress {
    blocks: usize,
}

impl Progress {
    pub(super) fn tell(&mut self, event: &Event<'_>) {
        let line = match event {
            Event::LeftOut(left_out) => {
                format!("left out: {}: {}", left_out.configuration, left_out.why)
            }
            Event::Begins(blocks) => {
                self.blocks = *blocks;
                format!("{blocks} blocks")
            }
            Event::Measured(run) => {
                let line = run.blocks.last().map(line).unwrap_or_default();
                format!("{:>5}/{} {line}", run.blocks.len(), self.blocks)
            }
        };
        let _ = tell(&line);
    }
}

/// Prints a line. If nobody reads it, the run must still end in order.
fn tell(line: &str) -> io::Result<()> {
    io::Write::write_all(&mut io::stderr(), format!("{line}\n").as_bytes())
}

fn line(block: &Block) -> String {
    let Block {
        configuration,
        load,
        rate,
        ..
    } = block;
    let mut line = format!("{configuration:28} {load:32} {rate:>9.0} answers/s");
    if let (Some(p50), Some(p99)) = (block.latency_us.get("p50"), block.latency_us.get("p99")) {
        let [p50, p99] = [p50, p99].map(|us| us / 1000.0);
        let _ = write!(line, "   p50 {p50:>8.2} ms   p99 {p99:>8.2} ms");
    }
    line + &reservations(block)
}

/// Reservations about the figures of a block; empty when there are none.
pub(super) fn reservations(block: &Block) -> String {
    let mut text = String::new();
    let ends = Ends::of([block]);
    if !ends.failed.is_empty() {
        let _ = write!(text, "   {}", ends.in_words());
    }
    if !block.is_valid {
        let _ = write!(text, "   not valid: {}", block.why_invalid);
    }
    text
}
