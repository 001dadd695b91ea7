//! The bytes of a tunnel: none is lost at its start, behind a slow reader or after one end has finished; an idle one
//! ends.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use super::{SWITCHING, UPGRADE, content, open_connections};
use crate::harness::client::Connection;
use crate::harness::origin::{Origin, Peer};
use crate::harness::{Gateway, PATIENCE, forward_everything, wait_until};

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
