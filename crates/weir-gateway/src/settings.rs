//! What a gateway is told to do: plain data that is already valid.
//!
//! The binary crate turns a config file into these structs and refuses what makes no sense. Nothing here parses text or
//! can be invalid. Every limit and deadline is named here, with the default that the reference states. Defaults are
//! chosen for a listener on the open internet.

pub(crate) mod care;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use weir_cache::CachePolicy;
use weir_cache::negotiate::CompressPolicy;
use weir_policy::balance::Method as BalanceMethod;

pub use crate::settings::care::{
    BreakerRule, Fallback, FallbackOn, HealthCheck, PriorityRule, Probe, RateKey, RateRule,
    RetryRule, RouteCare, RouteLimits, StatusSet, UpstreamCare,
};
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
    /// The groups of servers that routes forward to.
    pub upstreams: Vec<Upstream>,
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
}

/// The access log: where it goes and how long lines wait in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// File or standard output.
    pub target: LogTarget,
    /// The shape of a line.
    pub format: LogFormat,
    /// A worker hands its lines over when it has collected this many bytes.
    pub buffer_bytes: usize,
    /// It also hands them over after this long.
    pub flush: Duration,
}

/// Where log lines end up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// `"-"` in the config.
    Stdout,
    /// Appended to; reopened on SIGUSR1.
    File(PathBuf),
}

/// The shape of an access log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// The combined log format of Apache httpd and nginx.
    Combined,
    /// One JSON object a line.
    Json,
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
    /// From SIGTERM until what still runs is cut off.
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

/// The part of a request that the hash balancer keeps together.
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
    /// The value of a header field; absent hashes like an empty one.
    Header(String),
    /// The value of a cookie.
    Cookie(String),
    /// The value of a query parameter, as written in the URL.
    Query(String),
}

/// What is done with the requests of one host, path and set of methods.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The label in metrics: the config's `name`, else host and path.
    pub name: String,
    /// Hosts.
    pub host: HostPattern,
    /// Paths: static, `{name}` and `{*rest}`.
    pub path: String,
    /// Methods, in upper case; `None` is any. GET includes HEAD.
    pub methods: Option<Vec<String>>,
    /// Limits for every request, whatever the action.
    pub limits: RouteLimits,
    /// What the route does.
    pub action: Action,
    /// The app of guard's interface that it belongs to; `None` for routes of a file.
    pub app: Option<Box<str>>,
}

/// Which hosts a route serves. Names are in lower case and carry no port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Every host, also requests without one.
    Any,
    /// One name.
    Exact(String),
    /// `*.example.com` holds `example.com`: any name with at least one more label in front.
    Wildcard(String),
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Exact(name) => f.write_str(name),
            Self::Wildcard(name) => write!(f, "*.{name}"),
        }
    }
}

/// What a route does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Sends the request to an upstream and its answer back.
    Forward(Forward),
    /// Answers with a redirect.
    Redirect(Redirect),
    /// Answers with a fixed response.
    Respond(Respond),
    /// Has a service inside the process answer.
    Serve(Serve),
}

impl Action {
    /// How requests get from here to an upstream, now or later.
    pub fn rule(&self) -> Option<&Forward> {
        match self {
            Self::Forward(rule) => Some(rule),
            Self::Serve(serve) => serve.delivery.as_deref(),
            Self::Redirect(_) | Self::Respond(_) => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn rule_mut(&mut self) -> Option<&mut Forward> {
        match self {
            Self::Forward(rule) => Some(rule),
            Self::Serve(serve) => serve.delivery.as_deref_mut(),
            Self::Redirect(_) | Self::Respond(_) => None,
        }
    }
}

/// How a route has a service answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Serve {
    /// Its name, by which it is opened.
    pub service: String,
    /// Until it has answered; late is 504. Also between two pieces of content.
    pub timeout: Duration,
    /// How its errands get to their upstream, where it has any.
    pub delivery: Option<Box<Forward>>,
}

/// How a route forwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// Index into [`Settings::upstreams`].
    pub upstream: usize,
    /// Removed from the front of the path before forwarding; the rest always begins with `/`.
    pub strip_prefix: Option<String>,
    /// Changes to the request's fields, after the gateway's own.
    pub request_headers: HeaderEdits,
    /// Changes to the response's fields, after the gateway's own.
    pub response_headers: HeaderEdits,
    /// Deadlines on the upstream's side.
    pub timeouts: UpstreamTimeouts,
    /// Bytes of a request body that are collected before a request enters an upstream with a limit or a breaker.
    pub request_buffer: u64,
    /// Bytes of a response that are read ahead of a slow client, from an upstream with a limit.
    pub response_buffer: u64,
    /// How responses are cached; `None` caches nothing. It needs [`Settings::cache`].
    pub cache: Option<Box<CachePolicy>>,
    /// What is compressed for clients that accept it; `None` compresses nothing.
    pub compress: Option<Box<CompressPolicy>>,
    /// Protocols that a client may upgrade to, in lower case. Other requests are answered as if they had asked for no
    /// upgrade.
    pub upgrade: Vec<String>,
    /// When a request is not forwarded, when it is sent again, and what its client gets instead of an answer.
    pub care: Box<RouteCare>,
}

impl Forward {
    /// [`Forward::request_buffer`], unless configured otherwise.
    pub const REQUEST_BUFFER: u64 = 256 << 10;
    /// [`Forward::response_buffer`], unless configured otherwise.
    pub const RESPONSE_BUFFER: u64 = 256 << 10;
}

/// Fields to set (which replaces all of that name) and to remove. Names are in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Name and value.
    pub set: Vec<(String, String)>,
    /// Names.
    pub remove: Vec<String>,
}

impl HeaderEdits {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

/// Deadlines for the upstream's side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Until a connection is open; late means another endpoint is tried, then 504.
    pub connect: Duration,
    /// From the end of the request until the response head is complete; late is 504.
    pub response: Duration,
    /// Between two reads of the response body, or two writes of the request body; late breaks off the response.
    pub idle: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            response: Duration::from_secs(30),
            idle: Duration::from_secs(30),
        }
    }
}

/// A redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The `Location`, in pieces. The request's query is appended if the `Location` has none.
    pub location: Vec<Piece>,
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text that is copied as it is.
    Text(String),
    /// The value of a parameter of the route's path.
    Parameter(String),
}

/// A fixed response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Respond {
    /// 200 to 599.
    pub status: u16,
    /// Must be empty for 204 and 304.
    pub body: Vec<u8>,
    /// Further fields, such as `content-type`. Names are in lower case.
    pub headers: Vec<(String, String)>,
}
