//! `weir upstream`: shows and changes the servers of a running gateway. It asks the gateway's control listener, which
//! decides what holds and whether it is kept.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin::{Admin, Connection, segment};
use crate::config;
use crate::config::units;

/// How often it is asked whether anything is left.
const POLL: Duration = Duration::from_millis(200);
/// The exit status when something is left of what `drain --wait` waits for, or nobody knows.
const LEFT: i32 = 3;

/// See and change the servers of a running gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct UpstreamArgs {
    #[command(subcommand)]
    command: UpstreamCommand,
}

#[derive(Debug, clap::Subcommand)]
enum UpstreamCommand {
    /// List servers as they are now, and how they differ from the config file.
    List(ListArgs),
    /// Add a server, or have one that is drained take requests again.
    Add(AddArgs),
    /// Give a server another weight.
    Weight(WeightArgs),
    /// Send a server no more requests; what is on its way there ends by itself.
    Drain(DrainArgs),
    /// Have a drained server take requests again, with the weight that it had.
    Undrain(ServerArgs),
    /// Remove a server; what is on its way there ends by itself.
    Remove(ServerArgs),
    /// Go back to the servers that the config file lists.
    Reset(ResetArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only this upstream.
    upstream: Option<String>,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct ServerArgs {
    /// The name of the upstream in the config.
    upstream: String,

    /// The server as in the config: 127.0.0.1:9001, app.internal:3000 or unix:app.sock.
    server: String,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    #[command(flatten)]
    at: ServerArgs,

    /// How many requests it gets beside the others.
    #[arg(long, default_value = "1", value_name = "N")]
    weight: u32,
}

#[derive(Debug, clap::Args)]
struct WeightArgs {
    /// The name of the upstream in the config.
    upstream: String,

    /// The server as in the config: 127.0.0.1:9001, app.internal:3000 or unix:app.sock.
    server: String,

    /// From 1 to 1000.
    weight: u32,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct DrainArgs {
    #[command(flatten)]
    at: ServerArgs,

    /// Wait until nothing is on its way there, for 30s unless it says how long; status 3 when something is left, or the server was removed meanwhile.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "30s",
        value_parser = patience
    )]
    wait: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct ResetArgs {
    /// The upstream; all of them unless one is named.
    upstream: Option<String>,

    #[command(flatten)]
    connection: Connection,
}

/// What the gateway says of an upstream.
#[derive(Debug, Deserialize)]
struct Upstream {
    name: String,
    servers: Vec<Server>,
    changes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Server {
    #[serde(rename = "server")]
    label: String,
    weight: u32,
    draining: bool,
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    #[serde(rename = "endpoint")]
    label: String,
    up: bool,
    in_flight: u64,
    idle: u64,
}

pub(crate) fn run(args: &UpstreamArgs) -> anyhow::Result<()> {
    match &args.command {
        UpstreamCommand::List(args) => list(args),
        UpstreamCommand::Add(args) => change(&args.at, "PUT", &json!({ "weight": args.weight })),
        UpstreamCommand::Weight(args) => {
            let mut admin = Admin::of(&args.connection)?;
            let path = path(&args.upstream, &args.server);
            let answer = admin.send("PATCH", &path, &json!({ "weight": args.weight }))?;
            tell(&answer, &args.connection)
        }
        UpstreamCommand::Drain(args) => drain(args),
        UpstreamCommand::Undrain(args) => change(args, "PATCH", &json!({ "draining": false })),
        UpstreamCommand::Remove(args) => change(args, "DELETE", &Value::Null),
        UpstreamCommand::Reset(args) => reset(args),
    }
}

fn patience(text: &str) -> Result<Duration, String> {
    units::duration(text, &(Duration::ZERO..=Duration::from_secs(86_400)))
}

fn path(upstream: &str, server: &str) -> String {
    format!(
        "/upstreams/{}/servers/{}",
        segment(upstream),
        segment(server)
    )
}

fn change(args: &ServerArgs, method: &str, body: &Value) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    let answer = admin.send(method, &path(&args.upstream, &args.server), body)?;
    tell(&answer, &args.connection)
}

/// What has changed.
fn tell(answer: &Value, connection: &Connection) -> anyhow::Result<()> {
    if connection.json {
        return say(answer);
    }
    let changes = answer["changes"].as_array().map_or(&[][..], Vec::as_slice);
    if changes.is_empty() {
        return say("nothing changed");
    }
    changes.iter().filter_map(Value::as_str).try_for_each(say)
}

fn drain(args: &DrainArgs) -> anyhow::Result<()> {
    let at = &args.at;
    let mut admin = Admin::of(&at.connection)?;
    let body = json!({ "draining": true });
    let answer = admin.send("PATCH", &path(&at.upstream, &at.server), &body)?;
    tell(&answer, &at.connection)?;
    let Some(patience) = args.wait else {
        return Ok(());
    };
    // As the gateway calls it, however it was written.
    let server = config::server(&at.server).map_err(anyhow::Error::msg)?;
    let began = Instant::now();
    loop {
        let (upstreams, _) = upstreams(&mut admin)?;
        let mut named = upstreams.iter().filter(|known| known.name == at.upstream);
        let servers = named.next().map_or(&[][..], |known| &known.servers);
        let mut found = servers.iter().filter(|known| known.label == server.label);
        let Some(found) = found.next() else {
            eprintln!(
                "{} was removed meanwhile; what is still on its way there cannot be said",
                at.server
            );
            std::process::exit(LEFT);
        };
        let left = found.in_flight();
        if left == 0 {
            return if at.connection.json {
                Ok(())
            } else {
                say(format_args!(
                    "nothing is on its way to {} any more",
                    at.server
                ))
            };
        }
        if began.elapsed() >= patience {
            let requests = match left {
                1 => "1 request is".to_owned(),
                _ => format!("{left} requests are"),
            };
            eprintln!(
                "{requests} still on the way to {} after {patience:?}; it stays drained",
                at.server
            );
            std::process::exit(LEFT);
        }
        std::thread::sleep(POLL.min(patience));
    }
}

fn reset(args: &ResetArgs) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    let names = if let Some(name) = &args.upstream {
        vec![name.clone()]
    } else {
        let changed = upstreams(&mut admin)?.0.into_iter();
        let changed = changed.filter(|upstream| !upstream.changes.is_empty());
        changed.map(|upstream| upstream.name).collect()
    };
    if names.is_empty() && !args.connection.json {
        return say("nothing changed: all servers are as in the config file");
    }
    for name in names {
        let path = format!("/upstreams/{}/changes", segment(&name));
        let answer = admin.send("DELETE", &path, &Value::Null)?;
        tell(&answer, &args.connection)?;
    }
    Ok(())
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let mut admin = Admin::of(&args.connection)?;
    if args.connection.json {
        let mut answer = admin.get("/upstreams", &[])?;
        let Value::Array(upstreams) = answer["upstreams"].take() else {
            bail!("{}", admin.is_no_weir());
        };
        let asked = |upstream: &Value| match &args.upstream {
            Some(name) => upstream["name"] == name.as_str(),
            None => true,
        };
        return upstreams.iter().filter(|it| asked(it)).try_for_each(say);
    }
    let (upstreams, changes_file) = upstreams(&mut admin)?;
    let shown: Vec<_> =
        match &args.upstream {
            None => upstreams.iter().collect(),
            Some(name) => {
                let named = upstreams.iter().find(|upstream| upstream.name == *name);
                let known: Vec<_> = upstreams.iter().map(|known| known.name.as_str()).collect();
                let known = known.join(", ");
                vec![named.with_context(|| {
                    format!("there is no upstream {name:?}; there are: {known}")
                })?]
            }
        };
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let names = width(&mut shown.iter().map(|upstream| upstream.name.len())).max("UPSTREAM".len());
    let servers = shown.iter().flat_map(|upstream| &upstream.servers);
    let servers = width(&mut servers.map(|server| server.label.len())).max("SERVER".len());
    say(format_args!(
        "{:names$}  {:servers$}  WEIGHT  STATE     IN FLIGHT  IDLE",
        "UPSTREAM", "SERVER"
    ))?;
    for upstream in &shown {
        for server in &upstream.servers {
            say(format_args!(
                "{:names$}  {:servers$}  {:>6}  {:8}  {:>9}  {:>4}{}",
                upstream.name,
                server.label,
                server.weight,
                server.state(),
                server.in_flight(),
                server.endpoints.iter().map(|it| it.idle).sum::<u64>(),
                server.stands_for(),
            ))?;
        }
    }
    let mut differs = false;
    for change in shown.iter().flat_map(|upstream| &upstream.changes) {
        differs = true;
        say(format_args!("since the file was read: {change}"))?;
    }
    match changes_file {
        _ if !differs => Ok(()),
        Some(file) => say(format_args!("kept over a restart in {file}")),
        None => say("gone when weir ends: name a changes_file in [admin] to keep it"),
    }
}

/// The upstreams, and where changes of them are kept.
fn upstreams(admin: &mut Admin) -> anyhow::Result<(Vec<Upstream>, Option<String>)> {
    let mut answer = admin.get("/upstreams", &[])?;
    let upstreams = serde_json::from_value(answer["upstreams"].take());
    let file = answer["changes_file"].as_str().map(ToOwned::to_owned);
    Ok((upstreams.map_err(|_| admin.is_no_weir())?, file))
}

impl Server {
    fn in_flight(&self) -> u64 {
        self.endpoints
            .iter()
            .map(|endpoint| endpoint.in_flight)
            .sum()
    }

    fn state(&self) -> &'static str {
        let is_up = |endpoint: &Endpoint| endpoint.up;
        match () {
            () if self.draining => "draining",
            () if self.endpoints.is_empty() => "unknown",
            () if self.endpoints.iter().all(is_up) => "up",
            () if self.endpoints.iter().any(is_up) => "partly",
            () => "down",
        }
    }

    /// The addresses of a name.
    fn stands_for(&self) -> String {
        let all: Vec<_> = self.endpoints.iter().map(|it| it.label.as_str()).collect();
        match all.as_slice() {
            [only] if *only == self.label => String::new(),
            all => format!("  {}", all.join(", ")),
        }
    }
}

/// Prints a line. If nobody reads it any more, as behind `head`, that is an end and no failure.
fn say(line: impl std::fmt::Display) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}
