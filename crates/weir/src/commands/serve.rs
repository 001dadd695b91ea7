//! `weir serve`: runs the gateway until it is told to end.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use weir_gateway::settings::Settings;
use weir_gateway::{Gateway, Source, Supervision};

use super::signals::{Instruction, Signals};
use crate::config;

use self::reloading::{Reloader, Watched};

pub(super) mod reloading;

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["config", "listen"]))]
pub(crate) struct ServeArgs {
    /// The config file.
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    config: Option<PathBuf>,
    /// Read the file again whenever it changes.
    #[arg(long, requires = "config")]
    watch: bool,
    /// Without a file: where clients connect.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "to")]
    listen: Option<SocketAddr>,
    /// Without a file: the service to forward to; repeat it for replicas.
    #[arg(long, value_name = "URL", requires = "listen")]
    to: Vec<String>,
    /// Without a file: send the service no more than it can take, and leave replicas out that stand out as bad.
    #[arg(long, requires = "listen")]
    protect: bool,
}

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let watched = args.config.as_deref().filter(|_| args.watch);
    let watched = watched.map(Watched::new);
    let settings = match (&args.config, args.listen) {
        (Some(path), _) => config::load(path)?,
        (None, Some(listen)) => config::from_flags(listen, &args.to, args.protect)?,
        (None, None) => unreachable!("clap asks for a file or an address"),
    };
    serve(settings, args.config.as_deref(), watched)
}

/// Runs the gateway; returns when it has drained. A second signal to end ends the process at once.
fn serve(
    mut settings: Settings,
    file: Option<&Path>,
    watched: Option<Watched>,
) -> anyhow::Result<()> {
    fit_to_descriptors(&mut settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = runtime.block_on(async {
        // Without a file, SIGHUP keeps its usual meaning: the terminal is gone.
        match file {
            Some(_) => Signals::listen()?.with_reload(),
            None => Signals::listen(),
        }
    })?;
    let source: Box<dyn Source> = match file {
        Some(file) => Box::new(reloading::File(file.to_owned())),
        None => Box::new(reloading::NoFile),
    };
    let gateway = Gateway::start(&settings, source, Box::new(())).map_err(|error| match file {
        Some(file) => config::start_error(error, file),
        None => error.into(),
    })?;
    let (workers, connections) = (settings.workers, settings.limits.connections);
    for address in gateway.addresses() {
        say(format_args!(
            "listening on {address}, {workers} workers, at most {connections} connections"
        ));
    }
    let reloader = Reloader::start(gateway.control(), watched)?;
    let mut supervision = Supervision::default();
    let mut looked = Instant::now();
    let failed = loop {
        // Signals do not delay the next look.
        let next = Supervision::LOOK_EVERY.saturating_sub(looked.elapsed());
        let asked = async { tokio::time::timeout(next, signals.next()).await };
        match runtime.block_on(asked) {
            Ok(Instruction::ReopenLog) => gateway.reopen_log(),
            Ok(Instruction::Reload) => reloader.ask(),
            Ok(Instruction::End) => break None,
            Err(_) => {
                looked = Instant::now();
                if let Some(failed) = gateway.look(&mut supervision) {
                    say(format_args!("{failed}; ending, to be started anew"));
                    break Some(failed);
                }
            }
        }
    };
    say(format_args!("draining; a second signal ends at once"));
    let has_failed = failed.is_some();
    let drained = std::thread::spawn(move || {
        if has_failed {
            gateway.end()
        } else {
            gateway.drain()
        }
    });
    std::thread::spawn(move || {
        runtime.block_on(async {
            while signals.next().await != Instruction::End {}
            say(format_args!("ended while draining"));
            std::process::exit(1);
        });
    });
    let is_clean = drained
        .join()
        .map_err(|_| anyhow::anyhow!("draining failed"))?;
    if let Some(failed) = failed {
        anyhow::bail!("{failed}, which is a mistake in weir; what else was under way has ended");
    }
    anyhow::ensure!(
        is_clean,
        "the drain timeout is over; open connections were cut off"
    );
    Ok(())
}

/// Tells the operator. If nobody reads it, the gateway must still drain.
fn say(what: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "weir: {what}");
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
/// one more descriptor for its upstream, and some connections are kept without a client.
pub(super) fn fit_to_descriptors(settings: &mut Settings) -> anyhow::Result<()> {
    let (soft, hard) = rlimit::Resource::NOFILE.get()?;
    if soft < hard {
        rlimit::Resource::NOFILE.set(hard, hard)?;
    }
    let listeners = DESCRIPTORS_LISTENERS.max(settings.listeners.len() as u64);
    let kept = DESCRIPTORS_KEPT + settings.workers as u64 * (DESCRIPTORS_WORKER + listeners);
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
