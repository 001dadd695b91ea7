//! Large objects while they arrive: who asks may leave or be slow, others join, the origin or the disk may fail.

use std::io::Read as _;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::{
    FRESH, MIB, answer, ask, caching, config, fetch, files, indexed, pattern, wait_for_files,
};
use crate::harness::client::{Connection, ask_admin};
use crate::harness::origin::Origin;
use crate::harness::pattern::{growth_during, read_head, read_pattern, write_pattern};
use crate::harness::{Directory, Gateway, PATIENCE, wait_until};

const LENGTH: u64 = 64 * MIB;

/// An origin of large objects that stops half-way until it is told to go on. Parts are sent at once.
fn hesitating() -> (Origin, Sender<()>) {
    hesitating_at(LENGTH / 2)
}

/// The same, when it has sent so much.
fn hesitating_at(stop: u64) -> (Origin, Sender<()>) {
    let (go, wait) = channel();
    let wait: Mutex<Receiver<()>> = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("Range:") {
                answer(&mut peer, &head, LENGTH, FRESH).expect("the gateway reads");
                continue;
            }
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {LENGTH}\r\n\r\n"
            ));
            let begun = write_pattern(&mut peer.stream, 0..stop);
            begun.expect("the gateway reads");
            let told = wait.lock().expect("one at a time").recv_timeout(PATIENCE);
            if told.is_err() {
                // The test wants no more of it.
                return;
            }
            let rest = write_pattern(&mut peer.stream, stop..LENGTH);
            rest.expect("the gateway reads");
        }
    });
    (origin, go)
}

fn begin(gateway: &Gateway, fields: &str) -> Connection {
    let mut connection = Connection::open(gateway.address);
    connection.send(format!("GET / HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
    connection
}

#[test]
fn the_head_does_not_wait_for_the_body() {
    let (origin, go) = hesitating_at(0);
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let mut readers = [begin(&gateway, ""), begin(&gateway, "")];
    for reader in &mut readers {
        let head = read_head(&mut reader.stream);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    }
    go.send(()).expect("the origin waits");
    for reader in &mut readers {
        read_pattern(&mut reader.stream, 0..LENGTH);
    }
    assert_eq!(origin.heads_waiting(), 1);
}

#[test]
fn the_leader_may_leave() {
    let (origin, go) = hesitating();
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let mut leader = begin(&gateway, "");
    read_head(&mut leader.stream);
    read_pattern(&mut leader.stream, 0..MIB);
    let mut joiner = begin(&gateway, "");
    read_head(&mut joiner.stream);
    drop(leader);
    go.send(()).expect("the origin waits");
    wait_for_files(&directory, 1);
    fetch(gateway.address, LENGTH);
    assert_eq!(origin.heads_waiting(), 1);
}

/// Clients that read nothing hold up neither the fill nor each other, and get every byte in the end.
#[test]
fn who_is_slow_reads_the_file() {
    let (origin, go) = hesitating();
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let growth = growth_during(&gateway, || {
        let mut slow_leader = begin(&gateway, "");
        read_head(&mut slow_leader.stream);
        let mut slow_joiner = begin(&gateway, "");
        read_head(&mut slow_joiner.stream);
        let mut joiner = begin(&gateway, "");
        read_head(&mut joiner.stream);
        read_pattern(&mut joiner.stream, 0..LENGTH / 2);
        go.send(()).expect("the origin waits");
        read_pattern(&mut joiner.stream, LENGTH / 2..LENGTH);
        wait_for_files(&directory, 1);
        read_pattern(&mut slow_leader.stream, 0..LENGTH);
        read_pattern(&mut slow_joiner.stream, 0..LENGTH);
    });
    println!("64 MiB with a slow leader and a slow joiner: {growth} bytes");
    assert!(growth < 10 * MIB, "{growth}");
    assert_eq!(origin.heads_waiting(), 1);
}

/// A part that has arrived comes from the fill; one that has not, from the origin, and nobody waits for the rest.
#[test]
fn a_part_does_not_wait_for_the_whole() {
    let (origin, go) = hesitating();
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let part = |range: &str| ask(&gateway, "GET", &format!("Range: bytes={range}\r\n"));
    // The first to ask leads a fill, and its own part is far away.
    let far = part("60000000-60000099");
    assert_eq!(
        (far.status, far.body),
        (206, pattern(60_000_000..60_000_100))
    );
    let seen = [origin.next_head(), origin.next_head()];
    assert!(!seen[0].contains("Range:") && seen[1].contains("Range: bytes=60000000-60000099"));

    wait_until("half has arrived", || {
        part("33000000-33000009").field("cache-status") == Some("weir; fwd=uri-miss; collapsed")
    });
    let _ = origin.heads_waiting();
    let near = part("1000000-1000099");
    assert_eq!(
        (near.status, near.body),
        (206, pattern(1_000_000..1_000_100))
    );
    assert_eq!(origin.heads_waiting(), 0);
    let parts = part("0-9, 66000000-66000009");
    assert_eq!(parts.status, 206);
    assert_eq!(origin.heads_waiting(), 1);

    go.send(()).expect("the origin waits");
    wait_for_files(&directory, 1);
    let far = part("60000000-60000099");
    assert_eq!(
        (far.status, far.body),
        (206, pattern(60_000_000..60_000_100))
    );
    assert_eq!(origin.heads_waiting(), 0);
}

/// Whoever reads what breaks off sees a reset, and it is not stored.
#[test]
fn an_origin_that_dies_in_the_middle_leaves_nothing() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, number| {
        let head = peer.head().expect("it is asked");
        if number == 0 {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {LENGTH}\r\n\r\n"
            ));
            write_pattern(&mut peer.stream, 0..LENGTH / 2).expect("the gateway reads");
            wait.lock()
                .expect("one at a time")
                .recv()
                .expect("the test goes on");
            peer.close();
        } else {
            answer(&mut peer, &head, LENGTH, FRESH).expect("the gateway reads");
        }
    });
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let mut readers = [
        begin(&gateway, ""),
        begin(&gateway, ""),
        begin(&gateway, ""),
    ];
    for reader in &mut readers {
        read_head(&mut reader.stream);
    }
    read_pattern(&mut readers[0].stream, 0..LENGTH / 2);
    go.send(()).expect("the origin waits");
    for (reader, read) in readers.iter_mut().zip([LENGTH / 2, 0, 0]) {
        // What is in the way of a reset may be lost with it, so how much is read before is not certain.
        let mut rest = Vec::new();
        let end = reader.stream.read_to_end(&mut rest);
        assert!(end.is_err(), "{} bytes and a clean end", rest.len());
        assert!(
            rest == pattern(read..read + rest.len() as u64),
            "wrong bytes"
        );
    }
    assert!(files(&directory).is_empty());
    assert_eq!(
        std::fs::read_dir(directory.file("store/temporary"))
            .expect("it is there")
            .count(),
        0
    );
    fetch(gateway.address, LENGTH);
    assert_eq!(origin.heads_waiting(), 2);
}

/// A disk that takes no more, in the middle of an object: those who read get it all, and it is not stored.
#[test]
fn a_disk_that_is_full_is_done_without() {
    // Both have joined before the disk is full.
    let (origin, go) = hesitating_at(MIB);
    let directory = Directory::new();
    // Files of at most 8 MiB, by the system's limit.
    let gateway = indexed(Gateway::start_limited(
        &config(origin.address, &directory, "true"),
        "ulimit -f 8192; trap '' XFSZ",
    ));
    let growth = growth_during(&gateway, || {
        let mut slow = begin(&gateway, "");
        read_head(&mut slow.stream);
        let mut leader = begin(&gateway, "");
        read_head(&mut leader.stream);
        let fast = thread::spawn(move || {
            read_pattern(&mut leader.stream, 0..LENGTH);
        });
        go.send(()).expect("the origin waits");
        read_pattern(&mut slow.stream, 0..LENGTH);
        fast.join().expect("every byte arrives");
    });
    assert!(growth < 10 * MIB, "{growth}");
    assert!(files(&directory).is_empty());
    go.send(()).expect("the origin waits");
    fetch(gateway.address, LENGTH);
    assert_eq!(origin.heads_waiting(), 2);
    assert_eq!(ask_admin(gateway.admin, "/metrics").status, 200);
}
