//! The gateway in front of Redis, with a service that is as small as can be; for `bench/kv_peers.py`.
//!
//! ```text
//! redis_front LISTEN REDIS     GET and PUT of /v0/entity?id=KEY, one worker, until it is killed
//! ```
//!
//! All requests go over one connection of the worker's own, so that no other thread is woken, and as many at once as wait.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use weir_gateway::service::{Answer, Ask, Courier, Replier, Reply, Service, Services};
use weir_gateway::settings::{
    Action, AllRoutes, ClientTimeouts, Conditions, Dns, ErrorPages, HostPattern, Limits, Messages,
    ResponseHeaders, Route, RouteLimits, Serve, Server, Settings,
};
use weir_gateway::{App, Gateway, Source, StartError};
use weir_http::Method;

const USAGE: &str = "usage: redis_front LISTEN REDIS";
const BODY_BYTES_MAX: u64 = 1 << 20;
const BATCH_MAX: usize = 512;
const READ_BYTES: usize = 64 << 10;

type Waiting = Arc<Mutex<VecDeque<Replier>>>;

fn main() {
    let addresses: Vec<SocketAddr> = std::env::args()
        .skip(1)
        .map(|address| address.parse().expect(USAGE))
        .collect();
    let &[listen, redis] = &addresses[..] else {
        panic!("{USAGE}");
    };
    let redis = Redis {
        address: redis,
        asks: OnceLock::new(),
    };
    let services = Box::new(One(Arc::new(redis)));
    let gateway = Gateway::start(&settings(listen), Box::new(Fixed), services);
    let _gateway = gateway.expect("it starts");
    loop {
        std::thread::park();
    }
}

/// Redis, as a service.
#[derive(Debug)]
struct Redis {
    address: SocketAddr,
    asks: OnceLock<mpsc::UnboundedSender<(Command, Replier)>>,
}

#[derive(Debug)]
enum Command {
    Get(Bytes),
    Set(Bytes, Vec<u8>),
}

impl Service for Redis {
    fn body_bytes_max(&self) -> u64 {
        BODY_BYTES_MAX
    }

    fn call(&self, ask: Ask) -> Reply {
        let key = ask.query().and_then(|query| query.strip_prefix(b"id="));
        let Some(key) = key.map(Bytes::copy_from_slice) else {
            return Reply::ready(Answer::new(400));
        };
        let command = match ask.request.method {
            Method::Put => Command::Set(key, ask.body),
            _ => Command::Get(key),
        };
        let asks = self.asks.get_or_init(|| {
            let (asks, asked) = mpsc::unbounded_channel();
            drop(tokio::spawn(connect(self.address, asked)));
            asks
        });
        let (replier, reply) = Reply::later();
        // Without the connection, the replier is dropped: a 500.
        let _ = asks.send((command, replier));
        reply
    }

    fn drain(&self) {}

    fn is_drained(&self) -> bool {
        true
    }
}

async fn connect(address: SocketAddr, asked: mpsc::UnboundedReceiver<(Command, Replier)>) {
    let stream = TcpStream::connect(address).await.expect("Redis is there");
    stream.set_nodelay(true).expect("it is a socket");
    let (reader, writer) = stream.into_split();
    let waiting = Waiting::default();
    tokio::select! {
        () = write(writer, asked, &waiting) => {}
        () = read(reader, &waiting) => {}
    }
}

async fn write(
    mut writer: OwnedWriteHalf,
    mut asked: mpsc::UnboundedReceiver<(Command, Replier)>,
    waiting: &Waiting,
) {
    let (mut asks, mut bytes) = (Vec::with_capacity(BATCH_MAX), Vec::new());
    while asked.recv_many(&mut asks, BATCH_MAX).await > 0 {
        for (command, replier) in asks.drain(..) {
            match &command {
                Command::Get(key) => encode(&[b"GET", key], &mut bytes),
                Command::Set(key, value) => encode(&[b"SET", key, value], &mut bytes),
            }
            waiting.lock().expect("nobody panics").push_back(replier);
        }
        writer.write_all(&bytes).await.expect("Redis reads");
        bytes.clear();
    }
}

fn encode(parts: &[&[u8]], out: &mut Vec<u8>) {
    out.extend(format!("*{}\r\n", parts.len()).into_bytes());
    for part in parts {
        out.extend(format!("${}\r\n", part.len()).into_bytes());
        out.extend_from_slice(part);
        out.extend(b"\r\n");
    }
}

async fn read(mut reader: OwnedReadHalf, waiting: &Waiting) {
    let mut bytes = BytesMut::with_capacity(READ_BYTES);
    while reader.read_buf(&mut bytes).await.expect("Redis writes") > 0 {
        let mut answers = Vec::new();
        while let Some(answer) = decode(&mut bytes) {
            let replier = waiting.lock().expect("nobody panics").pop_front();
            answers.push((replier.expect("somebody has asked"), answer));
        }
        Replier::answer_all(answers.into_iter());
        bytes.reserve(READ_BYTES);
    }
}

/// The next reply, if all of it is here (RESP2: a bulk string, a simple string, or an error).
fn decode(bytes: &mut BytesMut) -> Option<Answer> {
    let end = bytes.windows(2).position(|end| end == b"\r\n")?;
    let line = std::str::from_utf8(&bytes[..end]).expect("it is text");
    let length = match line.split_at(1) {
        ("+", _) => {
            bytes.advance(end + 2);
            return Some(Answer::new(201));
        }
        ("$", "-1") => {
            bytes.advance(end + 2);
            return Some(Answer::new(404));
        }
        ("$", length) => length.parse::<usize>().expect("it is a number"),
        _ => panic!("Redis says {line}"),
    };
    if bytes.len() < end + 2 + length + 2 {
        return None;
    }
    bytes.advance(end + 2);
    let value = Bytes::copy_from_slice(&bytes[..length]);
    bytes.advance(length + 2);
    Some(Answer::new(200).content(value))
}

/// The one service that there is.
#[derive(Debug)]
struct One(Arc<Redis>);

impl Services for One {
    fn open(
        &self,
        _name: &str,
        _open: Option<&Arc<dyn Service>>,
        _courier: &Courier,
    ) -> Result<Arc<dyn Service>, String> {
        Ok(Arc::<Redis>::clone(&self.0))
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

fn settings(listen: SocketAddr) -> Settings {
    Settings {
        workers: 1,
        listeners: vec![listen],
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
        upstreams: Vec::new(),
        routes: vec![Route {
            name: "redis".to_owned(),
            host: HostPattern::Any,
            path: "/v0/entity".to_owned(),
            methods: None,
            conditions: Conditions::default(),
            limits: RouteLimits {
                rates: Vec::new(),
                body_bytes: BODY_BYTES_MAX,
            },
            cors: None,
            error_pages: ErrorPages::default(),
            response_headers: ResponseHeaders::default(),
            action: Action::Serve(Serve {
                service: "redis".to_owned(),
                timeout: Duration::from_secs(10),
                delivery: None,
            }),
            app: None,
        }],
    }
}
