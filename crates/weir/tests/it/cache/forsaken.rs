//! Fills whose readers have all left: they end, unless little is missing or they are for those who come later.

use std::io::Read as _;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::purge::purge;
use super::{caching, ttl_of};
use crate::harness::client::{Connection, get, send};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, PATIENCE, wait_until};

const MIB: usize = 1 << 20;
/// The most that may be missing of a fill that goes on by itself.
const WORTH_FINISHING: usize = MIB;

/// An origin whose answer stops before its end, until it is told to go on or the gateway has closed, which it tells.
struct Hesitating {
    origin: Origin,
    go: Sender<()>,
    closed: Receiver<()>,
}

impl Hesitating {
    /// `fields` are whole lines, of which one frames the body; `missing` is sent at the end.
    fn start(fields: String, first: Vec<u8>, missing: Vec<u8>) -> Self {
        let (go, wait) = channel::<()>();
        let (closes, closed) = channel();
        let (wait, closes) = (Mutex::new(wait), Mutex::new(closes));
        let origin = Origin::start(move |mut peer, _| {
            while peer.head().is_some() {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n{fields}\r\n"
                ));
                peer.send(&first);
                let waits = wait.lock().expect("one at a time");
                loop {
                    if waits.try_recv().is_ok() {
                        break;
                    }
                    let pause = Some(std::time::Duration::from_millis(5));
                    peer.stream.set_read_timeout(pause).expect("a socket");
                    // A request behind the one that is being answered would be a fault of the gateway.
                    match peer.stream.read(&mut [0; 1]) {
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        end => {
                            assert!(!matches!(end, Ok(1)), "a pipelined request");
                            let _ = closes.lock().expect("one at a time").send(());
                            return;
                        }
                    }
                }
                peer.stream.set_read_timeout(None).expect("a socket");
                peer.send(&missing);
            }
        });
        Self { origin, go, closed }
    }

    fn with_length(first: usize, missing: usize) -> Self {
        let length = format!("Content-Length: {}\r\n", first + missing);
        Self::start(length, vec![b'x'; first], vec![b'x'; missing])
    }

    fn chunked() -> Self {
        let fields = "Transfer-Encoding: chunked\r\n".to_owned();
        Self::start(fields, b"1\r\nx\r\n".into(), b"1\r\nx\r\n0\r\n\r\n".into())
    }

    fn sees_the_end(&self) {
        self.closed.recv_timeout(PATIENCE).expect("the fill ends");
    }
}

/// Asks for a path and reads the first of the body.
fn begin(gateway: &Gateway, fields: &str) -> Connection {
    let mut client = Connection::open(gateway.address);
    client.send(format!("GET / HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
    client.until(b"\r\n\r\n");
    client.until(b"x");
    client
}

#[test]
fn it_ends_when_much_or_nobody_knows_how_much_is_missing() {
    let cases = [
        Hesitating::with_length(1, WORTH_FINISHING + 1),
        Hesitating::with_length(1, 16 * MIB),
        Hesitating::chunked(),
    ];
    for case in cases {
        let gateway = caching(case.origin.address, "true");
        let clients = [begin(&gateway, ""), begin(&gateway, "")];
        for client in clients {
            assert!(case.closed.try_recv().is_err(), "somebody reads it");
            drop(client);
        }
        case.sees_the_end();
        assert_eq!(case.origin.heads_waiting(), 1);
        // Whoever comes now has a fill of its own.
        let after = begin(&gateway, "");
        assert_eq!(case.origin.heads_waiting(), 1);
        drop(after);
        case.sees_the_end();
    }
}

#[test]
fn it_goes_on_when_little_is_missing() {
    let case = Hesitating::with_length(MIB, WORTH_FINISHING);
    let gateway = caching(case.origin.address, "true");
    let mut client = begin(&gateway, "");
    client.exactly(MIB - 1);
    drop(client);
    let open = |worker| gateway.metric(&format!("weir_client_connections{{worker=\"{worker}\"}}"));
    wait_until("it is seen to have left", || open(0) + open(1) == 0);
    case.go.send(()).expect("the origin waits");
    assert_eq!(get(gateway.address, "/").body.len(), 2 * MIB);
    assert_eq!(case.origin.heads_waiting(), 1);
}

/// Whoever wanted a part or a confirmation has it and has not left; a response that is stale is asked for in the background.
#[test]
fn it_goes_on_for_those_who_come_later() {
    let case = Hesitating::with_length(MIB, 2 * WORTH_FINISHING);
    let gateway = caching(case.origin.address, "true");
    let request = "GET / HTTP/1.1\r\nHost: test\r\nRange: bytes=0-9\r\nConnection: close\r\n\r\n";
    let part = send(gateway.address, request);
    assert_eq!((part.status, part.body.len()), (206, 10));
    case.go.send(()).expect("the origin waits");
    assert_eq!(get(gateway.address, "/").body.len(), 3 * MIB);
    assert_eq!(case.origin.heads_waiting(), 1);

    let case = Hesitating::chunked();
    let rules = "{ stale_while_revalidate = \"600s\" }";
    let gateway = caching(case.origin.address, rules);
    case.go.send(()).expect("the origin waits");
    assert_eq!(get(gateway.address, "/").text(), "xx");
    purge(&gateway, "{\"all\": true, \"soft\": true}");
    assert_eq!(case.origin.heads_waiting(), 1);
    assert_eq!(get(gateway.address, "/").text(), "xx");
    case.origin.next_head();
    case.go.send(()).expect("the origin waits");
    wait_until("it is refreshed", || {
        ttl_of(&get(gateway.address, "/")).is_some_and(|ttl| ttl > 1)
    });
    assert_eq!(case.origin.heads_waiting(), 0);
}
