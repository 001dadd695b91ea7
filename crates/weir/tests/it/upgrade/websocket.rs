//! A WebSocket library on both ends: every kind of message, both ways at once, in many tunnels at once.

use std::net::{SocketAddr, TcpStream};

use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role};
use tungstenite::{Error, Message, WebSocket};

use super::{content, open_connections};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, PATIENCE, wait_until};

/// A WebSocket server that sends every message back, and answers other requests too.
pub(crate) fn echo() -> Origin {
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
pub(crate) fn connect(gateway: SocketAddr) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(gateway).expect("the gateway accepts");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    let (socket, response) =
        tungstenite::client("ws://test/chat", stream).expect("the upgrade is let through");
    assert_eq!(response.status(), 101);
    socket
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
