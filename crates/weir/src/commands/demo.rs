//! `weir demo`: sample replicas, a gateway in front of them and a little traffic, all on this machine.
//!
//! The replicas are processes of their own, so that one can be killed. The gateway runs in this process, with the
//! config that `--print-config` prints. Of the gateway the demo knows only what everybody can read at `/status`.
//!
//! Replicas end with the demo, however it ends: see [`replica`].

mod defer;
mod directory;
mod guide;
mod replica;
mod screen;
mod shard;
mod spread;
mod traffic;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use weir_gateway::{Gateway, StartError};

use self::guide::Guide;
use self::replica::{Replica, Reservation};
use self::screen::Screen;
use self::spread::Status;
use self::traffic::Traffic;
use super::app::end_with;
use super::client::{self, Client};
use super::serve::reloading::NoFile;
use super::serve::{self, ServeArgs, fit_to_descriptors};
use super::signals::{Instruction, Signals};
use crate::config;

/// How often the replicas are checked and the spread is shown.
const TICK: Duration = Duration::from_secs(1);
/// How long open requests may keep the demo from ending.
const DRAIN: Duration = Duration::from_secs(3);

/// Run three replicas of the sample service behind a gateway, and show how it spreads load.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Where clients connect; port 0 is a free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = config::listen)]
    listen: SocketAddr,

    /// Where the dashboard, /metrics and /status are; loopback only.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9901")]
    admin: SocketAddr,

    /// The ports of the replicas on 127.0.0.1, one replica for each; 0 is a free port.
    #[arg(
        long,
        value_name = "PORT,...",
        default_value = "0,0,0",
        value_delimiter = ','
    )]
    ports: Vec<u16>,

    /// Requests a second that the demo sends by itself; 0 is none.
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u32).range(..=100_000))]
    rate: u32,

    /// End after so many seconds, not only on Ctrl-C.
    #[arg(long, value_name = "N")]
    seconds: Option<u32>,

    /// A minute with a queue instead: one service is killed and comes back, and no request is lost.
    #[arg(long)]
    defer: bool,

    /// Three nodes of a key-value store instead: one is killed and comes back, and every acknowledged write is there.
    #[arg(long, conflicts_with = "defer")]
    shard: bool,

    /// Print the config that does the same with `weir serve`, and start nothing.
    #[arg(long)]
    print_config: bool,
}

/// A node of `weir demo --shard`: `weir serve` that ends with its parent.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// The process id of the parent.
    #[arg(long, value_name = "PID")]
    parent: u32,

    #[command(flatten)]
    serve: ServeArgs,
}

pub(crate) fn run_node(args: &NodeArgs) -> ExitCode {
    match end_with(args.parent) {
        Ok(()) => serve::run(&args.serve),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs until Ctrl-C, SIGTERM or the end of `--seconds`.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let mut screen = Screen::stdout();
    if args.print_config && !args.defer && !args.shard {
        let servers = guide::servers_by_hand(&args.ports);
        return screen.print(&guide::config(args.listen, args.admin, &servers));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // This comes before anything is started, so a demo that is told to end while it starts ends in order too.
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    if args.defer {
        return defer::run(args, screen, &runtime, signals);
    }
    if args.shard {
        return shard::run(args, screen, &runtime, signals);
    }

    let ports = (1..).zip(&args.ports);
    let reservations = ports.map(|(number, port)| Reservation::make(number, *port));
    let reservations: Vec<Reservation> = reservations.collect::<anyhow::Result<_>>()?;
    let gateway = start_gateway(args, &reservations)?;
    let replicas = reservations.into_iter().map(Replica::start);
    let replicas: Vec<Replica> = replicas.collect::<anyhow::Result<_>>()?;
    let reached = client::reachable(gateway.addresses()[0]);
    let program = std::env::args().next();
    let guide = Guide {
        program: program.unwrap_or_else(|| "weir".to_owned()),
        gateway: reached,
        admin: args.admin,
        rate: args.rate,
        replicas: &replicas,
    };
    screen.print(&guide.to_string())?;

    let mut show = Show::start(screen, replicas, reached, args)?;
    let seconds_max = args.seconds.unwrap_or(u32::MAX);
    for _second in 0..seconds_max {
        let asked = async { tokio::time::timeout(TICK, signals.next()).await };
        if runtime.block_on(asked) == Ok(Instruction::End) {
            break;
        }
        show.tick()?;
    }
    show.end(gateway)
}

/// Runs the gateway in this process, from the text that `--print-config` prints.
fn start_gateway(args: &DemoArgs, reservations: &[Reservation]) -> anyhow::Result<Gateway> {
    let servers: Vec<SocketAddr> = reservations
        .iter()
        .map(|reservation| reservation.address)
        .collect();
    let text = guide::config(args.listen, args.admin, &servers);
    let mut settings = config::parse(&text, "config of the demo")?.settings;
    settings.timeouts.drain = DRAIN;
    let workers = settings.workers;
    fit_to_descriptors(&mut settings, workers)?;
    Gateway::start(&settings, Box::new(NoFile), Box::new(()))
        .map_err(|error| start_error(error, args))
}

/// Why the gateway did not start, with the flag that helps.
fn start_error(error: StartError, args: &DemoArgs) -> anyhow::Error {
    match error {
        StartError::Listen(address, _) => {
            let flag = if address == args.admin {
                "--admin"
            } else {
                "--listen"
            };
            let other = SocketAddr::new(address.ip(), address.port().wrapping_add(100).max(1024));
            anyhow::anyhow!("{error}, as in: weir demo {flag} {other}")
        }
        _ => error.into(),
    }
}

/// What is checked and shown once a second.
struct Show {
    screen: Screen,
    replicas: Vec<Replica>,
    traffic: Traffic,
    admin: Client,
    before: Status,
}

impl Show {
    /// Begins with the traffic to `gateway`.
    fn start(
        screen: Screen,
        replicas: Vec<Replica>,
        gateway: SocketAddr,
        args: &DemoArgs,
    ) -> anyhow::Result<Self> {
        let mut admin = Client::new(args.admin);
        let before = Status::read(&mut admin).context("cannot read the gateway's status")?;
        let traffic = Traffic::start(gateway, args.rate).context("cannot start the traffic")?;
        Ok(Self {
            screen,
            replicas,
            traffic,
            admin,
            before,
        })
    }

    fn tick(&mut self) -> anyhow::Result<()> {
        for replica in &mut self.replicas {
            if let Some(event) = replica.watch() {
                self.screen.event(&event)?;
            }
        }
        let now = match Status::read(&mut self.admin) {
            Ok(now) => now,
            Err(error) => {
                let event = format!("the gateway's status cannot be read: {error}");
                return self.screen.event(&event);
            }
        };
        let replicas = self.replicas.iter();
        let replicas = replicas.map(|replica| (replica.name(), replica.pid().is_some()));
        let line = spread::line(&self.before, &now, replicas, self.traffic.unanswered());
        self.before = now;
        self.screen.line(&line)
    }

    /// The replicas end last: they must still answer what the gateway has accepted.
    fn end(mut self, gateway: Gateway) -> anyhow::Result<()> {
        drop(self.traffic);
        let is_clean = gateway
            .drain(|_, wait| std::thread::sleep(wait))
            .is_complete;
        drop(self.replicas);
        self.screen.event(if is_clean {
            "weir demo: ended"
        } else {
            "weir demo: ended, and cut off connections that were still open"
        })
    }
}
