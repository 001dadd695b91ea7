//! `weir cache`: purges the cache of a running gateway, and shows what it holds. It asks the gateway's control
//! listener, which decides what a URL or a prefix covers.

mod show;

use std::fmt::Display;
use std::io::{self, Write as _};

use anyhow::{bail, ensure};
use serde_json::{Value, json};

use self::show::Facts;
use super::admin::{Admin, Connection};

/// Objects in one request.
const PAGE_OBJECTS: u64 = 500;

/// Purge the cache of a running gateway, and see what it holds.
#[derive(Debug, clap::Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CacheCommand {
    /// End what is stored, for all workers, in memory and on disk.
    Purge(PurgeArgs),
    /// List what is stored, sorted by URL.
    Ls(LsArgs),
    /// Show what is stored of one URL: each variant with all that is known of it.
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
struct PurgeArgs {
    /// What is stored of these URLs: all variants, under the keys that the routes make of them.
    #[arg(value_name = "URL", group = "what")]
    urls: Vec<String>,

    /// All URLs that begin so: `http://HOST/PATH`, or `/PATH` on any host. End it with / to hold to a directory.
    #[arg(long, value_name = "PREFIX", group = "what")]
    prefix: Vec<String>,

    /// All that came with this tag in Cache-Tag or Surrogate-Key.
    #[arg(long, value_name = "TAG", group = "what")]
    tag: Vec<String>,

    /// Everything.
    #[arg(long, group = "what")]
    all: bool,

    /// Mark it as stale instead: its next use asks the origin, and it may be served while that lasts or if it fails.
    #[arg(long)]
    soft: bool,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct LsArgs {
    /// Only URLs that begin so: `http://HOST/PATH`, or `/PATH` on any host.
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,

    /// Only what came with this tag.
    #[arg(long, value_name = "TAG", conflicts_with = "prefix")]
    tag: Option<String>,

    /// Stop when so many objects were listed.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The URL.
    url: String,

    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(args: &CacheArgs) -> anyhow::Result<()> {
    match &args.command {
        CacheCommand::Purge(args) => purge(args),
        CacheCommand::Ls(args) => list(args),
        CacheCommand::Show(args) => show(args),
    }
}

fn purge(args: &PurgeArgs) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    let urls = args.urls.iter().map(|url| ("url", json!(url)));
    let prefixes = args.prefix.iter().map(|prefix| ("prefix", json!(prefix)));
    let tags = args.tag.iter().map(|tag| ("tag", json!(tag)));
    let all = args.all.then_some(("all", json!(true)));
    let mut found_nothing = true;
    for (name, what) in urls.chain(prefixes).chain(tags).chain(all) {
        let mut answer = admin.post("/cache/purge", &json!({ name: what, "soft": args.soft }))?;
        let count = |tier: &str| answer[tier].as_u64().unwrap_or_default();
        let (memory, disk) = (count("memory"), count("disk"));
        found_nothing &= memory + disk == 0;
        if args.connection.json {
            answer[name] = what;
            say(answer)?;
            continue;
        }
        let verb = if args.soft {
            "marked as stale"
        } else {
            "purged"
        };
        let what = what.as_str().unwrap_or("everything");
        say(format_args!(
            "{what}: {verb}, {memory} in memory, {disk} on disk"
        ))?;
    }
    // What was to be gone is gone, so it is no failure; but a URL that is written in another way meets nothing either.
    if found_nothing {
        eprintln!(
            "nothing that is stored matched; `weir cache ls` lists what is, as it must be written"
        );
    }
    Ok(())
}

fn list(args: &LsArgs) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    let (mut listed, mut after) = (0, None::<String>);
    loop {
        let limit = (args.limit - listed).min(PAGE_OBJECTS).to_string();
        let mut query = vec![("limit", limit.as_str())];
        query.extend(args.prefix.as_deref().map(|prefix| ("prefix", prefix)));
        query.extend(args.tag.as_deref().map(|tag| ("tag", tag)));
        query.extend(after.as_deref().map(|after| ("after", after)));
        let mut page = admin.get("/cache/objects", &query)?;
        let Value::Array(objects) = page["objects"].take() else {
            bail!("{}", admin.is_no_weir());
        };
        for object in objects {
            if args.connection.json {
                say(object)?;
            } else {
                if listed == 0 {
                    say(show::HEADING)?;
                }
                say(Facts::read(object)?.line())?;
            }
            listed += 1;
        }
        after = page["next"].as_str().map(ToOwned::to_owned);
        if after.is_none() || listed >= args.limit {
            break;
        }
    }
    if listed == 0 {
        eprintln!("nothing is stored that this names");
    } else if after.is_some() {
        eprintln!("there is more; --limit says how much is listed");
    }
    Ok(())
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    let mut answer = admin.get("/cache/object", &[("url", &args.url)])?;
    let Value::Array(objects) = answer["objects"].take() else {
        bail!("{}", admin.is_no_weir());
    };
    ensure!(!objects.is_empty(), "nothing is stored of {}", args.url);
    for object in objects {
        if args.connection.json {
            say(object)?;
        } else {
            say(Facts::read(object)?.paragraph())?;
        }
    }
    Ok(())
}

/// Prints a line. If nobody reads it any more, as behind `head`, that is an end and no failure.
fn say(line: impl Display) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}
