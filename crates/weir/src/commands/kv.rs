//! `weir kv`: reads and writes keys of a store, at its nodes themselves or over HTTP; `super::kv_admin` asks how it is.
//!
//! Values go through as they are. What is not there, or not as a condition says, ends with 1, and what cannot be done with 2.

mod members;
mod over_http;
mod place;
mod store;
mod value;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::process::ExitCode;
use std::time::Duration;

use weir_kv::api::KEY_BYTES_MAX;
use weir_kv::api::line::Line;
use weir_kv::client::{DeleteOptions, PutOptions, Written};
use weir_kv::condition::{self, Condition, Tags};
use weir_kv::frame::Span;
use weir_kv::version::Version;

use self::members::{AbortArgs, FinishArgs, JoinArgs, LeaveArgs, MoveArgs};
use self::place::Place;
use self::store::Store;
use super::kv_admin::{RepairArgs, StatusArgs, run_repair, run_status};
use crate::config::units;

/// Read and write keys of a store.
#[derive(Debug, clap::Args)]
pub(crate) struct KvArgs {
    #[command(subcommand)]
    command: KvCommand,
}

#[derive(Debug, clap::Subcommand)]
enum KvCommand {
    /// Write the value of a key to standard output, as it is.
    Get(GetArgs),
    /// Write a value, and print its entity tag.
    Put(PutArgs),
    /// Delete the value of a key; also when there is none.
    Delete(DeleteArgs),
    /// List keys and values in the order of the keys.
    Scan(ScanArgs),
    /// Show how the store of a running gateway is: its nodes, what was asked of it, and the last repair.
    Status(StatusArgs),
    /// Have a running gateway compare its replicas with those of the others now, and make them alike.
    Repair(RepairArgs),
    /// Let a node come, after a plan is shown. Data moves while clients are served.
    Join(JoinArgs),
    /// Let nodes go, after a plan is shown.
    Leave(LeaveArgs),
    /// Let a node come in the place of another one, after a plan is shown.
    Move(MoveArgs),
    /// Go on with a change of nodes that was left half-way.
    Finish(FinishArgs),
    /// Take such a change back.
    Abort(AbortArgs),
}

#[derive(Debug, clap::Args)]
struct GetArgs {
    /// The key.
    #[arg(value_parser = clap::value_parser!(OsString))]
    key: OsString,

    /// Write an object of JSON instead, which has the entity tag too.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct PutArgs {
    /// The key.
    key: OsString,

    /// The value, `@FILE` for what a file has, or `-` for standard input, as without it.
    #[arg(allow_negative_numbers = true)]
    value: Option<OsString>,

    /// How long the value is there, as in 10m.
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    ttl: Option<Duration>,

    #[command(flatten)]
    conditions: Conditions,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct DeleteArgs {
    /// The key.
    key: OsString,

    #[command(flatten)]
    conditions: Conditions,

    #[command(flatten)]
    place: Place,
}

/// What must hold of the value before.
#[derive(Debug, clap::Args)]
struct Conditions {
    /// Only over the value with this entity tag; `*` is any value.
    #[arg(long, value_name = "TAG", value_parser = tags)]
    if_match: Option<Tags>,

    /// Only if the value has another entity tag; `*` is only if there is none.
    #[arg(long, value_name = "TAG", value_parser = tags, conflicts_with = "if_match")]
    if_none_match: Option<Tags>,
}

#[derive(Debug, clap::Args)]
struct ScanArgs {
    /// Only keys that begin like this.
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["start", "end"])]
    prefix: Option<OsString>,

    /// Only keys from this one on.
    #[arg(long, value_name = "KEY")]
    start: Option<OsString>,

    /// Only keys before this one.
    #[arg(long, value_name = "KEY")]
    end: Option<OsString>,

    /// Stop after so many keys.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,

    /// Write JSON: one object a line.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &KvArgs) -> ExitCode {
    let done = match &args.command {
        KvCommand::Get(args) => get(args),
        KvCommand::Put(args) => put(args),
        KvCommand::Delete(args) => delete(args),
        KvCommand::Scan(args) => scan(args),
        KvCommand::Status(args) => run_status(args),
        KvCommand::Repair(args) => run_repair(args),
        KvCommand::Join(args) => members::join(args),
        KvCommand::Leave(args) => members::leave(args),
        KvCommand::Move(args) => members::replace(args),
        KvCommand::Finish(args) => members::finish(args),
        KvCommand::Abort(args) => members::abort(args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn get(args: &GetArgs) -> anyhow::Result<bool> {
    let key = key(&args.key)?;
    let mut store = Store::open(&args.place)?;
    let Some(entry) = store.get(&key)? else {
        eprintln!("there is no key {}", args.key.display());
        return Ok(false);
    };
    if !args.json {
        say(&entry.value)?;
        return Ok(true);
    }
    let mut line = Line::Entry(key.into(), entry.version, entry.value).json();
    if let Some(expires_ms) = entry.expires_ms {
        line["expires_ms"] = expires_ms.into();
    }
    say_line(line)?;
    Ok(true)
}

fn put(args: &PutArgs) -> anyhow::Result<bool> {
    let key = key(&args.key)?;
    // It may take long to come, and nobody waits for it.
    let value = value::read(args.value.as_deref())?;
    let mut store = Store::open(&args.place)?;
    let options = PutOptions {
        ttl: args.ttl,
        condition: args.conditions.condition(),
        quorum: None,
    };
    match store.put(&key, value, options)? {
        Written::Done(version) => {
            say_line(version)?;
            Ok(true)
        }
        unmet @ Written::Unmet(_) => Ok(is_done(&args.key, &unmet)),
    }
}

fn delete(args: &DeleteArgs) -> anyhow::Result<bool> {
    let key = key(&args.key)?;
    let mut store = Store::open(&args.place)?;
    let options = DeleteOptions {
        condition: args.conditions.condition(),
        quorum: None,
    };
    let deleted = store.delete(&key, options)?;
    Ok(is_done(&args.key, &deleted))
}

/// Whether it was written; says why not.
fn is_done(key: &OsString, written: &Written) -> bool {
    let key = key.display();
    match written {
        Written::Done(_) => return true,
        Written::Unmet(None) => eprintln!("nothing is written: there is no key {key}"),
        Written::Unmet(Some(entry)) => {
            eprintln!(
                "nothing is written: the value of {key} has the tag {}",
                entry.version
            );
        }
    }
    false
}

fn scan(args: &ScanArgs) -> anyhow::Result<bool> {
    let bytes = |text: &Option<OsString>| text.clone().map(OsString::into_vec);
    let span = match &args.prefix {
        Some(prefix) => Span::with_prefix(&prefix.clone().into_vec()),
        None => Span {
            from: bytes(&args.start).unwrap_or_default().into(),
            // An empty one is none, as in a query.
            to: bytes(&args.end)
                .filter(|end| !end.is_empty())
                .map(Into::into),
        },
    };
    let mut store = Store::open(&args.place)?;
    let mut next = None;
    store.scan(span, args.limit, &mut |line| {
        match line {
            Line::Next(key) => next = Some(key),
            line if args.json => say_line(line.json())?,
            Line::Entry(key, _, value) => say(&[&key, &b"\t"[..], &value, b"\n"].concat())?,
        }
        Ok(())
    })?;
    if let Some(next) = next {
        eprintln!(
            "there is more, from {} on; --limit says how much is listed",
            String::from_utf8_lossy(&next)
        );
    }
    Ok(true)
}

impl Conditions {
    fn condition(&self) -> Condition {
        Condition {
            matches: self.if_match.clone(),
            matches_none: self.if_none_match.clone(),
        }
    }
}

fn key(text: &OsString) -> anyhow::Result<Vec<u8>> {
    let key = text.clone().into_vec();
    let has = key.len();
    anyhow::ensure!(
        (1..=KEY_BYTES_MAX).contains(&has),
        "the key has {has} bytes, and may have 1 to {KEY_BYTES_MAX}"
    );
    Ok(key)
}

fn ttl(text: &str) -> Result<Duration, String> {
    const YEARS: Duration = Duration::from_secs(100 * 365 * 86_400);
    units::duration(text, &(Duration::from_millis(1)..=YEARS))
}

/// An entity tag as `put` prints it, or in quotes as HTTP has it.
fn tags(text: &str) -> Result<Tags, String> {
    if text == "*" {
        return Ok(Tags::Any);
    }
    let version: Option<Version> = condition::version_of(text.as_bytes()).or(text.parse().ok());
    let version = version.ok_or("expected a tag as `weir kv put` prints it, or *")?;
    Ok(Tags::These(vec![version]))
}

/// Writes bytes. If nobody reads them any more, as behind `head`, that is an end and no failure.
fn say(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result,
    }
}

fn say_line(line: impl Display) -> io::Result<()> {
    say(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_sound() {
        use clap::Args as _;
        KvArgs::augment_args(clap::Command::new("kv")).debug_assert();
    }

    #[test]
    fn a_tag_is_taken_as_it_is_printed_and_as_http_has_it() {
        let version = Version {
            time: 0x1a,
            node: 2,
            run: 3,
        };
        let one = Ok(Tags::These(vec![version]));
        assert_eq!(tags(&version.to_string()), one);
        assert_eq!(tags(&condition::tag(version)), one);
        assert_eq!(tags("*"), Ok(Tags::Any));
        for wrong in ["", "x", "1a-2", "W/\"1a-2-3\"", "\"1a-2-3"] {
            assert!(tags(wrong).is_err(), "{wrong}");
        }
    }
}
