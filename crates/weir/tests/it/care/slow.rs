//! Slow clients hold no places: a request has one while its upstream is at work on it, not while its client sends or reads,
//! and what has no end is counted apart.

use std::io::Read as _;
use std::sync::{Arc, Condvar, Mutex};

use crate::harness::client::{self, Connection, Response};
use crate::harness::origin::{Origin, Peer};
use crate::harness::pattern::{read_head, read_pattern, write_pattern};
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

/// `/long` is a long body, as are `/chunks` and `/close` in other framings, `/broken` one that breaks off, `/events` an event stream and `/stream` another one, which both
/// wait for the gate in their middle; `/bad` is a 503, `/wait` waits before it answers. All others are short.
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
    let wait = || {
        drop(
            gate.1
                .wait_while(gate.0.lock().expect("it is sound"), |open| !*open),
        )
    };
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

/// An upload of `bytes`, of which half comes at once.
fn upload(gateway: &Gateway, bytes: usize) -> Connection {
    let half = "x".repeat(bytes / 2);
    begin(
        gateway,
        &format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {bytes}\r\n\r\n{half}"),
    )
}

fn concurrency(gateway: &Gateway) -> serde_json::Value {
    let status = client::get(gateway.admin, "/status").text();
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

#[test]
fn clients_that_upload_slowly_hold_no_place() {
    for (limit, uploads) in [(FIXED, 8), (FIXED, 200), (PROTECT, 200)] {
        let service = Service::start();
        let gateway = service.gateway(limit, "");
        let mut slow: Vec<_> = (0..uploads).map(|_| upload(&gateway, 1000)).collect();
        short_requests_are_answered(&gateway);
        assert_eq!(
            service.origin.heads().len(),
            SHORT_REQUESTS,
            "nobody else was sent on"
        );
        for connection in &mut slow {
            connection.send("x".repeat(500));
            assert_eq!(connection.response().status, 200);
        }
        wait_for_places(&gateway, 0, 0);
    }
}

#[test]
fn an_upload_larger_than_its_buffer_is_a_stream_while_its_client_is_waited_for() {
    // By the route's bound, and by the budget of all.
    for (limits, bytes) in [
        ("request_buffer = \"1KiB\"\n", 8_000),
        ("[limits]\nheld_bodies = 0\n", 200_000),
    ] {
        let service = Service::start();
        let gateway = service.gateway(FIXED, limits);
        let mut slow = Vec::new();
        for number in 1..=12 {
            slow.push(upload(&gateway, bytes));
            wait_for_places(&gateway, 0, number);
        }
        short_requests_are_answered(&gateway);
        // One that leaves takes nothing along.
        drop(slow.pop());
        wait_for_places(&gateway, 0, 11);
        for connection in &mut slow {
            connection.send("x".repeat(bytes / 2));
            assert_eq!(connection.response().status, 200);
        }
        wait_for_places(&gateway, 0, 0);
    }
}

#[test]
fn an_upload_is_work_again_once_it_is_whole() {
    let service = Service::start();
    let gateway = service.gateway(
        "concurrency = { limit = 1, queue = 0 }\n",
        "request_buffer = 0\n",
    );
    let mut slow = begin(
        &gateway,
        "POST /wait HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nx",
    );
    wait_for_places(&gateway, 0, 1);
    slow.send("x");
    wait_for_places(&gateway, 1, 0);
    assert_eq!(
        client::get(gateway.address, "/").status,
        503,
        "the place is taken"
    );
    service.open();
    assert_eq!(slow.response().status, 200);
    wait_for_places(&gateway, 0, 0);
}

#[test]
fn a_body_is_forwarded_as_it_came() {
    let service = Service::start();
    let gateway = service.gateway(FIXED, "");
    let mut slow = begin(
        &gateway,
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n3;a=b\r\none\r\n",
    );
    short_requests_are_answered(&gateway);
    slow.send("3\r\ntwo\r\n0\r\nX-Sum: 6\r\n\r\nGET /next HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(slow.response().status, 200);
    assert_eq!(
        slow.response().status,
        200,
        "what came behind it is the next request"
    );
    let heads = service.origin.heads();
    let [.., post, next] = heads.as_slice() else {
        panic!("{heads:?}");
    };
    assert!(post.contains("Transfer-Encoding: chunked\r\n"), "{post}");
    assert!(next.starts_with("GET /next "), "{next}");
}

/// RFC 9110 §10.1.1: who waits for the body has to say so.
#[test]
fn a_client_that_waits_with_its_body_is_told_to_send_it() {
    let service = Service::start();
    let gateway = service.gateway(FIXED, "");
    let mut waits = begin(
        &gateway,
        "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    );
    let go_on: Response = waits.response_to("POST").expect("it is told");
    assert_eq!(go_on.status, 100);
    assert!(service.origin.heads().is_empty(), "nobody was asked yet");
    waits.send("xx");
    assert_eq!(waits.response().status, 200);
    assert!(!service.origin.next_head().contains("Expect"));
}

#[test]
fn a_response_that_was_read_gives_its_place_back_whoever_still_reads_it() {
    let service = Service::start();
    let gateway = service.gateway(
        "concurrency = { limit = 2, queue = 0 }\n",
        "response_buffer = \"32MiB\"\n",
    );
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut connection = ask(&gateway, "/long");
        read_head(&mut connection.stream);
        slow.push(connection);
        wait_for_places(&gateway, 0, 0);
    }
    short_requests_are_answered(&gateway);
    assert!(held_bytes(&gateway) > 0);
    drop(slow.pop());
    for connection in &mut slow {
        read_pattern(&mut connection.stream, 0..LONG_BYTES);
        assert_eq!(connection.get("/").status, 200, "the connection goes on");
    }
    wait_until("nothing is held", || held_bytes(&gateway) == 0);
}

#[test]
fn clients_that_read_slowly_are_streams_once_what_may_be_held_is_full() {
    for (limit, route) in [
        (FIXED, ""),
        (PROTECT, ""),
        (FIXED, "[limits]\nheld_bodies = 0\n"),
        (FIXED, "response_buffer = 0\n"),
    ] {
        let service = Service::start();
        let gateway = service.gateway(limit, route);
        let mut slow = Vec::new();
        for number in 1..=12 {
            let mut connection = ask(&gateway, "/long");
            read_head(&mut connection.stream);
            slow.push(connection);
            wait_for_places(&gateway, 0, number);
        }
        short_requests_are_answered(&gateway);
        drop(slow.pop());
        for connection in &mut slow {
            read_pattern(&mut connection.stream, 0..LONG_BYTES);
        }
        wait_for_places(&gateway, 0, 0);
        wait_until("nothing is held", || held_bytes(&gateway) == 0);
    }
}

/// Each with a client that reads nothing until the upstream is done with it, or waits for it.
#[test]
fn what_is_read_ahead_comes_out_as_it_should_in_every_framing() {
    let service = Service::start();
    for (held, buffer) in [("128MiB", "32MiB"), ("0", "32MiB"), ("128MiB", "100KiB")] {
        let gateway = service.gateway(
            "concurrency = { limit = 1, queue = 0 }\n",
            &format!("response_buffer = \"{buffer}\"\ncompress = true\n[limits]\nheld_bodies = \"{held}\"\n"),
        );
        for (path, version) in [
            ("/chunks", "1.1"),
            ("/chunks", "1.0"),
            ("/close", "1.1"),
            ("/close", "1.0"),
        ] {
            let request = format!("GET {path} HTTP/{version}\r\nHost: test\r\n\r\n");
            let mut slow = begin(&gateway, &request);
            service.wait_for(path);
            wait_until("its place is free", || {
                client::get(gateway.address, "/").status == 200
            });
            let body = slow.response().body;
            assert_eq!(body.len() as u64, LONG_BYTES, "{path} {version}");
            read_pattern(&mut body.as_slice(), 0..LONG_BYTES);
        }
        let mut encoded = begin(
            &gateway,
            "GET /chunks HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n",
        );
        service.wait_for("/chunks");
        wait_until("its place is free", || {
            client::get(gateway.address, "/").status == 200
        });
        let response = encoded.response();
        assert_eq!(response.field("content-encoding"), Some("gzip"));
        let mut body = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(response.body.as_slice());
        decoder.read_to_end(&mut body).expect("it is whole");
        read_pattern(&mut body.as_slice(), 0..LONG_BYTES);
    }
}

#[test]
fn event_streams_are_counted_apart() {
    for limit in [FIXED, PROTECT] {
        let service = Service::start();
        let gateway = service.gateway(limit, "");
        let mut streams = Vec::new();
        for _ in 0..20 {
            let mut stream = ask(&gateway, "/events");
            stream.until(b"one\r\n");
            streams.push(stream);
        }
        wait_for_places(&gateway, 0, 20);
        short_requests_are_answered(&gateway);
        drop(streams.pop());
        wait_for_places(&gateway, 0, 19);
        service.open();
        for stream in &mut streams {
            stream.until(b"two\r\n0\r\n\r\n");
        }
        wait_for_places(&gateway, 0, 0);
    }
}

#[test]
fn what_goes_on_for_long_is_a_stream_whatever_it_calls_itself() {
    let service = Service::start();
    let gateway = service.gateway("concurrency = { limit = 1, queue = 0 }\n", "");
    let mut stream = ask(&gateway, "/stream");
    stream.until(b"one\r\n");
    wait_for_places(&gateway, 0, 1);
    short_requests_are_answered(&gateway);
    service.open();
    stream.until(b"two\r\n0\r\n\r\n");
    wait_for_places(&gateway, 0, 0);
}

#[test]
fn streams_crowd_out_streams_and_nobody_else() {
    let service = Service::start();
    let gateway = service.gateway("concurrency = { limit = 8, queue = 0, streams = 2 }\n", "");
    let mut streams = [ask(&gateway, "/events"), ask(&gateway, "/events")];
    for stream in &mut streams {
        stream.until(b"one\r\n");
    }
    let third = client::get(gateway.address, "/events");
    assert_eq!((third.status, third.field("retry-after")), (503, Some("1")));
    assert_eq!(failures(&gateway, "streams_full"), 1);
    // One that has begun can only be broken off, in a way that its client notices.
    let mut slow = ask(&gateway, "/long");
    read_head(&mut slow.stream);
    wait_until("it is refused", || failures(&gateway, "streams_full") == 2);
    let mut rest = Vec::new();
    assert!(slow.stream.read_to_end(&mut rest).is_err(), "a reset");
    // So is an upload that is larger than what is collected.
    let mut long_upload = upload(&gateway, 1 << 20);
    long_upload.send("x".repeat(1 << 10));
    wait_until("it is refused", || failures(&gateway, "streams_full") == 3);
    assert_eq!(long_upload.response().status, 503);
    short_requests_are_answered(&gateway);
    service.open();
    for stream in &mut streams {
        stream.until(b"two\r\n0\r\n\r\n");
    }
    wait_for_places(&gateway, 0, 0);
}

#[test]
fn where_no_streams_are_set_apart_each_keeps_its_place() {
    let service = Service::start();
    let gateway = service.gateway("concurrency = { limit = 1, queue = 0, streams = 0 }\n", "");
    let mut stream = ask(&gateway, "/events");
    stream.until(b"one\r\n");
    assert_eq!(client::get(gateway.address, "/").status, 503);
    service.open();
    stream.until(b"two\r\n0\r\n\r\n");
    short_requests_are_answered(&gateway);
}

#[test]
fn a_response_that_breaks_off_while_it_is_read_ahead_ends_in_a_reset() {
    let service = Service::start();
    let gateway = service.gateway(FIXED, "response_buffer = \"32MiB\"\n");
    let mut slow = ask(&gateway, "/broken");
    read_head(&mut slow.stream);
    wait_for_places(&gateway, 0, 0);
    let mut got = Vec::new();
    assert!(slow.stream.read_to_end(&mut got).is_err(), "a reset");
    wait_until("it is told", || {
        gateway.metric("weir_failures_total{fault=\"upstream\",reason=\"response_cut\"}") == 1
    });
}

#[test]
fn a_slow_upload_is_no_probe_of_a_breaker() {
    const BREAKER: &str =
        "breaker = { min_requests = 4, open_for = \"200ms\", recovery = \"10ms\", probes = 1 }\n";
    for (upstream, route) in [("", BREAKER), (BREAKER, "")] {
        let service = Service::start();
        let gateway = service.gateway(upstream, route);
        for _ in 0..4 {
            assert_eq!(client::get(gateway.address, "/bad").status, 503);
        }
        assert_eq!(client::get(gateway.address, "/").status, 503);
        let mut slow: Vec<_> = (0..8).map(|_| upload(&gateway, 1000)).collect();
        wait_until("it is closed", || {
            (0..10).all(|_| client::get(gateway.address, "/").status == 200)
        });
        for connection in &mut slow {
            connection.send("x".repeat(500));
            assert_eq!(connection.response().status, 200);
        }
    }
}

/// A request of `/bad` waits for up to a minute before it is sent again.
#[test]
fn no_place_is_kept_for_a_wait_before_a_retry() {
    let service = Service::start();
    let gateway = service.gateway(
        "concurrency = { limit = 1, queue = 0 }\nretry_budget = { min_per_s = 100 }\n",
        "retry = { attempts = 2, backoff = \"60s\", backoff_max = \"60s\" }\n",
    );
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let connection = ask(&gateway, "/bad");
            service.origin.next_head();
            wait_for_places(&gateway, 0, 0);
            connection
        })
        .collect();
    short_requests_are_answered(&gateway);
    drop(waiting);
    wait_for_places(&gateway, 0, 0);
}

/// Whoever finds no place any more gets the answer that was to be bettered.
#[test]
fn a_retry_without_a_place_leaves_the_answer_that_there_is() {
    let service = Service::start();
    let gateway = service.gateway(
        "concurrency = { limit = 1, queue = 0 }\nretry_budget = { min_per_s = 100 }\n",
        "retry = { attempts = 2, backoff = \"2s\", backoff_max = \"2s\" }\n",
    );
    let mut bad = ask(&gateway, "/bad");
    service.origin.next_head();
    wait_for_places(&gateway, 0, 0);
    let mut holds = ask(&gateway, "/wait");
    let answer = bad.response();
    assert_eq!((answer.status, answer.text().as_str()), (503, "bad"));
    service.open();
    assert_eq!(holds.response().status, 200);
}

#[test]
fn slow_clients_are_served_to_their_end_across_a_reload_and_a_drain() {
    let service = Service::start();
    let config = |limit: u32| {
        let limit = format!("concurrency = {{ limit = {limit}, queue = 0 }}\n");
        forward_everything(&[service.origin.address], &limit)
    };
    let mut gateway = Gateway::start(&config(1));
    let mut sends = upload(&gateway, 1000);
    let mut reads = ask(&gateway, "/long");
    read_head(&mut reads.stream);
    wait_for_places(&gateway, 0, 1);
    let mut stream = ask(&gateway, "/events");
    stream.until(b"one\r\n");
    gateway.configure(&config(2));
    gateway.reload();
    short_requests_are_answered(&gateway);
    gateway.process.signal("TERM");
    sends.send("x".repeat(500));
    assert_eq!(sends.response().status, 200);
    read_pattern(&mut reads.stream, 0..LONG_BYTES);
    service.open();
    stream.until(b"two\r\n0\r\n\r\n");
    assert!(gateway.process.wait().success());
}
