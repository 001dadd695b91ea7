//! `weir reload`: makes a running gateway read its config file again, and prints what
//! changed.
//!
//! Through the admin listener the answer is the gateway's own, in full: `weir check` would say the same of the file. A signal has
//! none, so before it the file is checked here.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::admin::{Admin, Connection};
use super::{check, config_file};

#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    /// The gateway's config file, which says where its admin listener is; the gateway knows by itself what to read.
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,

    /// The gateway's process. Where its admin listener cannot be asked, the file is checked, and the process has it read by a
    /// signal (SIGHUP).
    #[arg(long, value_name = "PID", conflicts_with_all = ["admin", "json"])]
    pid: Option<NonZeroU32>,

    #[command(flatten)]
    connection: Connection,
}

/// The file that says where to ask may have been edited in just that.
const ADVICE: &str = "\nif the file has just been given another address or token, name those of the gateway that runs (--admin OLD, \
                      --token OLD), or have it read the file by a signal (--pid PID)";

pub(crate) fn run(args: &ReloadArgs) -> anyhow::Result<()> {
    let admin = Admin::named_by(args.file.as_deref(), &args.connection);
    match args.pid {
        None => ask(admin?.with_advice(ADVICE), args.connection.json),
        Some(pid) => match admin {
            Ok(admin) if admin.is_of(pid) => ask(admin, false),
            _ => signal(args, pid),
        },
    }
}

fn ask(mut admin: Admin, as_json: bool) -> anyhow::Result<()> {
    let answer = admin.post("/reload", &json!({}))?;
    if as_json {
        println!("{answer}");
        return Ok(());
    }
    let list = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let changes = list("changes");
    if changes.is_empty() {
        println!("nothing changed");
    }
    for change in changes.iter().filter_map(Value::as_str) {
        println!("{change}");
    }
    // The rest holds, so this is no failure. It is said again by each reload until it is done.
    for key in list("needs_restart").iter().filter_map(Value::as_str) {
        eprintln!("needs a restart: {key} stays as it is until then");
    }
    Ok(())
}

fn signal(args: &ReloadArgs, pid: NonZeroU32) -> anyhow::Result<()> {
    let named = args.file.as_ref().or(args.connection.config.as_ref());
    let file = named.cloned().or_else(config_file::usual);
    check::check(&file.context("there is no config file here; name it: weir reload FILE")?)?;
    let process = i32::try_from(pid.get()).ok().and_then(Pid::from_raw);
    let process = process.with_context(|| format!("--pid {pid}: there is no such process"))?;
    kill_process(process, Signal::HUP).with_context(|| format!("--pid {pid}"))?;
    println!("process {pid} reads it; what changes is in its log");
    Ok(())
}
