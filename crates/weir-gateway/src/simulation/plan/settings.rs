//! The configuration of one simulation.

use std::path::Path;
use std::time::Duration;

use weir_cache::CachePolicy;
use weir_policy::balance::Method as BalanceMethod;
use weir_policy::limit::concurrency::{self, Limit};

use crate::settings::template::Template;
use crate::settings::{
    Action, AllRoutes, CacheStorage, ClientTimeouts, Conditions, Dns, EndpointAddress, ErrorPages,
    Forward, HashOn, HeaderEdits, HostPattern, Limits, Messages, Respond, ResponseHeaders, Route,
    RouteCare, RouteLimits, Server, ServerAddress, Settings, Upstream, UpstreamCare,
    UpstreamTimeouts,
};
use crate::simulation::plan::{Draw, FORBIDDEN, SET_FIELD};

/// A route with a cache, one that nobody is let through by, and sometimes one for what changes something.
pub(super) fn settings(
    draw: &mut Draw<'_>,
    policy: &CachePolicy,
    sets_field: bool,
    socket: &Path,
    workers: usize,
) -> Settings {
    let (name, value) = SET_FIELD;
    let set = sets_field.then(|| (name.to_owned(), Template::fixed(value)));
    let forward = |cache| {
        Action::Forward(Forward {
            upstream: 0,
            split: None,
            mirror: None,
            strip_prefix: None,
            rewrite: None,
            request_headers: HeaderEdits {
                set: set.clone().into_iter().collect(),
                ..HeaderEdits::default()
            },
            timeouts: UpstreamTimeouts {
                connect: Duration::from_secs(1),
                response: Duration::from_secs(10),
                idle: Duration::from_secs(10),
            },
            request_buffer: Forward::REQUEST_BUFFER,
            response_buffer: 50_000,
            cache,
            compress: None,
            upgrade: Vec::new(),
            care: Box::<RouteCare>::default(),
        })
    };
    let forbidden = Respond {
        status: 403,
        body: Vec::new(),
        headers: Vec::new(),
    };
    let mut routes = vec![
        route("/{*rest}", None, forward(Some(Box::new(policy.clone())))),
        route(FORBIDDEN, None, Action::Respond(forbidden)),
    ];
    if draw.chance(0.5) {
        // What changes something takes another route, which knows nothing of the cache.
        routes[0].methods = Some(["GET", "POST"].map(str::to_owned).to_vec());
        routes.push(route("/{*rest}", Some(&["PUT", "DELETE"]), forward(None)));
    }
    Settings {
        workers,
        listeners: Vec::new(),
        admin: None,
        messages: Messages::default(),
        access_log: None,
        cache: Some(CacheStorage {
            transient_bytes: draw.one(&[100_000, 1 << 20, 16 << 20]),
            ..CacheStorage::in_memory(draw.one(&[1 << 20, 4 << 20, 64 << 20]))
        }),
        trusted_proxies: Vec::new(),
        dns: Dns::default(),
        error_pages: ErrorPages::default(),
        limits: Limits::default(),
        timeouts: ClientTimeouts::default(),
        all_routes: AllRoutes::default(),
        upstreams: vec![upstream(draw, socket)],
        routes,
    }
}

fn route(path: &str, methods: Option<&[&str]>, action: Action) -> Route {
    Route {
        name: path.to_owned(),
        host: HostPattern::Any,
        path: path.to_owned(),
        methods: methods.map(|all| all.iter().map(|&one| one.to_owned()).collect()),
        conditions: Conditions::default(),
        cors: None,
        error_pages: ErrorPages::default(),
        response_headers: ResponseHeaders::default(),
        limits: RouteLimits {
            rates: Vec::new(),
            body_bytes: 1 << 20,
        },
        action,
        app: None,
    }
}

fn upstream(draw: &mut Draw<'_>, socket: &Path) -> Upstream {
    let limit = draw.one(&[None, None, None, Some(Limit::Fixed(2))]);
    let limit = limit.map(|limit| concurrency::Settings {
        limit,
        streams_max: 1,
        ..concurrency::Settings::default()
    });
    Upstream {
        name: "app".to_owned(),
        servers: vec![Server {
            label: "app".to_owned(),
            address: ServerAddress::Known(EndpointAddress::Unix(socket.to_owned())),
            weight: 1,
            is_draining: false,
        }],
        balance: BalanceMethod::RoundRobin,
        hash_on: HashOn::Host,
        sticky: None,
        idle_connections: draw.one(&[0, 1, 100]),
        idle_timeout: Duration::from_secs(5),
        care: UpstreamCare {
            concurrency: limit,
            ..UpstreamCare::default()
        },
    }
}
