//! `weir demo --defer`: a minute with a queue. A service is killed and comes back; what clients see meanwhile, and what becomes of what
//! they sent.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::runtime::Runtime;
use weir_gateway::Gateway;

use super::directory::Directory;
use super::replica::{Replica, Reservation};
use super::screen::Screen;
use super::{DRAIN, DemoArgs, TICK, start_error};
use crate::commands::client::{self, Client};
use crate::commands::serve::fit_to_descriptors;
use crate::commands::serve::in_process::OpenServices;
use crate::commands::serve::reloading::NoFile;
use crate::commands::signals::{Instruction, Signals};
use crate::config;

/// How long it shows, unless it is said.
const SECONDS: u32 = 60;
/// When the service is killed, and how long it is away.
const KILLED_AT: u32 = 10;
const AWAY: Duration = Duration::from_secs(15);
/// When messages are sent that nobody wants any more once the service is back.
const LATE_AT: u32 = 13;
const LATE: usize = 3;

/// The gateway of the demo.
fn config_text(args: &DemoArgs, server: std::net::SocketAddr, directory: &Path) -> String {
    let (listen, admin) = (args.listen, args.admin);
    let path = directory.display();
    format!(
        r#"# The gateway of `weir demo --defer`, for `weir serve --config FILE`. Its service is
#   weir app --listen {server} --slots 2 --delay 10ms
[admin]
listen = "{admin}"

[[listener]]
address = "{listen}"

[queue.events]
path = "{path}"

[upstream.service]
servers = ["{server}"]

[[route]]
path = "/sendEvent"
methods = ["POST"]
defer = "events"
upstream = "service"

[[route]]
path = "/soon"
methods = ["POST"]
defer = {{ queue = "events", ttl = "5s" }}
rewrite = "/sendEvent"
upstream = "service"
"#
    )
}

pub(super) fn run(
    args: &DemoArgs,
    mut screen: Screen,
    runtime: &Runtime,
    mut signals: Signals,
) -> anyhow::Result<()> {
    let directory = Directory::new();
    let reservation = Reservation::make(1, args.ports[0])?;
    let reservation = reservation.serving("service", &["--slots", "2", "--delay", "10ms"], AWAY);
    let text = config_text(args, reservation.address, directory.path());
    if args.print_config {
        return screen.print(&text);
    }
    let gateway = start_gateway(args, &text)?;
    let service = Replica::start(reservation)?;
    let reached = client::reachable(gateway.addresses()[0]);
    screen.print(&guide(args, reached, &service))?;
    let traffic = Traffic::start(reached, args.rate.clamp(1, 10_000))?;
    let mut show = Show {
        screen,
        service,
        traffic,
        admin: Client::new(args.admin),
        sender: Client::new(reached),
        delivered: 0,
        has_caught_up: false,
    };
    for second in 0..args.seconds.unwrap_or(SECONDS) {
        let asked = async { tokio::time::timeout(TICK, signals.next()).await };
        if runtime.block_on(asked) == Ok(Instruction::End) {
            break;
        }
        show.tick(second, args)?;
    }
    show.end(gateway)
}

fn start_gateway(args: &DemoArgs, text: &str) -> anyhow::Result<Gateway> {
    let config = config::parse(text, "config of the demo")?;
    let mut settings = config.settings;
    settings.timeouts.drain = DRAIN;
    let workers = settings.workers;
    fit_to_descriptors(&mut settings, workers)?;
    let services = OpenServices::new(Arc::new(Mutex::new(config.services)));
    let started = Gateway::start(&settings, Box::new(NoFile), Box::new(services));
    started.map_err(|error| start_error(error, args))
}

fn guide(args: &DemoArgs, gateway: std::net::SocketAddr, service: &Replica) -> String {
    let (admin, rate) = (args.admin, args.rate);
    let (address, pid) = (service.address(), service.pid().unwrap_or_default());
    let away = AWAY.as_secs();
    format!(
        "weir demo --defer: a gateway keeps requests, and delivers them to a service that is away for a while\n\n\
         \u{20} gateway     http://{gateway}/sendEvent   answers 202 once a request is on the disk\n\
         \u{20} dashboard   http://{admin}/           with the queue and its dead letters\n\
         \u{20} service     http://{address}/           pid {pid}, takes 200 requests a second\n\
         \u{20} traffic     POST /sendEvent            {rate} requests a second, sent by the demo\n\n\
         In another terminal, try\n\n\
         \u{20} curl -i -d hello http://{gateway}/sendEvent          the Location says what becomes of it\n\
         \u{20} weir queue list --admin {admin}            what waits\n\
         \u{20} weir queue dead list events --admin {admin}\n\n\
         After {KILLED_AT} seconds the service is killed, and it is back {away} seconds later.\n\n"
    )
}

/// What is checked and shown once a second.
struct Show {
    screen: Screen,
    service: Replica,
    traffic: Traffic,
    admin: Client,
    sender: Client,
    delivered: u64,
    /// What waited while the service was away is delivered, and that was told.
    has_caught_up: bool,
}

impl Show {
    fn tick(&mut self, second: u32, args: &DemoArgs) -> anyhow::Result<()> {
        if second == KILLED_AT
            && let Some(pid) = self
                .service
                .pid()
                .and_then(|pid| Pid::from_raw(pid.cast_signed()))
        {
            self.screen
                .event("the service is killed: clients see no difference, and requests wait")?;
            let _ = kill_process(pid, Signal::KILL);
        }
        if second == LATE_AT {
            for _ in 0..LATE {
                let _ = self
                    .sender
                    .ask("POST", "/soon", "", b"before it is too late");
            }
            self.screen.event(
                "3 messages are sent that nobody wants after 5 seconds: they will be dead letters",
            )?;
        }
        if let Some(event) = self.service.watch() {
            self.screen.event(&event)?;
        }
        let taken = self.traffic.take();
        let queue = self.queue().context("cannot read the gateway's status")?;
        let number = |name: &str| queue[name].as_u64().unwrap_or(0);
        let delivered = number("delivered");
        let oldest = Duration::from_millis(number("oldest_ms")).as_secs();
        let (waiting, dead) = (number("waiting"), number("dead"));
        let mut line = format!(
            "accepted {:>4}/s, the slowest in {:>5.1} ms │ {waiting:>5} wait, for up to {oldest:>2} s │ delivered {:>4}/s",
            taken.accepted,
            taken.slowest.as_secs_f64() * 1e3,
            delivered - self.delivered,
        );
        if dead > 0 {
            let _ = write!(line, " │ {dead} dead letters");
        }
        if taken.failed > 0 {
            let _ = write!(line, " │ {} failed", taken.failed);
        }
        self.delivered = delivered;
        let is_back = second > KILLED_AT + AWAY.as_secs() as u32;
        if is_back && oldest == 0 && dead > 0 && !self.has_caught_up {
            self.has_caught_up = true;
            let admin = args.admin;
            self.screen.event(&format!(
                "all that waited is delivered; the dead letters are when you say so: weir queue dead redrive events --all --admin {admin}"
            ))?;
        }
        self.screen.line(&line)
    }

    fn queue(&mut self) -> anyhow::Result<Value> {
        let page = self.admin.get("/queues")?;
        let mut queues: Value = serde_json::from_slice(&page)?;
        Ok(queues[0].take())
    }

    /// The service ends last: it must still answer what is under way.
    fn end(mut self, gateway: Gateway) -> anyhow::Result<()> {
        let queue = self.queue().context("cannot read the gateway's status")?;
        let number = |name: &str| queue[name].as_u64().unwrap_or(0);
        let summary = format!(
            "weir demo: {} accepted, {} failed; {} delivered, {} wait, {} dead letters",
            number("accepted"),
            self.traffic.failed_in_all(),
            number("delivered"),
            number("waiting"),
            number("dead"),
        );
        drop(self.traffic);
        gateway.drain(|_, wait| thread::sleep(wait));
        drop(self.service);
        self.screen.event(&summary)
    }
}

/// Requests of a second.
#[derive(Debug, Default, Clone, Copy)]
struct Taken {
    accepted: u64,
    failed: u64,
    slowest: Duration,
}

/// A client that sends at a steady pace until this is dropped.
struct Traffic {
    /// Nothing is sent on this: when it closes, the thread ends.
    _flow: SyncSender<()>,
    taken: Arc<Mutex<(Taken, u64)>>,
}

impl Traffic {
    fn start(gateway: std::net::SocketAddr, rate: u32) -> anyhow::Result<Self> {
        let (flow, ended) = sync_channel(0);
        let taken = Arc::<Mutex<(Taken, u64)>>::default();
        let noted = Arc::clone(&taken);
        thread::Builder::new()
            .name("traffic".to_owned())
            .spawn(move || send(gateway, rate, &ended, &noted))?;
        Ok(Self { _flow: flow, taken })
    }

    /// What came of the last second.
    fn take(&self) -> Taken {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut taken.0)
    }

    fn failed_in_all(&self) -> u64 {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

fn send(
    gateway: std::net::SocketAddr,
    rate: u32,
    ended: &Receiver<()>,
    taken: &Mutex<(Taken, u64)>,
) {
    let mut client = Client::new(gateway);
    let period = Duration::from_secs(1) / rate;
    let mut due = Instant::now();
    let is_over = |wait| ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
    while !is_over(due.saturating_duration_since(Instant::now())) {
        let began = Instant::now();
        let answer = client.ask("POST", "/sendEvent", "", br#"{"kind": "click"}"#);
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.is_ok_and(|answer| answer.status == 202) {
            taken.0.accepted += 1;
        } else {
            taken.0.failed += 1;
            taken.1 += 1;
        }
        taken.0.slowest = taken.0.slowest.max(began.elapsed());
        drop(taken);
        due = (due + period).max(Instant::now());
    }
}
