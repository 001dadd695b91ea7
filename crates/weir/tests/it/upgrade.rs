//! Upgrades: a WebSocket library on both ends, and what is and is not let through, byte by byte.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role};
use tungstenite::{Error, Message, WebSocket};

use crate::harness::client::Connection;
use crate::harness::origin::{Origin, Peer};
use crate::harness::{Gateway, PATIENCE, forward_everything, wait_until};

const UPGRADE: &str =
    "GET /chat HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// A WebSocket server that sends every message back, and answers other requests too.
fn echo() -> Origin {
    Origin::start(|peer, _| {
        let Ok(mut socket) = tungstenite::accept(peer.stream) else {
            return;
        };
        // Whether the tunnel ends as it should is for the client to see.
        while let Ok(message) = socket.read() {
            if message.is_text() || message.is_binary() {
                socket.send(message).expect("the client reads");
            }
        }
    })
}

/// A WebSocket through the gateway.
fn connect(gateway: SocketAddr) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(gateway).expect("the gateway accepts");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    let (socket, response) =
        tungstenite::client("ws://test/chat", stream).expect("the upgrade is let through");
    assert_eq!(response.status(), 101);
    socket
}

/// Content that tells one message and place from another.
fn content(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at.wrapping_mul(31) ^ number.wrapping_mul(17) ^ (at >> 8)) as u8)
        .collect()
}

#[test]
fn text_binary_ping_and_close() {
    let origin = echo();
    let gateway = Gateway::to(&[origin.address]);
    let mut socket = connect(gateway.address);
    socket.send(Message::text("grüße")).expect("sent");
    assert_eq!(socket.read().expect("an echo"), Message::text("grüße"));
    let large = Message::binary(content(1, 1 << 20));
    socket.send(large.clone()).expect("sent");
    assert!(socket.read().expect("an echo") == large, "1 MiB comes back");
    socket
        .send(Message::Ping("are you there".into()))
        .expect("sent");
    let pong = socket.read().expect("a pong");
    assert_eq!(pong, Message::Pong("are you there".into()));
    socket.send(Message::binary(Vec::new())).expect("sent");
    assert_eq!(socket.read().expect("an echo"), Message::binary(Vec::new()));

    let goodbye = CloseFrame {
        code: CloseCode::Normal,
        reason: "enough".into(),
    };
    socket.close(Some(goodbye.clone())).expect("sent");
    let reply = socket.read().expect("a reply");
    assert_eq!(reply, Message::Close(Some(goodbye)));
    assert!(matches!(socket.read(), Err(Error::ConnectionClosed)));
    drop(socket);
    wait_until("the tunnel is gone", || open_connections(&gateway) == 0);
}

fn open_connections(gateway: &Gateway) -> u64 {
    gateway.metric("weir_client_connections{worker=\"0\"}")
        + gateway.metric("weir_client_connections{worker=\"1\"}")
}

/// Both ends send as fast as they can, and read what the other sends, all at once.
#[test]
fn many_messages_both_ways_at_once() {
    const MESSAGES: usize = 2_000;
    let size = |number: usize| number * 37 % 20_000;
    let send_all = move |mut socket: WebSocket<TcpStream>, seed: usize| {
        for number in 0..MESSAGES {
            let message = Message::binary(content(seed + number, size(number)));
            socket.send(message).expect("the other end reads");
        }
    };
    let expect_all = move |mut socket: WebSocket<TcpStream>, seed: usize| {
        for number in 0..MESSAGES {
            let message = socket.read().expect("the next message");
            let expected = Message::binary(content(seed + number, size(number)));
            assert!(message == expected, "message {number} of {seed}");
        }
    };
    let (tell, done) = std::sync::mpsc::channel();
    let origin = Origin::start(move |peer, _| {
        let Ok(reading) = tungstenite::accept(peer.stream) else {
            return;
        };
        let writing = other_half(&reading, Role::Server);
        let sender = std::thread::spawn(move || send_all(writing, 7_000));
        expect_all(reading, 100);
        sender.join().expect("everything was sent");
        let _ = tell.send(());
    });
    let gateway = Gateway::to(&[origin.address]);
    let reading = connect(gateway.address);
    let writing = other_half(&reading, Role::Client);
    let sender = std::thread::spawn(move || send_all(writing, 100));
    expect_all(reading, 7_000);
    sender.join().expect("everything was sent");
    done.recv_timeout(PATIENCE)
        .expect("the server got everything");
}

/// The same connection once more, so that one thread writes while another reads.
fn other_half(socket: &WebSocket<TcpStream>, role: Role) -> WebSocket<TcpStream> {
    let stream = socket
        .get_ref()
        .try_clone()
        .expect("a descriptor can be duplicated");
    WebSocket::from_raw_socket(stream, role, None)
}

#[test]
fn twenty_tunnels_at_once() {
    let origin = echo();
    let gateway = Gateway::to(&[origin.address]);
    let mut sockets: Vec<_> = (0..20).map(|_| connect(gateway.address)).collect();
    wait_until("only they are open", || open_connections(&gateway) == 20);
    for round in 0..10 {
        for (number, socket) in sockets.iter_mut().enumerate() {
            let message = Message::binary(content(round * 20 + number, 10_000));
            socket.send(message).expect("sent");
        }
        for (number, socket) in sockets.iter_mut().enumerate().rev() {
            let expected = Message::binary(content(round * 20 + number, 10_000));
            assert!(
                socket.read().expect("an echo") == expected,
                "tunnel {number}"
            );
        }
    }
    // One that ends takes no other with it.
    drop(sockets.swap_remove(3));
    wait_until("one tunnel is gone", || open_connections(&gateway) == 19);
    for socket in &mut sockets {
        socket.send(Message::text("still here")).expect("sent");
        assert_eq!(socket.read().expect("an echo"), Message::text("still here"));
    }
}

/// Reads `count` bytes that come through a tunnel to the origin.
fn read(peer: &mut Peer, count: usize) -> String {
    String::from_utf8(peer.body(count)).expect("UTF-8")
}

/// What either end sends in one piece with its head belongs to the tunnel.
#[test]
fn bytes_right_behind_the_heads_are_not_lost() {
    let (tell, seen) = std::sync::mpsc::channel();
    let origin = Origin::start(move |mut peer, _| {
        if peer.head().is_some() {
            peer.send(format!("{SWITCHING}server first"));
            let _ = tell.send(read(&mut peer, 5));
            let _ = tell.send(read(&mut peer, 4));
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    connection.send(format!("{UPGRADE}early"));
    assert_eq!(connection.response_to("GET").expect("a 101").status, 101);
    assert_eq!(connection.exactly(12), b"server first");
    connection.send("late");
    assert_eq!(seen.recv_timeout(PATIENCE).as_deref(), Ok("early"));
    assert_eq!(seen.recv_timeout(PATIENCE).as_deref(), Ok("late"));
}

#[test]
fn the_heads_of_an_upgrade() {
    let origin = Origin::start(|mut peer, _| {
        if peer.head().is_some() {
            peer.send(SWITCHING);
            let _ = peer.body(1);
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    connection.send(
        "GET /chat HTTP/1.1\r\nHost: test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    let response = connection.response_to("GET").expect("a 101");
    assert_eq!(response.status, 101);
    assert_eq!(response.field("upgrade"), Some("websocket"));
    assert_eq!(response.field("connection"), Some("upgrade"));
    assert_eq!(response.fields("content-length"), [""; 0]);
    let head = origin.next_head();
    assert!(head.contains("\r\nUpgrade: WebSocket\r\n"), "{head}");
    assert!(head.contains("\r\nConnection: upgrade\r\n"), "{head}");
    assert!(
        head.contains("\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        "{head}"
    );
    connection.send("!");
}

/// The upstream is not told of an upgrade that the route does not allow, and answers as if nothing had been asked.
fn assert_not_passed_on(config: &str, request: &str) {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain");
    let config = forward_everything(&[origin.address], "") + config;
    let gateway = Gateway::start(&config);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..2 {
        connection.send(request);
        let response = connection.response();
        assert_eq!((response.status, &*response.text()), (200, "plain"));
        let head = origin.next_head().to_ascii_lowercase();
        for absent in ["\r\nupgrade:", "\r\nconnection:", "\r\nhttp2-settings:"] {
            assert!(!head.contains(absent), "{head}");
        }
    }
}

#[test]
fn h2c_is_never_passed_on() {
    assert_not_passed_on(
        "",
        "GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
    );
}

#[test]
fn two_protocols_at_once_are_not_passed_on() {
    let request = |lines: &str| {
        format!("GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\n{lines}\r\n\r\n")
    };
    assert_not_passed_on("", &request("Upgrade: websocket, h2c"));
    assert_not_passed_on("", &request("Upgrade: websocket\r\nUpgrade: h2c"));
}

#[test]
fn an_upgrade_that_connection_does_not_name_is_not_passed_on() {
    assert_not_passed_on(
        "",
        "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\n\r\n",
    );
}

#[test]
fn a_route_without_upgrades_passes_none_on() {
    assert_not_passed_on("upgrade = []\n", UPGRADE);
}

/// The upstream may decline by answering, and nothing has happened to either connection.
#[test]
fn an_upstream_that_declines() {
    let origin = Origin::start(|mut peer, number| {
        while let Some(head) = peer.head() {
            let has_asked = head
                .to_ascii_lowercase()
                .contains("\r\nupgrade: websocket\r\n");
            let body = format!("{number} {has_asked}");
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    });
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    connection.send(UPGRADE);
    let declined = connection.response();
    assert_eq!((declined.status, &*declined.text()), (200, "0 true"));
    assert_eq!(declined.field("upgrade"), None);
    assert_eq!(connection.get("/").text(), "0 false");
    connection.send(UPGRADE);
    assert_eq!(connection.response().text(), "0 true");
}

/// A 101 that nobody asked for would make a tunnel out of a connection that the client still sends requests on.
#[test]
fn an_unasked_101_is_a_bad_gateway() {
    let origin = Origin::answering(SWITCHING);
    let gateway = Gateway::to(&[origin.address]);
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").status, 502);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    assert_eq!(connection.response().status, 502);
    // An exchange is counted once its response is out.
    let counter = "weir_failures_total{fault=\"upstream\",reason=\"unasked_upgrade\"}";
    wait_until("both are counted", || gateway.metric(counter) == 2);
}

/// A tunnel for raw bytes; the origin's end of it goes to `then`.
fn tunnel(then: impl Fn(Peer) + Send + Sync + 'static, config: &str) -> (Gateway, Connection) {
    let origin = Origin::start(move |mut peer, _| {
        if peer.head().is_some() {
            peer.send(SWITCHING);
            then(peer);
        }
    });
    let config = forward_everything(&[origin.address], "") + config;
    let gateway = Gateway::start(&config);
    let mut connection = Connection::open(gateway.address);
    connection.send(UPGRADE);
    assert_eq!(connection.response_to("GET").expect("a 101").status, 101);
    (gateway, connection)
}

#[test]
fn a_client_that_finished_sending_still_reads() {
    let (gateway, mut connection) = tunnel(
        |mut peer| {
            let mut said = String::new();
            // The end arrives while the other direction stays open.
            peer.stream.read_to_string(&mut said).expect("an end");
            peer.send(format!("you said {said}").repeat(10_000));
        },
        "",
    );
    connection.send("hello");
    connection
        .stream
        .shutdown(Shutdown::Write)
        .expect("it is open");
    assert!(
        connection.rest() == b"you said hello".repeat(10_000),
        "everything comes after the client has finished"
    );
    wait_until("the tunnel is gone", || open_connections(&gateway) == 0);
}

#[test]
fn an_upstream_that_finished_sending_still_reads() {
    let (tell, seen) = std::sync::mpsc::channel();
    let (_gateway, mut connection) = tunnel(
        move |mut peer| {
            peer.send("that is all");
            peer.stream.shutdown(Shutdown::Write).expect("it is open");
            let mut said = Vec::new();
            peer.stream.read_to_end(&mut said).expect("an end");
            let _ = tell.send(said);
        },
        "",
    );
    assert_eq!(connection.rest(), b"that is all");
    let said = content(3, 500_000);
    connection
        .stream
        .write_all(&said)
        .expect("the gateway reads");
    connection
        .stream
        .shutdown(Shutdown::Write)
        .expect("it is open");
    assert!(
        seen.recv_timeout(PATIENCE).expect("it is read") == said,
        "everything comes after the upstream has finished"
    );
}

/// A reader that stops holds the writer back: what is under way is bounded by the gateway's buffers and the kernel's.
#[test]
fn a_slow_reader_loses_nothing() {
    const BYTES: usize = 32 << 20;
    let (gateway, mut connection) = tunnel(|mut peer| peer.send(content(5, BYTES)), "");
    // The kernel's buffers are full and nothing moves any more: the writer is held back.
    let mut resident = u64::MAX;
    wait_until("the tunnel has filled up", || {
        let now = gateway.process.resident_bytes();
        std::mem::replace(&mut resident, now) == now
    });
    assert!(resident < 24 << 20, "the gateway holds {resident} bytes");
    assert!(
        connection.rest() == content(5, BYTES),
        "all of it, in order"
    );
}

#[test]
fn an_idle_tunnel_ends() {
    let (tell, seen) = std::sync::mpsc::channel();
    let (gateway, mut connection) = tunnel(
        move |mut peer| {
            let mut said = Vec::new();
            let end = peer.stream.read_to_end(&mut said);
            let _ = tell.send((said, end.is_ok()));
        },
        "[timeouts]\ntunnel = \"500ms\"\n",
    );
    connection.send("hello");
    assert!(connection.is_closed());
    let (said, _) = seen
        .recv_timeout(PATIENCE)
        .expect("the upstream sees the end");
    assert_eq!(said, b"hello");
    wait_until("the tunnel is gone", || open_connections(&gateway) == 0);
}
