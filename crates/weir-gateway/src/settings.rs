//! What a gateway is told to do: plain data that is already valid.
//!
//! The binary crate turns a config file into these structs and refuses what makes no sense. Nothing here parses text or
//! can be invalid. Every limit and deadline is named here, with the default that the reference states. Defaults are
//! chosen for a listener on the open internet.

pub(crate) mod care;
pub(crate) mod conditions;
pub(crate) mod cors;
pub(crate) mod error_pages;
pub(crate) mod fields;
pub(crate) mod log;
pub(crate) mod route;
pub(crate) mod spread;
pub mod template;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use weir_policy::balance::Method as BalanceMethod;

pub use crate::settings::care::{
    BreakerRule, Fallback, FallbackOn, HealthCheck, PriorityRule, Probe, RateKey, RateRule,
    RetryRule, RouteCare, RouteLimits, StatusSet, UpstreamCare,
};
pub use crate::settings::conditions::{Conditions, Wanted};
pub use crate::settings::cors::{Cors, OriginPattern, Origins};
pub use crate::settings::error_pages::{ErrorPage, ErrorPages};
pub use crate::settings::fields::{AllRoutes, HeaderEdits, RequestId, ResponseHeaders, TrustId};
pub use crate::settings::log::{AccessLog, LogFormat, LogTarget, Redact};
pub use crate::settings::route::{
    Action, Forward, HostPattern, Redirect, Respond, Route, Serve, UpstreamTimeouts,
};
pub use crate::settings::spread::{Cookie, Mirror, SameSite, Share, Split, SplitBy, Sticky};
pub use weir_socket::Address as EndpointAddress;

/// Whether a connection to one address could be meant for the other: the ports are equal, and so are the IP addresses,
/// or one of them stands for all. `[::]` stands for IPv4 addresses too.
pub fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let stands_for =
        |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let (first, second) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port()
        && one.port() != 0
        && (first == second || stands_for(first, second) || stands_for(second, first))
}

/// Everything one gateway process needs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Worker threads; at least 1.
    pub workers: usize,
    /// Where clients connect; at least one.
    pub listeners: Vec<SocketAddr>,
    /// The control listener with `/metrics` and the dashboard.
    pub admin: Option<Admin>,
    /// How the operator is told what happens.
    pub messages: Messages,
    /// Where finished requests are written; `None` writes nothing.
    pub access_log: Option<AccessLog>,
    /// Networks of proxies whose `X-Forwarded-For` says who their clients are.
    pub trusted_proxies: Vec<IpNet>,
    /// Bounds on what clients may use.
    pub limits: Limits,
    /// Deadlines on what clients may take.
    pub timeouts: ClientTimeouts,
    /// Where routes with a cache keep what they store; `None` without such a route.
    pub cache: Option<CacheStorage>,
    /// Who is asked for the addresses of names.
    pub dns: Dns,
    /// What clients read with errors, unless their route says otherwise.
    pub error_pages: ErrorPages,
    /// The groups of servers that routes forward to.
    pub upstreams: Vec<Upstream>,
    /// What all routes have in common.
    pub all_routes: AllRoutes,
    /// What is done with which request. The most specific route wins, whatever the order.
    pub routes: Vec<Route>,
}

/// The budgets of the cache, which all routes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStorage {
    /// Bytes of RAM for everything stored, bookkeeping included.
    pub memory_bytes: u64,
    /// Bytes of RAM held for clients and not stored.
    pub transient_bytes: u64,
    /// A directory for responses that do not fit into RAM.
    pub disk: Option<CacheDisk>,
}

impl CacheStorage {
    /// Bytes of RAM unless the config says otherwise.
    pub const MEMORY_BYTES: u64 = 256 << 20;
    /// The least RAM held for clients unless the config says otherwise, also without a cache.
    pub const TRANSIENT_BYTES_MIN: u64 = 16 << 20;

    /// The usual storage in RAM.
    pub fn in_memory(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            transient_bytes: (memory_bytes / 4).max(Self::TRANSIENT_BYTES_MIN),
            disk: None,
        }
    }
}

/// The cache's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDisk {
    /// It is created if it does not exist; nothing else may be in it.
    pub path: PathBuf,
    /// Bytes of all files together.
    pub bytes: u64,
}

/// Who is asked for the addresses of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// Name servers; if there are none, those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
}

/// The control listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// A loopback address unless `token` is set.
    pub listen: SocketAddr,
    /// When set, every request needs `Authorization: Bearer TOKEN`.
    pub token: Option<String>,
    /// If set, apps are accepted as by guard, and kept in this file.
    pub guard_file: Option<PathBuf>,
    /// Where changes of servers are kept; `None`: they end with the process.
    pub changes_file: Option<PathBuf>,
}

/// The messages on standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Messages {
    /// The shape of a message.
    pub format: MessageFormat,
    /// What is less is not told.
    pub level_min: Level,
}

/// The shape of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MessageFormat {
    /// Time, level and the message, for people; in colours on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much a message matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something has changed as it should.
    #[default]
    Info,
    /// Something fails that may mend by itself, and others stand in for it.
    Warning,
    /// Something was not done, or is lost.
    Error,
}

impl Level {
    /// The name in messages and in the config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warn",
            Self::Error => "error",
        }
    }
}

/// Bounds on what clients may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Client connections open at once, all listeners and workers together.
    pub connections: usize,
    /// Client connections open at once from one address.
    pub connections_per_address: PerAddress,
    /// Bytes of a request head; more is 431 (or 414 when the request line alone is longer).
    pub header_bytes: usize,
    /// Header fields of a request; more is 431.
    pub header_count: usize,
    /// Bytes of a request body unless the route says otherwise; more is 413.
    pub body_bytes: u64,
    /// Bytes of a request body that a client must send each second, counted over the time spent waiting for it, after
    /// the first [`ClientTimeouts::body`]; slower is 408. Zero allows any speed.
    pub body_rate: u64,
    /// Bytes of bodies held for clients that send or read slowly, all together; see [`Forward::request_buffer`]. The
    /// part of a body that fits into one buffer of 32 KiB does not count.
    pub held_body_bytes: u64,
    /// Idle upstream connections kept in all. The bound keeps many endpoints from using up the descriptors that clients
    /// need.
    pub idle_connections: usize,
}

/// How many connections one client address may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerAddress {
    /// The default: the bound holds only for remote addresses, since connections from loopback come from proxies and
    /// tools on this machine.
    Remote(u32),
    /// The operator's own bound: it holds for every address.
    Every(u32),
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 65_536,
            connections_per_address: PerAddress::Remote(1024),
            header_bytes: 32 << 10,
            header_count: 100,
            body_bytes: 1 << 30,
            body_rate: 500,
            held_body_bytes: 128 << 20,
            idle_connections: 8192,
        }
    }
}

/// Deadlines for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// From the first byte of a request head to its end; late is 408.
    pub head: Duration,
    /// An open connection without a request; late is a silent close.
    pub idle: Duration,
    /// Between two reads of a request body; late is 408.
    pub body: Duration,
    /// Between two writes that make progress to a client that does not read; late is a close.
    pub send: Duration,
    /// A tunnel (WebSocket) without a byte in either direction; late is a close.
    pub tunnel: Duration,
    /// From SIGTERM until draining begins: clients are served as ever, and balancers are told to leave.
    pub drain_delay: Duration,
    /// From the beginning of draining until what still runs is cut off.
    pub drain: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            body: Duration::from_secs(30),
            send: Duration::from_secs(30),
            tunnel: Duration::from_secs(3600),
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(30),
        }
    }
}

/// A named group of equivalent servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The name that routes, metrics and logs use.
    pub name: String,
    /// At least one.
    pub servers: Vec<Server>,
    /// How a request's server is chosen.
    pub balance: BalanceMethod,
    /// What the hash balancer hashes; other balancers ignore it.
    pub hash_on: HashOn,
    /// How clients come back to the endpoint that has served them; `None`: they do not.
    pub sticky: Option<Box<Sticky>>,
    /// Idle connections kept per server and worker.
    pub idle_connections: usize,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Which endpoints get requests, and how many they may hold at once.
    pub care: UpstreamCare,
}

impl Upstream {
    /// Idle connections kept per server and worker unless the config says otherwise.
    pub const IDLE_CONNECTIONS: usize = 1024;
    /// How long an idle connection is kept unless the config says otherwise.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(50);
}

/// One server of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// As written in the config. It is the label in metrics, and the `Host` of requests that came without one.
    pub label: String,
    /// Where to connect.
    pub address: ServerAddress,
    /// Its share of the requests relative to its siblings; at least 1. Each address of a name has this weight.
    pub weight: u32,
    /// Takes no new requests. Only the admin listener sets it.
    pub is_draining: bool,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// It needs no look-up.
    Known(EndpointAddress),
    /// Each current address of the name is an endpoint.
    Name(String, u16),
}

/// The part of a request that is hashed, so that all that have the same stay together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashOn {
    /// The address of the client's end of the connection.
    ClientAddress,
    /// The `Host` of the request.
    Host,
    /// The path without the query.
    Path,
    /// Path and query.
    Target,
    /// The value of a header field. For a balancer, an absent part hashes like an empty one.
    Header(String),
    /// The value of a cookie.
    Cookie(String),
    /// The value of a query parameter, as written in the URL.
    Query(String),
}
