//! Requests that find no idle connection: they take what comes free, in their turn, and connects go on without them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::one_worker;
use crate::harness::client::Connection;
use crate::harness::{Gateway, wait_until};

/// An origin that accepts when it is told, and whose queue is full otherwise: connecting hangs until it is not.
struct Slow {
    listener: socket2::Socket,
    address: SocketAddr,
    /// What fills its queue.
    queue: Vec<TcpStream>,
}

impl Slow {
    fn start() -> Self {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket can be made");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        listener.bind(&any.into()).expect("there is a free port");
        listener.listen(0).expect("a bound socket listens");
        let address = listener.local_addr().expect("it is bound");
        Self {
            address: address.as_socket().expect("it is an IP address"),
            listener,
            queue: Vec::new(),
        }
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.listener.accept().expect("a connection comes");
        stream.into()
    }

    fn fill_queue(&mut self) {
        let patience = Duration::from_millis(200);
        while let Ok(stream) = TcpStream::connect_timeout(&self.address, patience) {
            self.queue.push(stream);
        }
    }

    /// Accepts until somebody else's connection is there than what filled the queue.
    fn accept_next(&self) -> TcpStream {
        // From now on there is room for all.
        self.listener.listen(64).expect("it listens");
        let own: Vec<_> = self.queue.iter().map(TcpStream::local_addr).collect();
        let own: Vec<_> = own
            .into_iter()
            .map(|own| own.expect("it is bound"))
            .collect();
        loop {
            let stream = self.accept();
            if !own.contains(&stream.peer_addr().expect("it is connected")) {
                return stream;
            }
        }
    }
}

/// Sends a request for `path`, and waits until it is one of `so_many` that are on their way.
fn ask(gateway: &Gateway, request: &str, so_many: u64) -> Connection {
    let mut connection = Connection::open(gateway.address);
    connection.send(format!("{request} HTTP/1.1\r\nHost: test\r\n\r\n"));
    wait_until("it is on its way", || {
        gateway.metric("weir_upstream_in_flight") == so_many
    });
    connection
}

/// The request line of what comes on the origin's side.
fn asked(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a request comes");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("a head is ASCII");
    head.split(" HTTP").next().unwrap_or_default().to_owned()
}

fn answer(stream: &mut TcpStream) {
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .expect("the gateway reads");
}

#[test]
fn who_waits_longest_takes_what_comes_free_while_connects_hang() {
    let mut origin = Slow::start();
    let gateway = one_worker(&[origin.address], "", "timeout = { connect = \"20s\" }\n");
    let mut first = ask(&gateway, "GET /0", 1);
    let mut stream = origin.accept();
    assert_eq!(asked(&mut stream), "GET /0");
    origin.fill_queue();
    let paths = ["GET /1", "POST /2", "GET /left", "GET /3"];
    let mut waiting: Vec<_> = paths
        .iter()
        .zip(2..)
        .map(|(path, so_many)| ask(&gateway, path, so_many))
        .collect();
    // Whoever leaves gives way, and the connect that was begun for it goes on.
    drop(waiting.remove(2));
    wait_until("it has left", || {
        gateway.metric("weir_upstream_in_flight") == 4
    });
    answer(&mut stream);
    assert_eq!(first.response().status, 200);
    for (client, path) in waiting.iter_mut().zip(["GET /1", "POST /2", "GET /3"]) {
        assert_eq!(asked(&mut stream), path);
        answer(&mut stream);
        assert_eq!(client.response().status, 200, "{path}");
    }
    assert_eq!(gateway.metric("weir_upstream_connects_total"), 1);
    // The connects that they were begun for stand in the end, and are kept.
    let accepted: Vec<_> = (0..4).map(|_| origin.accept_next()).collect();
    gateway.wait_for_metric("weir_upstream_connects_total", 5);
    wait_until("they are kept", || {
        gateway.metric("weir_upstream_idle_connections") == 5
    });
    assert_eq!(gateway.metric("weir_upstream_connect_failures_total"), 0);
    drop(accepted);
}
