//! Bodies of any size pass through in constant memory, and whoever is slow holds the other side back.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::pattern::{PERIOD, growth_during, read_head, read_pattern, write_pattern};
use crate::harness::{Gateway, PATIENCE, forward_everything, wait_until};

const GIB: u64 = 1 << 30;
/// How much the gateway may grow by while a body passes through.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// An origin that handles its connections one after the other, each with one request head already read.
fn origin(handler: impl Fn(TcpStream, &str) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
                head.push(byte[0]);
            }
            handler(stream, &String::from_utf8_lossy(&head));
        }
    });
    address
}

/// A gateway that is warm: its memory is that of one that has served.
fn warm_gateway(origin: SocketAddr) -> Gateway {
    let gateway = Gateway::to(&[origin]);
    for _ in 0..4 {
        let mut connection = Connection::open(gateway.address);
        connection.send("GET /warm HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        assert_eq!(connection.response().status, 200);
    }
    gateway
}

const SMALL: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn a_gibibyte_goes_down_in_constant_memory() {
    let address = origin(|mut stream, head| {
        if head.starts_with("GET /warm") {
            return stream.write_all(SMALL).expect("the gateway reads");
        }
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {GIB}\r\n\r\n")
            .and_then(|()| write_pattern(&mut stream, 0..GIB))
            .expect("the gateway reads");
    });
    let gateway = warm_gateway(address);
    let growth = growth_during(&gateway, || {
        let mut connection = Connection::open(gateway.address);
        connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        // Byte by byte, so that nothing of the body is taken with the head.
        let head = read_head(&mut connection.stream);
        assert!(
            head.contains(&format!("Content-Length: {GIB}\r\n")),
            "{head}"
        );
        read_pattern(&mut connection.stream, 0..GIB);
    });
    assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
}

#[test]
fn a_gibibyte_goes_up_in_constant_memory() {
    let address = origin(|mut stream, head| {
        if !head.starts_with("GET /warm") {
            read_pattern(&mut stream, 0..GIB);
        }
        stream.write_all(SMALL).expect("the gateway reads");
    });
    let gateway = warm_gateway(address);
    let growth = growth_during(&gateway, || {
        let mut connection = Connection::open(gateway.address);
        connection.send(format!(
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {GIB}\r\n\r\n"
        ));
        write_pattern(&mut connection.stream, 0..GIB).expect("the gateway reads");
        assert_eq!(connection.response().status, 200);
    });
    assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
}

/// Chunks, in both directions at once, with the content checked.
#[test]
fn chunks_stream_both_ways_at_once() {
    const CHUNKS: u64 = 2000;
    const CHUNK: u64 = PERIOD as u64;
    let line = format!("{CHUNK:x}\r\n");
    let size_line = line.clone();
    let address = origin(move |mut stream, head| {
        if head.starts_with("GET /warm") {
            return stream.write_all(SMALL).expect("the gateway reads");
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            .expect("the gateway reads");
        for _ in 0..CHUNKS {
            read_exactly(&mut stream, size_line.as_bytes());
            read_pattern(&mut stream, 0..CHUNK);
            read_exactly(&mut stream, b"\r\n");
            write_chunk(&mut stream, &size_line, CHUNK).expect("the gateway reads");
        }
        read_exactly(&mut stream, b"0\r\n\r\n");
        stream.write_all(b"0\r\n\r\n").expect("the gateway reads");
    });
    let gateway = warm_gateway(address);
    let growth = growth_during(&gateway, || {
        let mut connection = Connection::open(gateway.address);
        connection.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut sending = connection.stream.try_clone().expect("a second handle");
        let size_line = line.clone();
        let sender = std::thread::spawn(move || {
            for _ in 0..CHUNKS {
                write_chunk(&mut sending, &size_line, CHUNK).expect("the gateway reads");
            }
            sending.write_all(b"0\r\n\r\n").expect("the gateway reads");
        });
        read_head(&mut connection.stream);
        for _ in 0..CHUNKS {
            read_exactly(&mut connection.stream, line.as_bytes());
            read_pattern(&mut connection.stream, 0..CHUNK);
            read_exactly(&mut connection.stream, b"\r\n");
        }
        read_exactly(&mut connection.stream, b"0\r\n\r\n");
        sender.join().expect("everything was sent");
    });
    assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
}

/// A client that stops reading makes the upstream stop writing, and once it reads again everything arrives.
#[test]
fn a_client_that_stops_reading_holds_the_upstream_back() {
    const LENGTH: u64 = 256 << 20;
    let written = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&written);
    let address = origin(move |stream, head| {
        if head.starts_with("GET /warm") {
            return (&stream).write_all(SMALL).expect("the gateway reads");
        }
        write!(
            &stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n"
        )
        .and_then(|()| write_pattern(&mut Counted(&stream, &count), 0..LENGTH))
        .expect("the gateway reads in the end");
    });
    let gateway = warm_gateway(address);
    let growth = growth_during(&gateway, || {
        let mut connection = Connection::open(gateway.address);
        connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        let held_at = stands_still(&written);
        assert!(held_at < LENGTH / 2, "{held_at} bytes went nowhere");
        read_head(&mut connection.stream);
        read_pattern(&mut connection.stream, 0..LENGTH);
    });
    assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
}

/// The same the other way: an upstream that does not read holds the client back.
#[test]
fn an_upstream_that_stops_reading_holds_the_client_back() {
    const LENGTH: u64 = 256 << 20;
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let address = origin(move |mut stream, head| {
        if !head.starts_with("GET /warm") {
            may_go_on.recv_timeout(PATIENCE).expect("the test goes on");
            read_pattern(&mut stream, 0..LENGTH);
        }
        stream.write_all(SMALL).expect("the gateway reads");
    });
    let gateway = warm_gateway(address);
    let growth = growth_during(&gateway, || {
        let mut connection = Connection::open(gateway.address);
        connection.send(format!(
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {LENGTH}\r\n\r\n"
        ));
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let stream = connection.stream.try_clone().expect("a second handle");
            let count = &written;
            let sender =
                scope.spawn(move || write_pattern(&mut Counted(&stream, count), 0..LENGTH));
            let held_at = stands_still(&written);
            assert!(held_at < LENGTH / 2, "{held_at} bytes went nowhere");
            go_on.send(()).expect("the origin waits");
            sender
                .join()
                .expect("no panic")
                .expect("the gateway reads in the end");
        });
        assert_eq!(connection.response().status, 200);
    });
    assert!(growth < GROWTH_BYTES_MAX, "grew by {growth} bytes");
}

/// A client that leaves in the middle of a response ends the upstream's work on it.
#[test]
fn a_client_that_leaves_ends_the_response() {
    let (tell, ended) = std::sync::mpsc::channel();
    let address = origin(move |mut stream, _| {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut result = stream.write_all(head);
        while result.is_ok() {
            result = stream.write_all(b"5\r\nhello\r\n");
        }
        let _ = tell.send(result.map_err(|error| error.kind()));
    });
    let gateway = Gateway::start(&forward_everything(&[address], ""));
    let mut connection = Connection::open(gateway.address);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    connection.exactly(100_000);
    drop(connection);
    let end = ended.recv_timeout(PATIENCE).expect("writing ends");
    assert!(
        matches!(end, Err(ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)),
        "{end:?}"
    );
}

/// Counts what the socket took.
struct Counted<'s>(&'s TcpStream, &'s AtomicU64);

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.0.write(bytes)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Events have pauses between them, as tunnels have. Any other response that pauses has broken down.
#[test]
fn a_stream_of_events_may_pause() {
    let asked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&asked);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            counter.fetch_add(1, Ordering::Relaxed);
            let media_type = if head.starts_with("GET /events ") {
                "Text/Event-Stream; charset=utf-8"
            } else {
                "text/plain"
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nCache-Control: max-age=60\r\n\
                 Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
            ));
            std::thread::sleep(Duration::from_secs(1));
            peer.send("9\r\ndata: 2\n\n\r\n0\r\n\r\n");
        }
    });
    let route = "timeout = { idle = \"200ms\" }\n";
    for (tunnel, keys, may_pause) in [
        ("1h", "", true),
        ("1h", "cache = true\n", true),
        ("300ms", "", false),
    ] {
        let forward = forward_everything(&[origin.address], "") + route + keys;
        let gateway = Gateway::start(&format!("[timeouts]\ntunnel = \"{tunnel}\"\n{forward}"));
        let get = |path: &str| {
            let mut connection = Connection::open(gateway.address);
            connection.send(format!(
                "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
            ));
            String::from_utf8_lossy(&connection.rest()).into_owned()
        };
        let before = asked.load(Ordering::Relaxed);
        let [first, second] = [get("/events"), get("/events")];
        for events in [first, second] {
            let is_whole = events.ends_with("0\r\n\r\n");
            assert_eq!(is_whole, may_pause, "{tunnel}, {keys}{events:?}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), before + 2, "{keys}");
        let text = get("/text");
        assert!(
            text.contains("data: 1") && !text.ends_with("0\r\n\r\n"),
            "{keys}{text:?}"
        );
    }
}

/// Waits until `count` has begun and then stays the same for a while, and returns it.
fn stands_still(count: &AtomicU64) -> u64 {
    let (mut last, mut looks_alike) = (0, 0);
    wait_until("nothing moves", || {
        let now = count.load(Ordering::Relaxed);
        looks_alike = if now == last && now > 0 {
            looks_alike + 1
        } else {
            0
        };
        last = now;
        looks_alike == 60
    });
    last
}

fn read_exactly(stream: &mut TcpStream, expected: &[u8]) {
    let mut buffer = vec![0; expected.len()];
    stream.read_exact(&mut buffer).expect("there is more");
    assert_eq!(
        buffer.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}

fn write_chunk(stream: &mut TcpStream, size_line: &str, size: u64) -> std::io::Result<()> {
    stream.write_all(size_line.as_bytes())?;
    write_pattern(stream, 0..size)?;
    stream.write_all(b"\r\n")
}
