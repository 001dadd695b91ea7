//! A gateway, a service that does what the test says, and an upstream that does.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use weir_http::Scheme;
use weir_policy::balance::Method as BalanceMethod;

use crate::lock::lock;
use crate::service::{Answer, Ask, Courier, Errand, Outcome, Reply, Service, Services};
use crate::settings::{
    Action, AllRoutes, ClientTimeouts, Conditions, Dns, EndpointAddress, ErrorPages, Forward,
    HashOn, HeaderEdits, HostPattern, Limits, Messages, ResponseHeaders, Route, RouteLimits, Serve,
    Server, ServerAddress, Settings, Upstream, UpstreamCare, UpstreamTimeouts,
};
use crate::{App, Gateway, Source, StartError};

/// Longer than anything here takes that goes well.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What a service does with a request.
pub(super) type Does = Box<dyn Fn(Ask) -> Reply + Send + Sync>;

/// A service of one test.
pub(super) struct TestService {
    does: Does,
    pub(super) drained: AtomicUsize,
    /// Whether it has something under way that the process waits for.
    pub(super) is_busy: AtomicBool,
    pub(super) courier: Courier,
}

impl std::fmt::Debug for TestService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestService")
    }
}

impl Service for TestService {
    fn body_bytes_max(&self) -> u64 {
        100_000
    }

    fn call(&self, ask: Ask) -> Reply {
        (self.does)(ask)
    }

    fn drain(&self) {
        let _ = self.drained.fetch_add(1, Ordering::SeqCst);
    }

    fn is_drained(&self) -> bool {
        !self.is_busy.load(Ordering::SeqCst)
    }
}

/// Where the services of a test come from.
#[derive(Debug)]
struct Workshop(Arc<Made>);

/// What was opened, by name and in order.
#[derive(Default)]
pub(super) struct Made {
    does: Mutex<Option<Does>>,
    pub(super) opened: Mutex<Vec<(String, Arc<TestService>)>>,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made")
    }
}

impl Services for Workshop {
    fn open(
        &self,
        name: &str,
        open: Option<&Arc<dyn Service>>,
        courier: &Courier,
    ) -> Result<Arc<dyn Service>, String> {
        if let Some(open) = open {
            return Ok(Arc::clone(open));
        }
        if name == "broken" {
            return Err("it is broken".to_owned());
        }
        let does = lock(&self.0.does).take();
        let service = Arc::new(TestService {
            does: does.unwrap_or_else(|| Box::new(|_| Reply::ready(Answer::new(200)))),
            drained: AtomicUsize::new(0),
            is_busy: AtomicBool::new(false),
            courier: courier.clone(),
        });
        lock(&self.0.opened).push((name.to_owned(), Arc::clone(&service)));
        Ok(service)
    }
}

/// What the configuration says now.
#[derive(Debug, Clone)]
struct Says(Arc<Mutex<Settings>>);

impl Source for Says {
    fn read(&self) -> Result<Settings, String> {
        Ok(lock(&self.0).clone())
    }

    fn explain(&self, error: StartError) -> String {
        error.to_string()
    }

    fn server(&self, text: &str) -> Result<Server, String> {
        Err(text.to_owned())
    }

    fn app(&self, _: &[u8]) -> Result<App, String> {
        Err("there are none".to_owned())
    }
}

/// A gateway with the route `/{*rest}`, which the service `test` serves, and which delivers to `upstream`.
pub(super) struct House {
    pub(super) gateway: Gateway,
    pub(super) address: SocketAddr,
    pub(super) made: Arc<Made>,
    says: Says,
}

impl House {
    pub(super) fn new(upstream: SocketAddr, does: Does) -> Self {
        Self::with(upstream, does, |_| {})
    }

    pub(super) fn with(
        upstream: SocketAddr,
        does: Does,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = settings(upstream);
        change(&mut settings);
        let says = Says(Arc::new(Mutex::new(settings.clone())));
        let made = Arc::<Made>::default();
        *lock(&made.does) = Some(does);
        let workshop = Box::new(Workshop(Arc::clone(&made)));
        let gateway = Gateway::start(&settings, Box::new(says.clone()), workshop);
        let gateway = gateway.expect("it starts");
        Self {
            address: gateway.addresses()[0],
            gateway,
            made,
            says,
        }
    }

    pub(super) fn service(&self) -> Arc<TestService> {
        Arc::clone(&lock(&self.made.opened)[0].1)
    }

    /// Has the gateway take up another configuration.
    pub(super) fn reload(&self, change: impl FnOnce(&mut Settings)) -> Result<String, String> {
        change(&mut lock(&self.says.0));
        let changes = self.gateway.control().reload();
        changes.map(|changes| changes.lines.join("\n"))
    }

    /// Sends bytes as they are, and reads what comes until the connection ends.
    pub(super) fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut response = Vec::new();
        // A response that breaks off ends in a reset.
        let _ = stream.read_to_end(&mut response);
        String::from_utf8_lossy(&response).into_owned()
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is one");
        stream
    }

    /// Does an errand, and waits for what becomes of it.
    pub(super) fn deliver(&self, errand: Errand) -> Outcome {
        let delivery = self.service().courier.deliver(errand);
        delivery.expect("there is room").wait()
    }
}

/// The errand of a POST.
pub(super) fn errand(path: &str, body: impl Into<Vec<u8>>) -> Errand {
    let body = body.into();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: kept.example\r\nX-Own: 1\r\nx_attempt: 9\r\nContent-Length: {length}\r\n\r\n"
    );
    Errand {
        route: "served".into(),
        upstream: "later".into(),
        client: Ipv4Addr::new(192, 0, 2, 7).into(),
        peer: Ipv4Addr::new(192, 0, 2, 7).into(),
        scheme: Scheme::Https,
        head: head.into_bytes(),
        body,
        fields: vec![("x-attempt".to_owned(), "1".to_owned())],
        within: PATIENCE,
        answer_bytes_max: 1000,
    }
}

/// A rule that forwards to the first upstream.
pub(super) fn rule() -> Forward {
    Forward {
        upstream: 0,
        split: None,
        mirror: None,
        strip_prefix: None,
        rewrite: None,
        request_headers: HeaderEdits::default(),
        timeouts: UpstreamTimeouts::default(),
        request_buffer: Forward::REQUEST_BUFFER,
        response_buffer: Forward::RESPONSE_BUFFER,
        cache: None,
        compress: None,
        upgrade: Vec::new(),
        care: Box::default(),
    }
}

pub(super) fn route(name: &str, path: &str, action: Action) -> Route {
    Route {
        name: name.to_owned(),
        host: HostPattern::Any,
        path: path.to_owned(),
        methods: None,
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

pub(super) fn serve(service: &str) -> Action {
    Action::Serve(Serve {
        service: service.to_owned(),
        timeout: PATIENCE,
        delivery: Some(Box::new(rule())),
    })
}

pub(super) fn server(address: SocketAddr) -> Server {
    Server {
        label: address.to_string(),
        address: ServerAddress::Known(EndpointAddress::Tcp(address)),
        weight: 1,
        is_draining: false,
    }
}

fn settings(upstream: SocketAddr) -> Settings {
    Settings {
        workers: 2,
        listeners: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        admin: None,
        messages: Messages::default(),
        access_log: None,
        limits: Limits::default(),
        cache: None,
        trusted_proxies: Vec::new(),
        dns: Dns::default(),
        error_pages: ErrorPages::default(),
        timeouts: ClientTimeouts::default(),
        all_routes: AllRoutes::default(),
        upstreams: vec![Upstream {
            name: "later".to_owned(),
            servers: vec![server(upstream)],
            balance: BalanceMethod::RoundRobin,
            hash_on: HashOn::ClientAddress,
            sticky: None,
            idle_connections: Upstream::IDLE_CONNECTIONS,
            idle_timeout: Upstream::IDLE_TIMEOUT,
            care: UpstreamCare::default(),
        }],
        routes: vec![route("served", "/{*rest}", serve("test"))],
    }
}

/// An upstream that answers each connection's first request with the next of its answers and closes; the last one is for all
/// that come later.
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    asked: Arc<(Mutex<Vec<String>>, Condvar)>,
}

impl Origin {
    pub(super) fn new(answers: &[&str]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let asked = Arc::<(Mutex<Vec<String>>, Condvar)>::default();
        let mut answers: VecDeque<String> = answers.iter().map(|&answer| answer.into()).collect();
        let seen = Arc::clone(&asked);
        let _ = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let answer = answers.front().cloned().unwrap_or_default();
                if answers.len() > 1 {
                    let _ = answers.pop_front();
                }
                let seen = Arc::clone(&seen);
                let _ = std::thread::spawn(move || answer_one(&stream.unwrap(), &answer, &seen));
            }
        });
        Self { address, asked }
    }

    /// The requests so far, head and body, once there are `count`.
    pub(super) fn asked(&self, count: usize) -> Vec<String> {
        let (asked, more) = &*self.asked;
        let asked = lock(asked);
        let waited = more.wait_timeout_while(asked, PATIENCE, |asked| asked.len() < count);
        let (asked, timeout) = waited.expect("nobody panics");
        assert!(!timeout.timed_out(), "{} requests", asked.len());
        asked.clone()
    }
}

fn answer_one(stream: &TcpStream, answer: &str, seen: &(Mutex<Vec<String>>, Condvar)) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let is_end = line == "\r\n";
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        head += &line;
        if is_end {
            break;
        }
    }
    // An upstream that has heard enough does not read the body.
    if !answer.starts_with("HTTP/1.1 413") {
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        head += &String::from_utf8_lossy(&body);
    }
    let (asked, more) = seen;
    lock(asked).push(head);
    more.notify_all();
    let mut stream = stream;
    match answer {
        // It hangs until the gateway has had enough.
        "" => drop(stream.read(&mut [0; 1])),
        answer => {
            // It closes behind its answer. Unsaid, the next request could meet a connection that is about to end.
            let said = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            let _ = stream.write_all(said.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    }
}
