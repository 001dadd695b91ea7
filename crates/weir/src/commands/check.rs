//! `weir check`: reads a config file as `weir serve` would, starts nothing. Or it says what such a file may contain.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::config;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The file to check.
    #[arg(long, value_name = "FILE", required_unless_present = "schema")]
    config: Option<PathBuf>,

    /// Print a JSON Schema of config files, for editors, instead.
    #[arg(long, conflicts_with = "config")]
    schema: bool,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    match &args.config {
        Some(path) => check(path),
        None => print_schema(),
    }
}

fn print_schema() -> anyhow::Result<()> {
    let schema = serde_json::to_string_pretty(&config::schema::of_file())?;
    // A reader that has seen enough, such as `head`, is no failure.
    let written = writeln!(io::stdout(), "{schema}");
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn check(path: &Path) -> anyhow::Result<()> {
    let settings = config::load(path)?;
    let source = super::serve::reloading::File(path.to_owned());
    weir_gateway::check(&settings, &source).map_err(|error| config::start_error(error, path))?;
    let (routes, upstreams) = (settings.routes.len(), settings.upstreams.len());
    println!(
        "{}: ok, {routes} routes, {upstreams} upstreams",
        path.display()
    );
    Ok(())
}
