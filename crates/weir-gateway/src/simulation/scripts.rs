//! What the gateway does about upstreams that fail, are late or change, told in tables.
//!
//! A scene says what becomes of each request that comes to an upstream, in the order in which they come and whichever endpoint
//! they come to ([`endpoint`]); and who asks for what, and when ([`asking`]). A row of a table says what a client gets, after
//! how much simulated time, and how often the upstream was asked. When all have left, nothing may be held.
//!
//! The code between the two is the real one, over socket pairs. Not here: what a log or a metric says, reloads, several workers,
//! real peers; those are end-to-end tests.

mod asking;
mod endpoint;
mod fallbacks;
mod fills;
mod hedges;
mod retries;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_cache::CachePolicy;
use weir_policy::balance::Method as BalanceMethod;

use crate::metrics::Counter;
use crate::settings::{
    Action, AllRoutes, CacheStorage, ClientTimeouts, Conditions, Dns, EndpointAddress, ErrorPages,
    Forward, HashOn, HeaderEdits, HostPattern, Limits, Messages, ResponseHeaders, Route, RouteCare,
    RouteLimits, Server, ServerAddress, Settings, Upstream, UpstreamCare, UpstreamTimeouts,
};
use crate::simulation::scripts::asking::{Ask, Got};
use crate::simulation::scripts::endpoint::{Act, Asked, Stage};
use crate::simulation::tasks::Tasks;
use crate::simulation::{Gateway, PATIENCE, in_simulated_time, run_out};

/// Scenes are played side by side, each with sockets of its own.
static NEXT_SOCKET: AtomicU64 = AtomicU64::new(0);
/// What the machinery may take: two ticks of the deadlines, and a step of simulated time.
const SLACK_MS: u64 = 210;
/// When a route gives up an upstream that says nothing.
const RESPONSE_MS: u64 = 3_000;

/// A gateway with one route, whose upstream is called `app`, and with another upstream that nobody is sent to.
struct Scene {
    settings: Settings,
    /// Of `app`, and of the other one.
    acts: [Vec<Act>; 2],
    /// Each endpoint's, of both. Those that refuse have none.
    sockets: [Vec<PathBuf>; 2],
}

/// What came of it.
struct Played {
    /// One for each that asked, in their order.
    got: Vec<Got>,
    /// What `app` was asked.
    asked: Vec<Asked>,
    /// What the other upstream was asked.
    asked_elsewhere: Vec<Asked>,
    /// How often a request was counted as sent again to `app`, and as not sent again for want of a budget.
    retries: u64,
    retries_refused: u64,
}

impl Scene {
    /// `app` has so many endpoints. The last act is for all requests that follow too.
    fn new(endpoints: usize, acts: &[Act]) -> Self {
        let sockets = [endpoints, 1].map(|count| (0..count).map(|_| socket()).collect::<Vec<_>>());
        let upstreams = vec![upstream("app", &sockets[0]), upstream("other", &sockets[1])];
        Self {
            settings: Settings {
                workers: 1,
                listeners: Vec::new(),
                admin: None,
                messages: Messages::default(),
                access_log: None,
                cache: Some(CacheStorage::in_memory(1 << 20)),
                trusted_proxies: Vec::new(),
                dns: Dns::default(),
                error_pages: ErrorPages::default(),
                limits: Limits::default(),
                timeouts: ClientTimeouts::default(),
                upstreams,
                all_routes: AllRoutes::default(),
                routes: vec![route()],
            },
            acts: [acts.to_vec(), Vec::new()],
            sockets,
        }
    }

    /// The same with a route that caches.
    fn caching(acts: &[Act], policy: CachePolicy) -> Self {
        let mut scene = Self::new(1, acts);
        scene.rule().cache = Some(Box::new(policy));
        scene
    }

    /// Adds endpoints to `app` that refuse all connections.
    fn add_refusing(&mut self, count: usize) {
        let nobody: Vec<_> = (0..count).map(|_| socket()).collect();
        let refusing = upstream("app", &nobody).servers;
        self.settings.upstreams[0].servers.extend(refusing);
    }

    /// The other upstream does this.
    fn elsewhere(&mut self, acts: &[Act]) {
        self.acts[1] = acts.to_vec();
    }

    fn rule(&mut self) -> &mut Forward {
        match &mut self.settings.routes[0].action {
            Action::Forward(rule) => rule,
            _ => unreachable!("the route forwards"),
        }
    }

    /// What is done for `app`.
    fn care(&mut self) -> &mut UpstreamCare {
        &mut self.settings.upstreams[0].care
    }

    fn play(mut self, asks: &[Ask]) -> Played {
        let mut played = None;
        fastrand::seed(1);
        in_simulated_time("a scene", async || {
            let tasks = Tasks::new();
            let acts = std::mem::take(&mut self.acts);
            let stages = acts.map(|acts| Rc::new(Stage::new(acts)));
            for (stage, sockets) in stages.iter().zip(&self.sockets) {
                if !stage.is_dark() {
                    stage.open(&tasks, sockets);
                }
            }
            let gateway = Gateway::start(&self.settings);
            let all = asking::send_all(asks, &tasks, &gateway);
            assert!(tasks.run(PATIENCE, || {}).await, "somebody waits for ever");
            assert_eq!(run_out(&tasks, &gateway).await, Ok(()));
            let view = gateway.workers[0].view();
            let endpoints = || view.upstreams[0].endpoints.iter();
            let retries = endpoints().flat_map(|endpoint| &endpoint.metrics().retries);
            let refused = endpoints().map(|endpoint| endpoint.metrics().retries_refused.read());
            played = Some(Played {
                retries: retries.map(Counter::read).sum(),
                retries_refused: refused.sum(),
                got: all.take(),
                asked: stages[0].asked.take(),
                asked_elsewhere: stages[1].asked.take(),
            });
        });
        played.expect("it was played")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for socket in self.sockets.iter().flatten() {
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// A path where nobody listens yet.
fn socket() -> PathBuf {
    let number = NEXT_SOCKET.fetch_add(1, Ordering::Relaxed);
    let name = format!("weir-script-{}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}

fn upstream(name: &str, sockets: &[PathBuf]) -> Upstream {
    let server = |socket: &PathBuf| Server {
        label: socket.display().to_string(),
        address: ServerAddress::Known(EndpointAddress::Unix(socket.clone())),
        weight: 1,
        is_draining: false,
    };
    Upstream {
        name: name.to_owned(),
        servers: sockets.iter().map(server).collect(),
        balance: BalanceMethod::RoundRobin,
        hash_on: HashOn::Host,
        sticky: None,
        idle_connections: 100,
        idle_timeout: Duration::from_secs(50),
        care: UpstreamCare::default(),
    }
}

/// All that is asked for goes to `app`.
fn route() -> Route {
    Route {
        name: "it".to_owned(),
        host: HostPattern::Any,
        path: "/{*rest}".to_owned(),
        methods: None,
        conditions: Conditions::default(),
        cors: None,
        error_pages: ErrorPages::default(),
        response_headers: ResponseHeaders::default(),
        limits: RouteLimits {
            rates: Vec::new(),
            body_bytes: 1 << 20,
        },
        action: Action::Forward(Forward {
            upstream: 0,
            split: None,
            mirror: None,
            strip_prefix: None,
            rewrite: None,
            request_headers: HeaderEdits::default(),
            timeouts: UpstreamTimeouts {
                connect: Duration::from_secs(1),
                response: Duration::from_millis(RESPONSE_MS),
                idle: Duration::from_secs(10),
            },
            request_buffer: Forward::REQUEST_BUFFER,
            response_buffer: Forward::RESPONSE_BUFFER,
            cache: None,
            compress: None,
            upgrade: Vec::new(),
            care: Box::<RouteCare>::default(),
        }),
        app: None,
    }
}
