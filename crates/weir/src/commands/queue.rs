//! `weir queue`: shows the queues of a running gateway, pauses and replays them, and sees to their dead letters.

mod list;

use std::io::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value, json};

pub(super) use self::list::rounded;
use super::admin::{Admin, Connection, segment};
use crate::config::units;

/// See and change the queues of a running gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, clap::Subcommand)]
enum QueueCommand {
    /// List the queues, with what waits in them.
    List(ListArgs),
    /// Show all that is known of a queue.
    Show(OneArgs),
    /// Deliver nothing until it is resumed; requests are still accepted. It outlasts a restart.
    Pause(OneArgs),
    /// Deliver again, after a pause or when it has stopped.
    Resume(ResumeArgs),
    /// Deliver again what was delivered, as far back as it is still there.
    Replay(ReplayArgs),
    /// List dead letters, have them delivered after all, or drop them.
    Dead(DeadArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct OneArgs {
    /// The name of the queue in the config, or QUEUE/SINK.
    queue: String,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct ResumeArgs {
    #[command(flatten)]
    of: OneArgs,

    /// Pass by messages that cannot be read because the disk is damaged. They are lost.
    #[arg(long)]
    skip_damaged: bool,
}

#[derive(Debug, clap::Args)]
#[group(id = "where", required = true, multiple = false, args = ["from", "since"])]
struct ReplayArgs {
    #[command(flatten)]
    of: OneArgs,

    /// From the message of this offset on.
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,

    /// What came in the last so long, as in 10m.
    #[arg(long, value_name = "TIME", value_parser = span)]
    since: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct DeadArgs {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DeadCommand {
    /// List them, with what their last attempt has come to.
    List(OneArgs),
    /// Have them delivered after all. One that fails again stays.
    Redrive(ChosenArgs),
    /// Drop them for good.
    Drop(ChosenArgs),
}

#[derive(Debug, clap::Args)]
#[group(id = "which", required = true, multiple = false, args = ["ids", "all"])]
struct ChosenArgs {
    /// The name of the queue in the config, or QUEUE/SINK.
    queue: String,

    /// Their numbers, as they are listed.
    #[arg(value_name = "ID")]
    ids: Vec<u64>,

    /// All that there are.
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Deserialize)]
struct Letter {
    id: u64,
    offset: u64,
    time_ms: u64,
    attempts: u32,
    reason: String,
    error: String,
    request: String,
}

pub(crate) fn run(args: &QueueArgs) -> anyhow::Result<()> {
    match &args.command {
        QueueCommand::List(args) => list::list(&args.connection),
        QueueCommand::Show(args) => list::show(args),
        QueueCommand::Pause(args) => {
            order(args, "pause", &json!({}))?;
            done(args, "is paused: it accepts, and delivers nothing")
        }
        QueueCommand::Resume(args) => {
            let body = json!({ "skip_damaged": args.skip_damaged });
            match order(&args.of, "resume", &body)? {
                0 => done(&args.of, "goes on"),
                skipped => done(
                    &args.of,
                    &format!("goes on; up to {} cannot be read", counted(skipped)),
                ),
            }
        }
        QueueCommand::Replay(args) => {
            let body = match (args.from, args.since) {
                (Some(offset), _) => json!({ "from": offset }),
                (None, since) => json!({ "since_ms": ago_ms(since.unwrap_or_default()) }),
            };
            let messages = order(&args.of, "replay", &body)?;
            done(&args.of, &format!("delivers {}", counted(messages)))
        }
        QueueCommand::Dead(args) => match &args.command {
            DeadCommand::List(args) => letters(args),
            DeadCommand::Redrive(args) => chosen(args, "redrive", "delivers"),
            DeadCommand::Drop(args) => chosen(args, "drop", "has dropped"),
        },
    }
}

fn span(text: &str) -> Result<Duration, String> {
    units::duration(text, &(Duration::ZERO..=Duration::from_secs(365 * 86_400)))
}

/// A time that has passed so long ago, in milliseconds since 1970.
fn ago_ms(span: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().saturating_sub(span).as_millis() as u64
}

fn counted(messages: u64) -> String {
    match messages {
        1 => "1 message".to_owned(),
        count => format!("{count} messages"),
    }
}

/// Where the gateway has a queue, or a sink of one.
fn path(queue: &str) -> String {
    match queue.split_once('/') {
        Some((queue, sink)) => format!("/queues/{}/sinks/{}", segment(queue), segment(sink)),
        None => format!("/queues/{}", segment(queue)),
    }
}

/// Has the gateway do something; how many messages it was about.
fn order(args: &OneArgs, what: &str, body: &Value) -> anyhow::Result<u64> {
    let mut admin = Admin::of(&args.connection)?;
    let path = format!("{}/{what}", path(&args.queue));
    let answer = admin.post(&path, body)?;
    Ok(answer["messages"].as_u64().unwrap_or(0))
}

fn done(args: &OneArgs, what: &str) -> anyhow::Result<()> {
    if args.connection.json {
        return Ok(());
    }
    say(format_args!("queue {} {what}", args.queue))
}

fn chosen(args: &ChosenArgs, order: &str, does: &str) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    let path = format!("{}/dead/{order}", path(&args.queue));
    let body = if args.all {
        json!({ "all": true })
    } else {
        json!({ "ids": args.ids })
    };
    let answer = admin.post(&path, &body)?;
    if args.connection.json {
        return say(answer);
    }
    let messages = counted(answer["messages"].as_u64().unwrap_or(0));
    say(format_args!("queue {} {does} {messages}", args.queue))
}

fn letters(args: &OneArgs) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    let path = format!("{}/dead", path(&args.queue));
    let mut from = Some(0);
    let mut is_any = false;
    while let Some(first) = from {
        let mut answer = admin.get(&path, &[("from", &first.to_string())])?;
        from = answer["next"].as_u64();
        let letters = answer["letters"].take();
        if args.connection.json {
            let letters = letters.as_array().map_or(&[][..], Vec::as_slice);
            letters.iter().try_for_each(say)?;
            continue;
        }
        let letters: Vec<Letter> =
            serde_json::from_value(letters).map_err(|_| admin.is_no_weir())?;
        if !is_any && !letters.is_empty() {
            say("    ID    OFFSET  DIED      ATTEMPTS  WHY       REQUEST")?;
        }
        is_any |= !letters.is_empty();
        for letter in letters {
            let ago = ago_ms(Duration::ZERO).saturating_sub(letter.time_ms);
            say(format_args!(
                "{:>6}  {:>8}  {:>8}  {:>8}  {:8}  {}\n{:38}{}",
                letter.id,
                letter.offset,
                rounded(Duration::from_millis(ago)),
                letter.attempts,
                letter.reason,
                letter.request,
                "",
                letter.error,
            ))?;
        }
    }
    if !is_any && !args.connection.json {
        say(format_args!("queue {} has no dead letters", args.queue))?;
    }
    Ok(())
}

/// Prints a line. If nobody reads it any more, as behind `head`, that is an end and no failure.
fn say(line: impl std::fmt::Display) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}
