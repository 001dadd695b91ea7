//! `weir serve`: runs the gateway until it is told to end.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use weir_gateway::settings::{Level, MessageFormat, Messages, Settings};
use weir_gateway::tell::{self, tell};
use weir_gateway::{Drained, Gateway, Source, StartError, WorkerFailed};

use super::config_file::ConfigFile;
use super::signals::{self, Instruction, Signals};
use crate::config::{self, ConfigError, InProcess};

use self::in_process::OpenServices;
use self::notify::Notify;
use self::reloading::{File, Reloader};
use self::watch::{Event, Watch};

pub(in crate::commands) mod in_process;
mod notify;
mod queues;
pub(super) mod reloading;
mod watch;

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    file: ConfigFile,
    /// Read the file again whenever it changes.
    #[arg(long, conflicts_with = "listen")]
    watch: bool,
    /// Without a file: where clients connect, as in 127.0.0.1:8080, or :8080 for every address of this machine.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        visible_alias = "from",
        requires = "to",
        conflicts_with_all = ["file", "config"],
        value_parser = config::listen
    )]
    listen: Option<SocketAddr>,
    /// Without a file: the service to forward to, as in localhost:3000; repeat it for replicas.
    #[arg(long, value_name = "SERVER", requires = "listen")]
    to: Vec<String>,
    /// Without a file: send the service no more than it can take, and leave replicas out that stand out as bad.
    #[arg(long, requires = "listen")]
    protect: bool,
    /// Without a file: where the dashboard, /metrics and /status are, as in 127.0.0.1:9901; this machine alone can reach it.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "listen", value_parser = config::admin)]
    admin: Option<SocketAddr>,
    /// How messages on standard error look, whatever the file says.
    #[arg(long, value_name = "FORMAT", value_parser = format_of)]
    log_format: Option<MessageFormat>,
}

/// What can be done without a file.
const ADVICE: &str = "name one: weir serve FILE\nor start without one: weir serve --listen :8080 --to localhost:3000";

/// How a gateway that did not simply drain has ended: the exit status, and what is said of it.
#[derive(Debug)]
enum Ended {
    /// Wrong flags, or mistakes in the config: it would fail again until somebody mends them.
    Mistaken(anyhow::Error),
    /// It could not start, perhaps only for now: an address is taken, a name has no address, a secret is not there yet.
    NotStarted(anyhow::Error),
    /// What was under way was cut off.
    CutShort(anyhow::Error),
    /// A mistake in weir.
    Failed(anyhow::Error),
}

/// The exit status when a second signal ends a draining gateway: what was under way is cut off.
const CUT_SHORT: u8 = 3;

pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    let Err(ended) = serve(args) else {
        return ExitCode::SUCCESS;
    };
    let (status, reason) = match ended {
        Ended::NotStarted(reason) => (1, reason),
        Ended::Mistaken(reason) => {
            if !tell::is_json() {
                // As `weir check` says it: editors find the lines.
                tell::flush();
                eprintln!("{reason:#}");
                return ExitCode::from(2);
            }
            (2, reason)
        }
        Ended::CutShort(reason) => (CUT_SHORT, reason),
        Ended::Failed(reason) => (4, reason),
    };
    tell(Level::Error, format_args!("{reason:#}"));
    ExitCode::from(status)
}

fn serve(args: &ServeArgs) -> Result<(), Ended> {
    let Some(listen) = args.listen else {
        return serve_file(args);
    };
    let mut settings = config::from_flags(listen, &args.to, args.protect, args.admin)?;
    settings.messages = follow(settings.messages, args);
    run_gateway(settings, None, false)
}

fn serve_file(args: &ServeArgs) -> Result<(), Ended> {
    let path = args.file.find(ADVICE).map_err(Ended::Mistaken)?;
    // So that mistakes too are told as the file says, if that much of it can be read.
    follow(config::messages_of(&path), args);
    if args.file.named().is_none() {
        say(format_args!("the config file is {}", path.display()));
    }
    let file = File::new(path).with_format(args.log_format);
    let settings = file.load()?;
    run_gateway(settings, Some(file), args.watch)
}

/// Has messages written as the flags say, or else as `messages` says.
fn follow(messages: Messages, args: &ServeArgs) -> Messages {
    let messages = Messages {
        format: args.log_format.unwrap_or(messages.format),
        ..messages
    };
    tell::follow(messages);
    std::panic::set_hook(Box::new(tell_panic));
    messages
}

/// A panic is a message like any other, with a backtrace if `RUST_BACKTRACE` asks for one: the thread that panics must not wait
/// for the reader of standard error either.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tell(Level::Error, format_args!("{panic}\n{backtrace}"));
    } else {
        tell(Level::Error, format_args!("{panic}"));
    }
    // The process may end with this thread.
    tell::flush();
}

/// Runs the gateway; returns when it has drained. A second signal to end ends the process at once.
fn run_gateway(mut settings: Settings, file: Option<File>, is_watched: bool) -> Result<(), Ended> {
    let workers = settings.workers;
    fit_to_descriptors(&mut settings, workers).map_err(Ended::NotStarted)?;
    let file = file.map(|file| file.with_workers(workers));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(not_started)?;
    let signals = runtime
        .block_on(async {
            // Without a file, SIGHUP keeps its usual meaning: the terminal is gone.
            match &file {
                Some(_) => Signals::listen()?.with_reload(),
                None => Signals::listen(),
            }
        })
        .map_err(Ended::NotStarted)?;
    let is_deaf = file.is_none() && signals::ignores_hangup();
    let gateway = start(&settings, file.as_ref())?;
    if is_deaf {
        say(format_args!(
            "SIGHUP is ignored: whoever started this process asked for that (nohup), and there is no config file to read again"
        ));
    }
    let manager = Notify::manager();
    manager.ready();
    let reloader =
        Reloader::start(gateway.control(), file.filter(|_| is_watched)).map_err(not_started)?;
    let mut watch = Watch::new(runtime, signals);
    let failed = loop {
        match watch.next(&gateway, None) {
            Event::Asked(Instruction::ReopenLog) => gateway.reopen_log(),
            Event::Asked(Instruction::Reload) => reloader.ask(),
            Event::Asked(Instruction::End) | Event::Over => break None,
            Event::Failed(failed) => break Some(failed),
        }
    };
    manager.stopping(gateway.drain_delay() + gateway.drain_timeout());
    drain(gateway, failed, watch)
}

/// Drains the gateway, because it was asked to or because a part of it has `failed`. Another signal ends the process.
fn drain(gateway: Gateway, failed: Option<WorkerFailed>, mut watch: Watch) -> Result<(), Ended> {
    let delay = gateway.drain_delay();
    let failed = if failed.is_some() || delay.is_zero() {
        say(format_args!("draining; a second signal ends at once"));
        failed
    } else {
        say(format_args!(
            "draining in {delay:?}, when balancers know of it; a second signal ends at once"
        ));
        watch.delay(&gateway)
    };
    let wait = |gateway: Option<&Gateway>, time| watch.wait(gateway, time);
    let Some(failed) = failed else {
        return conclude(&gateway.drain(wait));
    };
    let _ = gateway.end(wait);
    Err(Ended::Failed(anyhow::anyhow!(
        "{failed}, which is a mistake in weir; what else was under way has ended"
    )))
}

/// Starts the gateway and says where it listens.
fn start(settings: &Settings, file: Option<&File>) -> Result<Gateway, Ended> {
    let source: Box<dyn Source> = match file {
        Some(file) => Box::new(file.clone()),
        None => Box::new(reloading::NoFile),
    };
    let services = file.map(File::services).unwrap_or_default();
    let services = Box::new(OpenServices::new(services));
    let gateway =
        Gateway::start(settings, source, services).map_err(|error| start_error(error, file))?;
    let notes = match file {
        Some(file) => file.notes(settings),
        None => config::notes::of(settings, &InProcess::default()),
    };
    for note in notes {
        say(format_args!("note: {note}"));
    }
    let (workers, connections) = (settings.workers, settings.limits.connections);
    for address in gateway.addresses() {
        say(format_args!(
            "listening on {address}{}, {workers} workers, at most {connections} connections",
            reach(address.ip())
        ));
    }
    Ok(gateway)
}

/// Who can connect to an address, where that is what people most often get wrong.
fn reach(address: IpAddr) -> &'static str {
    let address = address.to_canonical();
    match address {
        _ if address.is_loopback() => " (this machine alone)",
        IpAddr::V4(address) if address.is_unspecified() => " (every IPv4 address)",
        IpAddr::V6(address) if address.is_unspecified() => " (every address)",
        _ => "",
    }
}

/// What a drain comes to.
fn conclude(drained: &Drained) -> Result<(), Ended> {
    if drained.tunnels > 0 {
        say(format_args!(
            "{} tunnels were still open and are closed",
            drained.tunnels
        ));
    }
    if drained.is_complete {
        say(format_args!("drained"));
        return Ok(());
    }
    Err(Ended::CutShort(anyhow::anyhow!(
        "the drain timeout is over; requests that were under way were cut off"
    )))
}

/// Which kind of failure to start this is.
fn start_error(error: StartError, file: Option<&File>) -> Ended {
    let is_mistake = matches!(error, StartError::Routes(_) | StartError::OwnUpstream(_));
    let reason = match file {
        Some(file) => file.start_error(error),
        None => error.into(),
    };
    if is_mistake {
        Ended::Mistaken(reason)
    } else {
        Ended::NotStarted(reason)
    }
}

fn not_started(error: std::io::Error) -> Ended {
    Ended::NotStarted(error.into())
}

impl From<ConfigError> for Ended {
    fn from(error: ConfigError) -> Self {
        if error.is_elsewhere() {
            Self::NotStarted(error.into())
        } else {
            Self::Mistaken(error.into())
        }
    }
}

/// Tells the operator that all is well.
fn say(what: fmt::Arguments<'_>) {
    tell(Level::Info, what);
}

fn format_of(text: &str) -> Result<MessageFormat, String> {
    let found = config::MESSAGE_FORMATS
        .iter()
        .find(|(name, _)| *name == text);
    let found = found.map(|(_, format)| *format);
    found.ok_or_else(|| "expected text or json".to_owned())
}

/// Descriptors kept for logs, the admin listener, cache files and short-lived uses. Each worker needs some for its
/// runtime, and one socket for each listener. The minimum of listeners is counted in any case, so that one more does
/// not change the limits.
const DESCRIPTORS_KEPT: u64 = 256;
const DESCRIPTORS_WORKER: u64 = 4;
const DESCRIPTORS_LISTENERS: u64 = 4;

/// With fewer descriptors left for clients, the gateway does not start.
const DESCRIPTORS_CLIENTS: u64 = 64;

/// The part of all descriptors that idle upstream connections may hold.
const DESCRIPTORS_IDLE_PART: u64 = 16;

/// Raises the limit of open files to its maximum, and caps the number of client connections accordingly. Each may need
/// one more descriptor for its upstream, and some connections are kept without a client. `workers` is how many there are, which
/// a reload of other settings does not change.
pub(super) fn fit_to_descriptors(settings: &mut Settings, workers: usize) -> anyhow::Result<()> {
    let (soft, hard) = rlimit::Resource::NOFILE.get()?;
    if soft < hard {
        rlimit::Resource::NOFILE.set(hard, hard)?;
    }
    let listeners = DESCRIPTORS_LISTENERS.max(settings.listeners.len() as u64);
    let kept = DESCRIPTORS_KEPT + workers as u64 * (DESCRIPTORS_WORKER + listeners);
    let least = kept + DESCRIPTORS_CLIENTS;
    anyhow::ensure!(
        hard >= least,
        "at most {hard} files may be open at once (ulimit -Hn); at least {least} are needed, and two more for each client \
         that is served at the same time"
    );
    let count = |descriptors| usize::try_from(descriptors).unwrap_or(usize::MAX).max(1);
    let limits = &mut settings.limits;
    let idle = hard / DESCRIPTORS_IDLE_PART;
    limits.idle_connections = limits.idle_connections.min(count(idle));
    let both = hard.saturating_sub(kept).saturating_sub(idle);
    limits.connections = limits.connections.min(count(both / 2));
    Ok(())
}
