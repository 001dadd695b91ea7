//! Objects that RAM does not take: filled through to disk, and sent from there, whole and in parts.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{FRESH, MIB, answer, ask, caching, fetch, files, origin, pattern, wait_for_files};
use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::pattern::{growth_during, read_head, read_pattern, write_pattern};
use crate::harness::process::Process;
use crate::harness::{Directory, wait_until};

/// How much a gateway may grow by while one object passes through: its window, its writer's pieces and buffers, and what
/// the allocator keeps of them.
const GROWTH_BYTES_MAX: u64 = 8 * MIB;

#[test]
fn a_hundred_mebibytes_are_filled_and_hit_in_constant_memory() {
    const LENGTH: u64 = 100 * MIB;
    let origin = origin(LENGTH, FRESH);
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let filled = growth_during(&gateway, || {
        fetch(gateway.address, LENGTH);
    });
    wait_for_files(&directory, 1);
    let hit = growth_during(&gateway, || {
        for _ in 0..3 {
            let head = fetch(gateway.address, LENGTH);
            assert!(head.contains("\r\nCache-Status: weir; hit; ttl="), "{head}");
        }
    });
    println!("100 MiB: the fill adds {filled} bytes, then three hits {hit}");
    assert!(
        filled < GROWTH_BYTES_MAX && hit < GROWTH_BYTES_MAX,
        "{filled}, {hit}"
    );
    assert_eq!(origin.heads_waiting(), 1);
    assert_eq!(gateway.metric("weir_cache_hits_total"), 3);
}

/// A body whose length is known at its end: by chunks, and by the end of the connection.
#[test]
fn a_length_that_shows_at_the_end_is_no_obstacle() {
    const LENGTH: u64 = 20 * MIB;
    const CHUNK: u64 = 50_000;
    let chunked = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{FRESH}Transfer-Encoding: chunked\r\n\r\n"
            ));
            for first in (0..LENGTH).step_by(CHUNK as usize) {
                let last = (first + CHUNK).min(LENGTH);
                peer.send(format!("{:x}\r\n", last - first));
                write_pattern(&mut peer.stream, first..last).expect("the gateway reads");
                peer.send("\r\n");
            }
            peer.send("0\r\n\r\n");
        }
    });
    let until_close = Origin::start(|mut peer, _| {
        if peer.head().is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\n{FRESH}\r\n"));
            write_pattern(&mut peer.stream, 0..LENGTH).expect("the gateway reads");
            peer.close();
        }
    });
    for origin in [chunked, until_close] {
        let directory = Directory::new();
        let gateway = caching(origin.address, &directory, "true");
        let filled = growth_during(&gateway, || {
            let response = ask(&gateway, "GET", "");
            assert_eq!(response.field("transfer-encoding"), Some("chunked"));
            assert!(response.body == pattern(0..LENGTH), "not the body");
        });
        // Up to the largest object of RAM, 1 MiB, is held until it is known to be larger.
        assert!(filled < GROWTH_BYTES_MAX, "{filled}");
        wait_for_files(&directory, 1);
        fetch(gateway.address, LENGTH);
        assert_eq!(origin.heads_waiting(), 1);
        // Beyond what a route stores, it is passed on.
        let gateway = caching(
            origin.address,
            &Directory::new(),
            "{ max_object = \"10MiB\" }",
        );
        for _ in 0..2 {
            assert!(
                ask(&gateway, "GET", "").body == pattern(0..LENGTH),
                "not the body"
            );
        }
        assert_eq!(origin.heads_waiting(), 2);
    }
}

/// Bytes that a process has read from files and sockets.
fn bytes_read(process: &Process) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", process.pid())).expect("it runs");
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|count| count.parse().ok()).expect("a count")
}

#[test]
fn parts_conditions_and_heads_read_no_more_than_they_need() {
    const LENGTH: u64 = 100 * MIB;
    let origin = origin(LENGTH, FRESH);
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    fetch(gateway.address, LENGTH);
    wait_for_files(&directory, 1);
    let before = bytes_read(&gateway.process);

    for (range, first, last) in [
        ("0-0", 0, 0),
        ("65535-65536", 65_535, 65_536),
        ("50000000-50299999", 50_000_000, 50_299_999),
        ("-70000", LENGTH - 70_000, LENGTH - 1),
        ("104857599-", LENGTH - 1, LENGTH - 1),
    ] {
        let part = ask(&gateway, "GET", &format!("Range: bytes={range}\r\n"));
        assert_eq!(part.status, 206);
        let shown = format!("bytes {first}-{last}/{LENGTH}");
        assert_eq!(part.field("content-range"), Some(shown.as_str()));
        assert!(part.body == pattern(first..last + 1), "{range}");
    }
    let parts = ask(
        &gateway,
        "GET",
        "Range: bytes=1000-1099, 90000000-90000009\r\n",
    );
    assert_eq!(parts.status, 206);
    for range in [1000..1100, 90_000_000..90_000_010] {
        let part = pattern(range);
        assert!(parts.body.windows(part.len()).any(|window| window == part));
    }
    assert_eq!(
        ask(&gateway, "GET", "Range: bytes=104857600-\r\n").status,
        416
    );
    assert_eq!(ask(&gateway, "GET", "If-None-Match: \"1\"\r\n").status, 304);
    let head = ask(&gateway, "HEAD", "");
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("104857600"))
    );

    let read = bytes_read(&gateway.process) - before;
    println!("five ranges, two at once, 416, 304 and HEAD of 100 MiB: {read} bytes read");
    assert!(read < 2 * MIB, "{read}");
    assert_eq!(origin.heads_waiting(), 1);
}

/// Two hundred requests for something large that is stale are one request, and its body stays where it is.
#[test]
fn a_large_response_is_confirmed_without_being_written_again() {
    const LENGTH: u64 = 2 * MIB;
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if head.contains("If-None-Match: \"1\"") {
                peer.send("HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\nETag: \"1\"\r\nX-New: 1\r\n\r\n");
            } else {
                answer(
                    &mut peer,
                    &head,
                    LENGTH,
                    "Cache-Control: max-age=0\r\nETag: \"1\"\r\n",
                )
                .expect("the gateway reads");
            }
        }
    });
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    fetch(gateway.address, LENGTH);
    wait_for_files(&directory, 1);
    let written = files(&directory);
    let together = Barrier::new(50);
    let address = gateway.address;
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                together.wait();
                let head = fetch(address, LENGTH);
                assert!(head.contains("\r\nX-New: 1\r\n"), "{head}");
            });
        }
    });
    assert_eq!(origin.heads_waiting(), 2);
    assert_eq!(files(&directory), written);
    drop(gateway);
    // The new head is on disk: it is still fresh after a restart.
    let gateway = caching(origin.address, &directory, "true");
    let mut head = String::new();
    wait_until("it is found", || {
        head = fetch(gateway.address, LENGTH);
        head.contains("weir; hit")
    });
    assert!(head.contains("\r\nX-New: 1\r\n"), "{head}");
    assert_eq!(origin.heads_waiting(), 0);
}

#[test]
fn a_large_response_that_is_stale_stands_in_and_is_refreshed_behind_the_client() {
    const LENGTH: u64 = 2 * MIB;
    static FAILS: AtomicBool = AtomicBool::new(false);
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if FAILS.load(Ordering::SeqCst) {
                peer.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
            } else {
                let fields = format!(
                    "Cache-Control: max-age=0, stale-if-error=600, stale-while-revalidate={}\r\nETag: \"1\"\r\n",
                    if head.starts_with("GET /swr") { 600 } else { 0 }
                );
                let sent = answer(&mut peer, &head, LENGTH, &fields);
                sent.expect("the gateway reads");
            }
        }
    });
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    fetch(gateway.address, LENGTH);
    wait_for_files(&directory, 1);
    FAILS.store(true, Ordering::SeqCst);
    fetch(gateway.address, LENGTH);
    assert_eq!(gateway.metric("weir_cache_stale_hits_total"), 1);
    FAILS.store(false, Ordering::SeqCst);

    let get = || {
        let mut connection = Connection::open(gateway.address);
        connection.send("GET /swr HTTP/1.1\r\nHost: test\r\n\r\n");
        read_head(&mut connection.stream);
        read_pattern(&mut connection.stream, 0..LENGTH);
    };
    get();
    wait_for_files(&directory, 2);
    let written = files(&directory);
    get();
    wait_until("it is replaced", || files(&directory) != written);
    assert_eq!(gateway.metric("weir_cache_refreshes_total"), 1);
}
