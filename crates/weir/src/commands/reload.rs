//! `weir reload`: makes a running gateway read its config file again, and prints what
//! changed.

use serde_json::{Value, json};

use super::admin::{Admin, Connection};

#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    connection: Connection,
}

/// The error is the gateway's own, in full: `weir check` would say the same of the file.
pub(crate) fn run(args: &ReloadArgs) -> anyhow::Result<()> {
    let answer = Admin::of(&args.connection)?.post("/reload", &json!({}))?;
    if args.connection.json {
        println!("{answer}");
        return Ok(());
    }
    let changes = answer["changes"].as_array().map_or(&[][..], Vec::as_slice);
    if changes.is_empty() {
        println!("nothing changed");
    }
    for change in changes.iter().filter_map(Value::as_str) {
        println!("{change}");
    }
    Ok(())
}
