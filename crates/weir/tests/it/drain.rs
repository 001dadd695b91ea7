//! Ending: what was accepted is answered, nothing new comes in, and a second request to end is granted at once.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message};

use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, PATIENCE, forward_everything, wait_until};
use crate::upgrade::websocket::connect;

const LOG: &str = "access.log";

/// A gateway with an access log that would not be written for a long while, in front of `origin`.
fn gateway(origin: &Origin, keys: &str) -> Gateway {
    let forward = forward_everything(&[origin.address], "");
    Gateway::start_in(|directory| {
        let log = directory.file(LOG);
        format!(
            "{keys}\n[access_log]\npath = \"{}\"\nflush = \"300s\"\n{forward}",
            log.display()
        )
    })
}

fn log_lines(gateway: &Gateway) -> Vec<String> {
    let text = std::fs::read_to_string(gateway.directory.file(LOG)).expect("there is a log");
    text.lines().map(str::to_owned).collect()
}

/// An origin that answers `/held` when told to, in two pieces, and everything else at once.
fn holding() -> (Origin, Sender<()>) {
    let (release, released) = channel();
    let released = Mutex::new(released);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("/held") {
                let _ = released.lock().expect("no handler panics").recv();
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
                peer.send("ld\n");
            } else {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nquick\n");
            }
        }
    });
    (origin, release)
}

fn refuses_connections(gateway: &Gateway) -> bool {
    TcpStream::connect(gateway.address)
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[test]
fn sigterm_answers_what_was_accepted_and_takes_nothing_more() {
    let (origin, release) = holding();
    let mut gateway = gateway(&origin, "");
    let mut held: Vec<_> = (0..20).map(|_| Connection::open(gateway.address)).collect();
    for connection in &mut held {
        connection.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
        assert!(origin.next_head().starts_with("GET /held "));
    }
    // One is pipelined behind a request in flight, one has sent half of its head, and some are idle.
    held[0].send("GET /second HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut half = Connection::open(gateway.address);
    half.send("GET /half HTTP/1.1\r\n");
    let mut idle: Vec<_> = (0..5).map(|_| Connection::open(gateway.address)).collect();
    for connection in &mut idle[1..] {
        assert_eq!(connection.get("/").text(), "quick\n");
    }

    gateway.process.signal("TERM");
    wait_until("it refuses connections", || refuses_connections(&gateway));
    half.send("Host: test\r\n\r\n");
    let response = half.response();
    assert_eq!(response.text(), "quick\n");
    assert_eq!(response.field("connection"), Some("close"));
    for connection in &mut idle {
        assert!(connection.is_closed());
    }
    // The admin listener still answers.
    assert_eq!(gateway.metric("weir_client_connections_refused_total"), 0);

    for _ in &held {
        release.send(()).expect("the origin waits");
    }
    for connection in &mut held {
        let response = connection.response();
        assert_eq!((response.status, response.text().as_str()), (200, "held\n"));
    }
    for connection in &mut held[1..] {
        assert!(connection.is_closed());
    }
    assert_eq!(gateway.process.wait().code(), Some(0));
    let lines = log_lines(&gateway);
    let count = |path: &str| lines.iter().filter(|line| line.contains(path)).count();
    assert_eq!(
        (count("/held"), count("/half"), count("\"GET / ")),
        (20, 1, 4)
    );
}

/// Requests from many connections, one after the other, while the gateway is told to end: each is answered, or its
/// connection is closed before it was sent or as an idle one; none is broken off.
#[test]
fn sigterm_under_load_breaks_no_response_off() {
    let (origin, _release) = holding();
    let mut gateway = gateway(&origin, "");
    let address = gateway.address;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let mut connection = Connection::open(address);
                let mut answered = 0;
                loop {
                    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
                    let response = connection.response();
                    assert_eq!(response.text(), "quick\n");
                    answered += 1;
                    if response.field("connection") == Some("close") {
                        return answered;
                    }
                }
            })
        })
        .collect();
    wait_until("there is load", || origin.heads_waiting() > 0);
    gateway.process.signal("TERM");
    let answered: usize = threads
        .into_iter()
        .map(|thread| thread.join().expect("every request is answered"))
        .sum();
    assert_eq!(gateway.process.wait().code(), Some(0));
    assert_eq!(log_lines(&gateway).len(), answered);
}

#[test]
fn a_second_sigterm_ends_at_once() {
    let (origin, _release) = holding();
    let mut gateway = gateway(&origin, "");
    let mut connection = Connection::open(gateway.address);
    connection.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
    let _ = origin.next_head();
    gateway.process.signal("TERM");
    wait_until("it drains", || refuses_connections(&gateway));
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait().code(), Some(3));
    assert!(connection.is_closed());
}

/// SIGINT is as good as SIGTERM: it is what Ctrl-C sends.
#[test]
fn sigint_drains_too() {
    let (origin, release) = holding();
    let mut gateway = gateway(&origin, "");
    let mut connection = Connection::open(gateway.address);
    connection.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
    let _ = origin.next_head();
    gateway.process.signal("INT");
    wait_until("it drains", || refuses_connections(&gateway));
    release.send(()).expect("the origin waits");
    assert_eq!(connection.response().text(), "held\n");
    assert_eq!(gateway.process.wait().code(), Some(0));
}

/// What does not end within the drain timeout is cut off, which the exit status tells; what had ended is in the log.
#[test]
fn the_drain_timeout_cuts_off() {
    let (origin, _release) = holding();
    let mut gateway = gateway(&origin, "[timeouts]\ndrain = \"300ms\"");
    // On the same connection, so that the worker that is cut off is the one that has the line.
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/before").text(), "quick\n");
    connection.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_until("it is on its way", || {
        origin.next_head().starts_with("GET /held ")
    });
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait().code(), Some(3));
    // What is cut off is told so, and has its line in the log like everything else.
    assert_eq!(connection.response().status, 503);
    assert!(connection.is_closed());
    assert!(gateway.process.output().contains("drain timeout"));
    let lines = log_lines(&gateway);
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(has("/before HTTP/1.1\" 200"), "{lines:?}");
    assert!(has("/held HTTP/1.1\" 503"), "{lines:?}");
}

/// Where a response breaks off because the gateway ends, that is nobody else's fault, whether it was on its way into the cache or not.
#[test]
fn a_response_that_is_cut_off_says_whose_fault_it_was() {
    for cache in ["", "cache = true\n"] {
        let origin = Origin::start(|mut peer, _| {
            while peer.head().is_some() {
                peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nhello");
            }
        });
        let forward = forward_everything(&[origin.address], "") + cache;
        let mut gateway = Gateway::start_in(|directory| {
            let log = directory.file(LOG);
            format!(
                "[timeouts]\ndrain = \"300ms\"\n[access_log]\npath = \"{}\"\nformat = \"json\"\n{forward}",
                log.display()
            )
        });
        let mut connection = Connection::open(gateway.address);
        connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        connection.until(b"hello");
        gateway.process.signal("TERM");
        assert_eq!(gateway.process.wait().code(), Some(3));
        let lines = log_lines(&gateway);
        assert!(
            lines[0].contains("\"failure\":\"shut_down\""),
            "{cache} {lines:?}"
        );
    }
}

/// Both ends of a WebSocket are told, so that a deploy waits for none, and its process has not failed.
#[test]
fn websockets_are_closed_as_their_protocol_has_it() {
    let (tell, told) = channel();
    let origin = Origin::start(move |peer, _| {
        let Ok(mut socket) = tungstenite::accept(peer.stream) else {
            return;
        };
        while let Ok(message) = socket.read() {
            let _ = tell.send(message);
        }
    });
    // Longer than the test may take: nothing waits for it.
    let mut gateway = gateway(&origin, "[timeouts]\ndrain = \"1h\"");
    let mut sockets: Vec<_> = (0..3).map(|_| connect(gateway.address)).collect();
    sockets[0]
        .send(Message::text("still said"))
        .expect("it is open");
    assert_eq!(
        told.recv_timeout(PATIENCE).ok(),
        Some(Message::text("still said"))
    );
    gateway.process.signal("TERM");
    for socket in &mut sockets {
        let message = socket.read().expect("it is told");
        let Message::Close(Some(frame)) = message else {
            panic!("{message:?}");
        };
        assert_eq!(frame.code, CloseCode::Away);
        // The library answers with the same, and then sees the end.
        assert!(matches!(socket.read(), Err(Error::ConnectionClosed)));
    }
    for _ in &sockets {
        let Ok(Message::Close(Some(frame))) = told.recv_timeout(PATIENCE) else {
            panic!("the upstream is told too");
        };
        assert_eq!(frame.code, CloseCode::Away);
    }
    assert_eq!(gateway.process.wait().code(), Some(0));
}

/// Streams of events have no end of their own. They get one where a browser sees that it is to connect again, so that a deploy waits
/// for none.
#[test]
fn streams_of_events_end_with_the_gateway() {
    const EVENT: &str = "data: 1\n\n";
    for (version, fields, sent, rest) in [
        (
            "1.1",
            "Transfer-Encoding: chunked\r\n",
            "9\r\ndata: 1\n\n\r\n",
            "0\r\n\r\n",
        ),
        ("1.1", "Connection: close\r\n", EVENT, "0\r\n\r\n"),
        ("1.0", "Connection: close\r\n", EVENT, ""),
    ] {
        let origin = Origin::start(move |mut peer, _| {
            while peer.head().is_some() {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{fields}\r\n{sent}"
                ));
            }
        });
        for keys in ["", "concurrency = 5\n"] {
            let servers = origin.address;
            // Longer than the test may take: nothing waits for it.
            let mut gateway = Gateway::start(&format!(
                "[timeouts]\ndrain = \"1h\"\n[upstream.app]\nservers = [\"{servers}\"]\n{keys}\
                 [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n"
            ));
            let mut connection = Connection::open(gateway.address);
            connection.send(format!("GET / HTTP/{version}\r\nHost: test\r\n\r\n"));
            connection.until(EVENT.as_bytes());
            gateway.process.signal("TERM");
            let left = connection.rest();
            let left = String::from_utf8_lossy(&left);
            assert!(left.ends_with(rest), "{version} {fields}{left:?}");
            assert_eq!(gateway.process.wait().code(), Some(0), "{version} {fields}");
        }
    }
}

/// What speaks no WebSocket may stay as long as requests may, and is then no failure.
#[test]
fn a_tunnel_that_is_left_is_no_failure() {
    let origin = Origin::start(|mut peer, _| {
        if peer.head().is_some() {
            peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello");
            let _ = peer.head();
        }
    });
    let forward = forward_everything(&[origin.address], "") + "upgrade = [\"echo\"]\n";
    let mut gateway = Gateway::start(&format!("[timeouts]\ndrain = \"300ms\"\n{forward}"));
    let mut connection = Connection::open(gateway.address);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    connection.until(b"hello");
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait().code(), Some(0));
    assert!(connection.is_closed());
    let output = gateway.process.output();
    assert!(output.contains("1 tunnels were still open"), "{output}");
}

/// Balancers have the time to notice: until then everything goes on.
#[test]
fn a_gateway_that_leaves_says_so_before_it_stops_accepting() {
    let (origin, _release) = holding();
    let mut gateway = gateway(&origin, "[timeouts]\ndrain_delay = \"1h\"");
    let health = || client::ask_admin(gateway.admin, "/healthz");
    assert_eq!(health().status, 200);
    gateway.process.signal("TERM");
    wait_until("it says so", || health().status == 503);
    assert_eq!(health().text(), "draining\n");
    let mut connection = Connection::open(gateway.address);
    let response = connection.get("/");
    assert_eq!(response.text(), "quick\n");
    assert_eq!(response.field("connection"), None, "it may be used again");
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait().code(), Some(3));
}

/// A client that is still sending when it is cut off gets to read why: its bytes do not reset the connection.
#[test]
fn an_upload_that_is_cut_off_reads_its_503() {
    let origin = Origin::start(|mut peer, _| while peer.head().is_some() {});
    let mut gateway = gateway(&origin, "[timeouts]\ndrain = \"300ms\"");
    let mut connection = Connection::open(gateway.address);
    connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100000000\r\n\r\n");
    let _ = origin.next_head();
    let mut writer = connection.stream.try_clone().expect("a socket is shared");
    let upload = std::thread::spawn(move || while writer.write_all(&[b'x'; 16 << 10]).is_ok() {});
    gateway.process.signal("TERM");
    assert_eq!(connection.response().status, 503);
    assert_eq!(gateway.process.wait().code(), Some(3));
    drop(connection);
    upload.join().expect("it ends with its connection");
}

/// The log is rotated while a gateway drains, and before it does; its config is not read again.
#[test]
fn signals_are_heard_until_the_end() {
    for keys in ["", "[timeouts]\ndrain_delay = \"1h\""] {
        let (origin, _release) = holding();
        let mut gateway = gateway(&origin, keys);
        let mut connection = Connection::open(gateway.address);
        connection.send("GET /held HTTP/1.1\r\nHost: test\r\n\r\n");
        let _ = origin.next_head();
        gateway.process.signal("TERM");
        wait_until("it says so", || {
            gateway.process.output().contains("draining")
        });
        let log = gateway.directory.file(LOG);
        std::fs::rename(&log, gateway.directory.file("rotated.log")).expect("there is a log");
        gateway.process.signal("USR1");
        wait_until("there is another log", || log.exists());
        gateway.process.signal("HUP");
        wait_until("it says so", || {
            gateway.process.output().contains("SIGHUP is ignored")
        });
        gateway.process.signal("TERM");
        assert_eq!(gateway.process.wait().code(), Some(3), "{keys}");
    }
}
