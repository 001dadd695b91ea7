//! `weir lab`: scenarios, comparisons and ladders, measured with processes that the laboratory starts and stops itself.
//!
//! This knows flags, files, signals and words for a terminal; weir-lab knows what is measured and how. Two hidden
//! commands, [`JanitorArgs`] and [`StartArgs`], are the other ends of its pipes.

mod compare;
mod interrupt;
mod ladder;
mod run;
mod summary;
mod target;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use weir_lab::services::{Lab, janitor, process};

use super::signals::Signals;
use crate::config;

/// Run services under a ladder of configurations, compare, and report what helped.
#[derive(Debug, clap::Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LabCommand {
    /// List the scenarios that come with weir.
    List,
    /// Run a scenario and write its report.
    Run(run::RunArgs),
    /// Write the report of a run again, from its raw data.
    Report {
        /// The directory of the run.
        directory: PathBuf,
    },
    /// Compare two running targets, or two commands.
    Compare(compare::CompareArgs),
    /// Put weir in front of a running service, step by step, and say what each step gave.
    Ladder(ladder::LadderArgs),
}

pub(crate) fn run(args: LabArgs) -> anyhow::Result<()> {
    match args.command {
        LabCommand::List => list(),
        LabCommand::Run(args) => run::run(&args),
        LabCommand::Report { directory } => run::report(&directory),
        LabCommand::Compare(args) => compare::run(&args),
        LabCommand::Ladder(args) => ladder::run(&args),
    }
}

fn list() -> anyhow::Result<()> {
    for (name, _) in weir_lab::scenario::BUILT_IN {
        let scenario = config::scenario::open(name)?;
        println!("{name:16} {}", scenario.title);
    }
    println!("\n`weir lab run NAME`, or `weir lab run ./FILE.toml` with a scenario of your own");
    Ok(())
}

/// A laboratory that runs this program, and a flag that becomes true when the user wants to end.
fn open() -> anyhow::Result<Lab> {
    let weir = std::env::current_exe().context("cannot find the program that is running")?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::listen(&stop)?;
    raise_open_files()?;
    Ok(Lab::open(weir, cache(), stop, fastrand::Rng::new())?)
}

/// Raises the limit of open files, which the generator and the services inherit.
fn raise_open_files() -> anyhow::Result<()> {
    let (soft, hard) = rlimit::Resource::NOFILE.get()?;
    if soft < hard {
        rlimit::Resource::NOFILE.set(hard, hard)?;
    }
    Ok(())
}

/// The cache directory of the XDG base directory specification: its files can be made again.
fn cache() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|path| Path::new(path).is_absolute());
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("weir/lab")
}

/// The process that cleans up behind a laboratory.
#[derive(Debug, clap::Args)]
pub(crate) struct JanitorArgs {}

pub(crate) fn run_janitor(_: &JanitorArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // The signals are caught and ignored: the janitor ends with its pipe.
    let _deaf = runtime.block_on(async { Signals::listen() })?;
    janitor::keep_house(io::stdin().lock());
    Ok(())
}

/// The process that turns into a service of a laboratory.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// The file of the members of a cgroup.
    #[arg(long)]
    join: Option<PathBuf>,
    /// Program and arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub(crate) fn run_start(args: &StartArgs) -> anyhow::Result<()> {
    let (program, arguments) = args.command.split_first().context("expected a program")?;
    let error = process::become_program(args.join.as_deref(), program, arguments);
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
