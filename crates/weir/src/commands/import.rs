//! `weir import`: turns the configs of other gateways into configs of weir.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::config::{guard, regular};

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    /// What guard has saved, or what is posted to it: apps as JSON.
    Guard {
        /// guard's `guard.json`, or a file with one app.
        file: PathBuf,
        /// Where to write the config, which must not be there yet; standard output unless it is given.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<()> {
    let From::Guard { file, out } = &args.from;
    let name = file.display().to_string();
    let json = regular::whole(file).with_context(|| format!("cannot read {name}"))?;
    let config = guard::import(&json, &name).map_err(anyhow::Error::msg)?;
    let Some(path) = out else {
        print!("{config}");
        return Ok(());
    };
    let written = File::create_new(path).and_then(|mut file| file.write_all(config.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}
