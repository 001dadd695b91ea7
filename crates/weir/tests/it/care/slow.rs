//! Slow clients hold no places: a request has one while its upstream is at work on it, not while its client sends or reads,
//! and what has no end is counted apart.

mod reading;
mod repeating;
mod sending;
mod streams;

use std::sync::{Arc, Condvar, Mutex};

use crate::harness::client::{self, Connection};
use crate::harness::origin::{Origin, Peer};
use crate::harness::pattern::write_pattern;
use crate::harness::{Gateway, forward_everything, wait_until};

/// More than the sockets between two processes hold.
const LONG_BYTES: u64 = 24 << 20;
/// Divides it.
const CHUNK_BYTES: u64 = 48 << 10;
const SHORT_REQUESTS: usize = 40;

/// An origin that reads the whole of a request and then answers as its path says.
struct Service {
    origin: Origin,
    /// Whether what waits may go on.
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Service {
    fn start() -> Self {
        let gate = Arc::<(Mutex<bool>, Condvar)>::default();
        let origin = {
            let gate = Arc::clone(&gate);
            Origin::start(move |mut peer, _| while answer(&mut peer, &gate) {})
        };
        Self { origin, gate }
    }

    fn open(&self) {
        *self.gate.0.lock().expect("no handler panics") = true;
        self.gate.1.notify_all();
    }

    /// A request of `path` is there.
    fn wait_for(&self, path: &str) {
        let path = format!(" {path} ");
        while !self.origin.next_head().contains(&path) {}
    }

    /// A gateway in front of it, with `keys` of the upstream and of the route.
    fn gateway(&self, upstream: &str, route: &str) -> Gateway {
        let forward = forward_everything(&[self.origin.address], upstream);
        Gateway::start(&format!("{forward}{route}"))
    }
}

/// Returns when the gate is open.
fn wait_for((is_open, changed): &(Mutex<bool>, Condvar)) {
    let is_open = is_open.lock().expect("it is sound");
    drop(changed.wait_while(is_open, |is_open| !*is_open));
}

/// `/long` is a long body, as are `/chunks` and `/close` in other framings, `/broken` one that breaks off; `/events` is an event
/// stream and `/stream` another one, which both wait for the gate in their middle; `/bad` is a 503, `/wait` waits before it
/// answers. All others are short.
fn answer(peer: &mut Peer, gate: &(Mutex<bool>, Condvar)) -> bool {
    let Some(head) = peer.head() else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    if let Some(length) = length {
        peer.body(length.parse().expect("a length"));
    } else if head.contains("\r\nTransfer-Encoding: chunked\r\n") {
        peer.until(b"\r\n\r\n");
    }
    let wait = || wait_for(gate);
    match head.split(' ').nth(1).unwrap_or_default() {
        path @ ("/long" | "/broken") => {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {LONG_BYTES}\r\n\r\n"
            ));
            let bytes = if path == "/long" {
                LONG_BYTES
            } else {
                LONG_BYTES / 2
            };
            write_pattern(&mut peer.stream, 0..bytes).is_ok() && path == "/long"
        }
        path @ ("/events" | "/stream") => {
            let media_type = if path == "/events" {
                "text/event-stream; charset=utf-8"
            } else {
                "text/plain"
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
            ));
            wait();
            peer.send("3\r\ntwo\r\n0\r\n\r\n");
            true
        }
        "/chunks" => {
            peer.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            for start in (0..LONG_BYTES).step_by(CHUNK_BYTES as usize) {
                peer.send(format!("{CHUNK_BYTES:x}\r\n"));
                let _ = write_pattern(&mut peer.stream, start..start + CHUNK_BYTES);
                peer.send("\r\n");
            }
            peer.send("0\r\nX-Trailer: 1\r\n\r\n");
            true
        }
        "/close" => {
            peer.send("HTTP/1.1 200 OK\r\n\r\n");
            let _ = write_pattern(&mut peer.stream, 0..LONG_BYTES);
            false
        }
        "/bad" => {
            peer.send("HTTP/1.1 503 Bad\r\nContent-Length: 3\r\n\r\nbad");
            true
        }
        path => {
            if path == "/wait" {
                wait();
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            true
        }
    }
}

fn begin(gateway: &Gateway, request: &str) -> Connection {
    let mut connection = Connection::open(gateway.address);
    connection.send(request);
    connection
}

fn ask(gateway: &Gateway, path: &str) -> Connection {
    begin(
        gateway,
        &format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"),
    )
}

/// An upload of `bytes`, of which half comes at once, on a connection that was asked on before: so the gateway reads it before
/// what comes on new ones.
fn upload(gateway: &Gateway, bytes: usize) -> Connection {
    let mut connection = Connection::open(gateway.address);
    connection.get("/");
    let half = "x".repeat(bytes / 2);
    connection.send(format!(
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {bytes}\r\n\r\n{half}"
    ));
    connection
}

fn concurrency(gateway: &Gateway) -> serde_json::Value {
    let status = client::ask_admin(gateway.admin, "/status").text();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    status["upstreams"][0]["concurrency"].clone()
}

fn wait_for_places(gateway: &Gateway, in_flight: u64, streams: u64) {
    wait_until(
        &format!("{in_flight} are in flight, {streams} apart"),
        || {
            let now = concurrency(gateway);
            now["in_flight"] == in_flight && now["streams"] == streams
        },
    );
}

fn failures(gateway: &Gateway, reason: &str) -> u64 {
    gateway.metric(&format!(
        "weir_failures_total{{fault=\"gateway\",reason=\"{reason}\"}}"
    ))
}

fn held_bytes(gateway: &Gateway) -> u64 {
    gateway.metric("weir_held_body_bytes")
}

/// Nobody waits in a queue of length 0, so each of these finds a place free.
fn short_requests_are_answered(gateway: &Gateway) {
    for number in 0..SHORT_REQUESTS {
        let response = client::get(gateway.address, "/");
        assert_eq!(
            response.status,
            200,
            "request {number}: {}",
            concurrency(gateway)
        );
    }
}

const FIXED: &str = "concurrency = { limit = 8, queue = 0 }\n";
const PROTECT: &str = "protect = true\n";
