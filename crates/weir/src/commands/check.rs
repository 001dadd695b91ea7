//! `weir check`: reads a config file as `weir serve` would, starts nothing. Or it says what such a file may contain.

use std::io::{self, Write as _};
use std::path::Path;

use weir_gateway::settings::Route;

use super::config_file::ConfigFile;
use crate::config;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    file: ConfigFile,

    /// Print a JSON Schema of config files, for editors, instead.
    #[arg(long, conflicts_with_all = ["file", "config"])]
    schema: bool,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<()> {
    if args.schema {
        return print_schema();
    }
    check(&args.file.find("name one: weir check FILE")?)
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

/// Fails with all that is wrong with the file at `path`, or prints that nothing is.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    let source = super::serve::reloading::File::new(path.to_owned());
    let settings = source.load()?;
    weir_gateway::check(&settings, &source).map_err(|error| source.start_error(error))?;
    for note in source.notes(&settings) {
        eprintln!("{}: note: {note}", path.display());
    }
    // Those by which outcomes are told are in no file.
    let own = |route: &&Route| !route.path.starts_with(weir_queue::LOCATION);
    let routes = counted(settings.routes.iter().filter(own).count(), "route");
    let upstreams = counted(settings.upstreams.len(), "upstream");
    println!("{}: ok, {routes}, {upstreams}", path.display());
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
