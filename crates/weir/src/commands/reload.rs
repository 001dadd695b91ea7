//! `weir reload`: makes a running gateway read its config file again, and prints what
//! changed.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::admin::{Admin, Connection};

#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    /// The gateway's config file, which says where its admin listener is; the gateway knows by itself what to read.
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,

    #[command(flatten)]
    connection: Connection,
}

/// The file that says where to ask may have been edited in just that.
const ADVICE: &str = "\nif the file has just been given another address or token, name those of the gateway that runs (--admin OLD, \
                      --token OLD), or have it read the file by a signal (kill -HUP PID)";

/// The error is the gateway's own, in full: `weir check` would say the same of the file.
pub(crate) fn run(args: &ReloadArgs) -> anyhow::Result<()> {
    let admin = Admin::named_by(args.file.as_deref(), &args.connection)?;
    let mut admin = admin.with_advice(ADVICE);
    let answer = admin.post("/reload", &json!({}))?;
    if args.connection.json {
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
