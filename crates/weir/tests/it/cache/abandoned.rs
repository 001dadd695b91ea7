//! What clients ask for and do not read: it takes no more than its part of RAM.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::client::Connection;
use crate::harness::origin::{Origin, Peer};
use crate::harness::{Gateway, wait_until};

const MIB: usize = 1 << 20;

fn caching(origin: SocketAddr, memory: &str) -> Gateway {
    Gateway::start(&format!(
        "[cache]\nmemory = \"{memory}\"\n[upstream.app]\nservers = [\"{origin}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\n"
    ))
}

fn send_head(peer: &mut Peer, length: usize) {
    peer.send(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n"
    ));
}

/// Asks for a path, waits for the head of the answer, and leaves.
fn ask_and_leave(gateway: &Gateway, path: &str) {
    let mut client = Connection::open(gateway.address);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
    client.until(b"\r\n\r\n");
}

/// Each of them is small enough for RAM and to go on by itself, has nearly all come, and waits for its end.
#[test]
fn hundreds_of_abandoned_bodies_take_no_more_than_their_part_of_memory() {
    const BODY: usize = MIB;
    const BODIES: usize = 400;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            send_head(&mut peer, BODY);
            // What is not to be stored and nobody reads is not taken to its end.
            let _ = peer.stream.write_all(&vec![b'x'; BODY - 1]);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let gateway = caching(origin.address, "64MiB");
    for number in 0..BODIES {
        ask_and_leave(&gateway, &format!("/{number}"));
    }
    wait_until("the origin has sent what it sends", || {
        sent.load(Ordering::SeqCst) == BODIES
    });
    let resident = gateway.process.resident_bytes() / MIB as u64;
    assert!(resident < 64 + 32, "{resident} MiB are in RAM");
}
