//! `weir`: one binary in front of an HTTP service under high load.
//!
//! This crate knows flags, config files and signals; the other crates do the work.

mod commands;
mod config;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

/// Returns freed memory to the system within seconds, whichever thread freed it. glibc's allocator does so only for the
/// end of an arena. It serves the C libraries too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A gateway that keeps an overrun HTTP service calm.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway.
    Serve(commands::serve::ServeArgs),
    /// Have a running gateway read its config file again, and say what changed.
    Reload(commands::reload::ReloadArgs),
    /// Validate a config file and say all that is wrong with it.
    Check(commands::check::CheckArgs),
    /// Turn the configuration of another gateway into one of weir.
    Import(commands::import::ImportArgs),
    /// Purge the cache of a running gateway, and see what it holds.
    Cache(commands::cache::CacheArgs),
    /// See and change the servers of a running gateway.
    Upstream(commands::upstream::UpstreamArgs),
    /// See and change the queues of a running gateway.
    Queue(commands::queue::QueueArgs),
    /// Read and write keys of a store.
    Kv(Box<commands::kv::KvArgs>),
    /// Run the sample service.
    #[cfg(feature = "app")]
    App(commands::app::AppArgs),
    /// Put a service under load, and measure what it answers.
    #[cfg(feature = "load")]
    Load(Box<commands::load::LoadArgs>),
    /// Run three replicas of the sample service behind a gateway, and show how it spreads load.
    #[cfg(feature = "demo")]
    Demo(commands::demo::DemoArgs),
    #[cfg(feature = "demo")]
    #[command(hide = true)]
    DemoNode(commands::demo::NodeArgs),
    /// Run services under a ladder of configurations, compare, and report what helped.
    #[cfg(feature = "lab")]
    Lab(commands::lab::LabArgs),
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    LabJanitor(commands::lab::JanitorArgs),
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    LabStart(commands::lab::StartArgs),
}

/// The commands behind a feature, which has the same name, and whether this build has them.
const OPTIONAL: [(&str, bool); 4] = [
    ("app", cfg!(feature = "app")),
    ("load", cfg!(feature = "load")),
    ("demo", cfg!(feature = "demo")),
    ("lab", cfg!(feature = "lab")),
];

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => match left_out(&error) {
            Some(name) => {
                eprintln!(
                    "this build of weir has no `{name}`; builds with the feature \"{name}\" have it, as all do by default"
                );
                return ExitCode::from(2);
            }
            None => error.exit(),
        },
    };
    let status = run(arguments.command);
    // Messages are written by a thread of their own, which ends with the process.
    weir_gateway::tell::flush();
    status
}

/// The command that was asked for, if only another build has it.
fn left_out(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(asked)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    OPTIONAL
        .into_iter()
        .find_map(|(name, is_built_in)| (name == asked && !is_built_in).then_some(name))
}

fn run(command: Command) -> ExitCode {
    let result = match command {
        Command::Serve(args) => return commands::serve::run(&args),
        Command::Reload(args) => commands::reload::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Import(args) => commands::import::run(&args),
        Command::Cache(args) => commands::cache::run(&args),
        Command::Upstream(args) => commands::upstream::run(&args),
        Command::Queue(args) => commands::queue::run(&args),
        Command::Kv(args) => return commands::kv::run(&args),
        #[cfg(feature = "app")]
        Command::App(args) => commands::app::run(args),
        #[cfg(feature = "load")]
        Command::Load(args) => return commands::load::run(&args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => commands::demo::run(&args),
        #[cfg(feature = "demo")]
        Command::DemoNode(args) => return commands::demo::run_node(&args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => commands::lab::run(args),
        #[cfg(feature = "lab")]
        Command::LabJanitor(args) => commands::lab::run_janitor(&args),
        #[cfg(feature = "lab")]
        Command::LabStart(args) => commands::lab::run_start(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            // As with bad flags: what was asked for cannot be done.
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_there_or_said_to_be_left_out() {
        for (name, is_built_in) in OPTIONAL {
            // `--help` is an error too, to clap.
            let error = Arguments::try_parse_from(["weir", name, "--help"]).unwrap_err();
            assert_eq!(left_out(&error), (!is_built_in).then_some(name));
        }
        let error = Arguments::try_parse_from(["weir", "lod"]).unwrap_err();
        assert_eq!(left_out(&error), None);
    }
}
