//! `weir`: one binary in front of an HTTP service under high load.
//!
//! This crate knows flags, config files and signals; what they ask for is done by the other crates.

mod commands;
mod config;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Gives memory that was freed back to the system within seconds, whichever thread freed it, which glibc's allocator does only
/// for what lies at the end of an arena. It serves the C libraries too.
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
    /// Run the sample service.
    App(commands::app::AppArgs),
    /// Put a service under load, and measure what it answers.
    Load(Box<commands::load::LoadArgs>),
    /// Run three replicas of the sample service behind a gateway, and show how it spreads load.
    Demo(commands::demo::DemoArgs),
    /// Run services under a ladder of configurations, compare, and report what helped.
    Lab(commands::lab::LabArgs),
    #[command(hide = true)]
    LabJanitor(commands::lab::JanitorArgs),
    #[command(hide = true)]
    LabStart(commands::lab::StartArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(args) => commands::serve::run(&args),
        Command::Reload(args) => commands::reload::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Import(args) => commands::import::run(&args),
        Command::Cache(args) => commands::cache::run(&args),
        Command::App(args) => commands::app::run(args),
        Command::Load(args) => commands::load::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Lab(args) => commands::lab::run(args),
        Command::LabJanitor(args) => commands::lab::run_janitor(&args),
        Command::LabStart(args) => commands::lab::run_start(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            // As with flags that make no sense: what was asked for cannot be done as it was asked.
            ExitCode::from(2)
        }
    }
}
