//! On the plain path a request allocates nothing once the gateway is warm: not in the worker, not for its log line.
//!
//! All allocations of the process are counted, those of the client and the origin here too, which make none.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_cache::CachePolicy;
use weir_cache::negotiate::CompressPolicy;
use weir_cache::policy::StatusMatch;
use weir_gateway::settings::template::{Known, Part, TABLE, Template, Variable};
use weir_gateway::settings::{
    AccessLog, Action, AllRoutes, CacheStorage, ClientTimeouts, Conditions, Dns, EndpointAddress,
    ErrorPages, Forward, HashOn, HeaderEdits, HostPattern, Limits, LogFormat, LogTarget, Messages,
    Redact, RequestId, ResponseHeaders, Route, RouteLimits, Server, ServerAddress, Settings,
    TrustId, Upstream, UpstreamCare, UpstreamTimeouts,
};
use weir_gateway::{App, Gateway, Source, StartError};
use weir_policy::balance::Method;

use crate::origin;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const WARM_UP_REQUESTS: usize = 1_000;
const COUNTED_REQUESTS: usize = 10_000;
/// Times that a count that is not zero is made, before it is believed.
const ROUNDS: u32 = 3;
/// Connections that take turns, or are all busy at once.
const CONNECTIONS: usize = 64;

const GET: &[u8] =
    b"GET /items/17?full=yes HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test\r\n\
    Accept: */*\r\nAccept-Encoding: gzip\r\nReferer: http://www.example.com/items\r\n\r\n";
const HIT: &[u8] =
    b"GET /items/17?full=yes HTTP/1.1\r\nHost: cached.example.com\r\nUser-Agent: test\r\n\
    Accept: */*\r\nAccept-Encoding: gzip\r\nReferer: http://www.example.com/items\r\n\r\n";
const FORM_HIT: &[u8] =
    b"GET /items/large HTTP/1.1\r\nHost: cached.example.com\r\nUser-Agent: test\r\n\
    Accept: */*\r\nAccept-Encoding: gzip, deflate, br\r\n\r\n";
const POST: &[u8] = b"POST /items HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test\r\n\
    Content-Type: application/json\r\nContent-Length: 27\r\n\r\n{\"name\": \"weir\", \"wall\": 1}";

/// One test, because another one beside it, or the runner's report on it, would be counted too.
#[test]
fn a_warm_gateway_allocates_nothing_for_a_request() {
    let directory = Directory::new();
    for format in [LogFormat::Combined, everything(), text()] {
        let gateway = Running::start(origin::start(), format, &directory);
        let mut connection = gateway.connect();
        assert_no_allocations(&directory, "GET", || connection.exchange(GET));
        assert_no_allocations(&directory, "POST", || connection.exchange(POST));
        assert_no_allocations(&directory, "cache hit", || connection.exchange(HIT));
        let what = "hit of a compressed form";
        assert_no_allocations(&directory, what, || connection.exchange(FORM_HIT));
        assert!(connection.has_received(b"\r\nContent-Encoding: br\r\n"));
        let mut connections: [_; CONNECTIONS] = std::array::from_fn(|_| gateway.connect());
        let mut turn = 0;
        assert_no_allocations(&directory, "connections that take turns", || {
            connections[turn % CONNECTIONS].exchange(GET);
            turn += 1;
        });
        drop((connection, connections));
        gateway.end();
    }
    let origin = origin::start_together(CONNECTIONS);
    let gateway = Running::start(origin, LogFormat::Combined, &directory);
    let mut connections: [_; CONNECTIONS] = std::array::from_fn(|_| gateway.connect());
    let mut turn = 0;
    assert_no_allocations(&directory, "connections that are busy at once", || {
        if turn % CONNECTIONS == 0 {
            for connection in &mut connections {
                connection.send(GET);
            }
        }
        connections[turn % CONNECTIONS].receive();
        turn += 1;
    });
    drop(connections);
    gateway.end();
}

/// Counts what the process allocates while `request` is made so many times, after the warm-up.
fn assert_no_allocations(directory: &Directory, what: &str, mut request: impl FnMut()) {
    for _ in 0..WARM_UP_REQUESTS {
        request();
    }
    // A queue of the runtime may find its size late, on a busy machine. What a request allocates is there every time.
    for _ in 1..ROUNDS {
        if count(directory, &mut request).is_ok() {
            return;
        }
    }
    if let Err(found) = count(directory, &mut request) {
        panic!("{what}: {found}");
    }
}

/// Counts allocations; the error says how many there were, and where.
fn count(directory: &Directory, request: &mut impl FnMut()) -> Result<(), String> {
    // A profile says where the allocations were made; it is written when there are any.
    let profile = directory.0.join("allocations.json");
    let profiler = dhat::Profiler::builder()
        .testing()
        .file_name(&profile)
        .build();
    for _ in 0..COUNTED_REQUESTS {
        request();
    }
    let stats = dhat::HeapStats::get();
    if stats.total_blocks == 0 {
        return Ok(());
    }
    // Only a failed assertion of the profiler writes the profile.
    let _ = std::panic::catch_unwind(|| dhat::assert_eq!(stats.total_blocks, 0));
    drop(profiler);
    let places = std::fs::read_to_string(&profile).unwrap_or_default();
    Err(format!(
        "{} allocations of {} bytes in {COUNTED_REQUESTS} requests, from\n{places}",
        stats.total_blocks, stats.total_bytes
    ))
}

/// A gateway with one worker in this process.
struct Running {
    gateway: Gateway,
    address: SocketAddr,
    log: PathBuf,
}

impl Running {
    fn start(origin: SocketAddr, format: LogFormat, directory: &Directory) -> Self {
        let address = free_address();
        let log = directory.0.join(format!("access-{}.log", address.port()));
        let settings = settings(address, origin, &log, format);
        let gateway =
            Gateway::start(&settings, Box::new(Fixed), Box::new(())).expect("the gateway starts");
        Self {
            gateway,
            address,
            log,
        }
    }

    fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).expect("the gateway accepts");
        stream.set_nodelay(true).expect("Nagle can be switched off");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout can be set");
        Connection {
            stream,
            buffer: [0; 4096],
        }
    }

    /// Ends the gateway; it did log what it did.
    fn end(self) {
        assert!(
            self.gateway
                .drain(|_, wait| std::thread::sleep(wait))
                .is_complete,
            "everything ends"
        );
        let log = std::fs::read_to_string(&self.log).expect("the log is there");
        assert!(
            log.lines().count() >= COUNTED_REQUESTS,
            "{}",
            self.log.display()
        );
        assert!(log.contains("www.example.com/items"), "{log:.200}");
    }
}

/// A client's connection, with memory of its own for everything.
struct Connection {
    stream: TcpStream,
    buffer: [u8; 4096],
}

impl Connection {
    fn exchange(&mut self, request: &[u8]) {
        self.send(request);
        self.receive();
    }

    fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).expect("the gateway reads");
    }

    fn receive(&mut self) {
        let mut filled = 0;
        while !origin::is_whole(&self.buffer[..filled]) {
            let read = self.stream.read(&mut self.buffer[filled..]);
            let count = read.expect("the gateway answers");
            assert!(count > 0, "the gateway keeps the connection");
            filled += count;
        }
        assert!(self.buffer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }

    /// Whether the last response has `bytes` in it.
    fn has_received(&self, bytes: &[u8]) -> bool {
        let mut windows = self.buffer.windows(bytes.len());
        windows.any(|window| window == bytes)
    }
}

/// A configuration that stays as it is.
#[derive(Debug)]
struct Fixed;

impl Source for Fixed {
    fn read(&self) -> Result<Settings, String> {
        Err("it stays as it is".to_owned())
    }

    fn explain(&self, error: StartError) -> String {
        error.to_string()
    }

    fn server(&self, _text: &str) -> Result<Server, String> {
        Err("it stays as it is".to_owned())
    }

    fn app(&self, _json: &[u8]) -> Result<App, String> {
        Err("it stays as it is".to_owned())
    }
}

/// A line that says all that is known.
fn everything() -> LogFormat {
    let header = [
        Variable::RequestHeader("accept".to_owned()),
        Variable::ResponseHeader("date".to_owned()),
    ];
    let all = TABLE.iter().map(|entry| entry.variable.clone());
    LogFormat::Json(all.chain(header).collect())
}

fn text() -> LogFormat {
    LogFormat::Text(Template {
        parts: vec![
            Part::Variable(Variable::Time),
            Part::Text(" ".to_owned()),
            Part::Variable(Variable::Referer),
        ],
    })
}

/// Fields that say all that is known of a request.
fn said() -> HeaderEdits {
    let known = TABLE
        .iter()
        .filter(|entry| entry.known == Known::WithRequest);
    let parts = known.map(|entry| Part::Variable(entry.variable.clone()));
    let value = Template {
        parts: parts.collect(),
    };
    HeaderEdits {
        set: vec![("x-said".to_owned(), value.clone())],
        add: vec![("x-more".to_owned(), value)],
        remove: vec!["x-other".to_owned()],
    }
}

/// The plain path: a host of its own, other hosts beside it, every field that is usually set.
fn settings(address: SocketAddr, origin: SocketAddr, log: &Path, format: LogFormat) -> Settings {
    // Filling variables allocates nothing either.
    let has_variables = matches!(format, LogFormat::Json(_));
    let edits = if has_variables {
        said()
    } else {
        HeaderEdits::default()
    };
    Settings {
        workers: 1,
        listeners: vec![address],
        admin: None,
        messages: Messages::default(),
        access_log: Some(AccessLog {
            target: LogTarget::File(log.to_owned()),
            format,
            redact: Redact::Parameters(vec!["token".to_owned()]),
            buffer_bytes: 64 << 10,
            flush: Duration::from_secs(1),
        }),
        limits: Limits::default(),
        cache: Some(CacheStorage::in_memory(16 << 20)),
        trusted_proxies: Vec::new(),
        dns: Dns::default(),
        error_pages: ErrorPages::default(),
        timeouts: ClientTimeouts::default(),
        all_routes: AllRoutes {
            request_id: has_variables.then(|| RequestId {
                field: "x-request-id".to_owned(),
                trust: TrustId::Any,
                respond: true,
            }),
            ..AllRoutes::default()
        },
        upstreams: vec![upstream(origin)],
        routes: routes(edits),
    }
}

fn upstream(origin: SocketAddr) -> Upstream {
    Upstream {
        name: "app".to_owned(),
        servers: vec![Server {
            label: origin.to_string(),
            address: ServerAddress::Known(EndpointAddress::Tcp(origin)),
            weight: 1,
            is_draining: false,
        }],
        balance: Method::RoundRobin,
        hash_on: HashOn::ClientAddress,
        sticky: None,
        idle_connections: Upstream::IDLE_CONNECTIONS,
        idle_timeout: Upstream::IDLE_TIMEOUT,
        care: UpstreamCare::default(),
    }
}

/// Every host that is asked, beside others, with changes to requests and answers.
fn routes(edits: HeaderEdits) -> Vec<Route> {
    let says = ResponseHeaders {
        usual: edits.clone(),
        always: Vec::new(),
    };
    let forward = Action::Forward(Forward {
        upstream: 0,
        split: None,
        mirror: None,
        strip_prefix: None,
        rewrite: None,
        request_headers: edits,
        timeouts: UpstreamTimeouts::default(),
        request_buffer: Forward::REQUEST_BUFFER,
        response_buffer: Forward::RESPONSE_BUFFER,
        cache: None,
        compress: None,
        upgrade: vec!["websocket".to_owned()],
        care: Box::default(),
    });
    let cached = cached(&forward);
    let route = |host: HostPattern, path: &str| Route {
        name: format!("{host:?} {path}"),
        host,
        path: path.to_owned(),
        methods: None,
        conditions: Conditions::default(),
        cors: None,
        error_pages: ErrorPages::default(),
        limits: LIMITS,
        response_headers: says.clone(),
        action: forward.clone(),
        app: None,
    };
    vec![
        route(HostPattern::Exact("www.example.com".to_owned()), "/items"),
        route(
            HostPattern::Exact("www.example.com".to_owned()),
            "/items/{item}",
        ),
        route(HostPattern::Wildcard("example.org".to_owned()), "/{*rest}"),
        route(HostPattern::Any, "/{*rest}"),
        cached,
    ]
}

const LIMITS: RouteLimits = RouteLimits {
    rates: Vec::new(),
    body_bytes: 1 << 20,
};

/// A route that stores and compresses, and otherwise does what `forward` does.
fn cached(forward: &Action) -> Route {
    let Action::Forward(mut caching) = forward.clone() else {
        unreachable!("it is one")
    };
    let mut policy = CachePolicy::default();
    policy.ttl.forced = vec![(StatusMatch::OfResource, Duration::from_secs(86_400))];
    caching.cache = Some(Box::new(policy));
    caching.compress = Some(Box::new(CompressPolicy::default()));
    Route {
        name: "cached".to_owned(),
        host: HostPattern::Exact("cached.example.com".to_owned()),
        path: "/items/{item}".to_owned(),
        methods: None,
        conditions: Conditions::default(),
        cors: None,
        error_pages: ErrorPages::default(),
        limits: LIMITS,
        response_headers: ResponseHeaders::default(),
        action: Action::Forward(caching),
        app: None,
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("loopback has a free port")
}

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("weir-allocations-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory can be made");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
