//! `weir check`: reads a config file as `weir serve` would, starts nothing.

use std::path::PathBuf;

use crate::config;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The file to check.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let settings = config::load(&args.config)?;
    let source = super::serve::reloading::File(args.config.clone());
    weir_gateway::check(&settings, &source)
        .map_err(|error| config::start_error(error, &args.config))?;
    let (routes, upstreams) = (settings.routes.len(), settings.upstreams.len());
    println!(
        "{}: ok, {routes} routes, {upstreams} upstreams",
        args.config.display()
    );
    Ok(())
}
