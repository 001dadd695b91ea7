//! Clients that read slowly: what their upstreams answer is read ahead of them.

use std::io::Read as _;

use super::*;
use crate::harness::pattern::{read_head, read_pattern};

#[test]
fn a_response_that_was_read_gives_its_place_back_whoever_still_reads_it() {
    let service = Service::start();
    let gateway = service.gateway(
        "concurrency = { limit = 2, queue = 0 }\n",
        "response_buffer = \"32MiB\"\n",
    );
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut connection = ask(&gateway, "/long");
        read_head(&mut connection.stream);
        slow.push(connection);
        wait_for_places(&gateway, 0, 0);
    }
    short_requests_are_answered(&gateway);
    assert!(held_bytes(&gateway) > 0);
    drop(slow.pop());
    for connection in &mut slow {
        read_pattern(&mut connection.stream, 0..LONG_BYTES);
        assert_eq!(connection.get("/").status, 200, "the connection goes on");
    }
    wait_until("nothing is held", || held_bytes(&gateway) == 0);
}

#[test]
fn clients_that_read_slowly_are_streams_once_what_may_be_held_is_full() {
    for (limit, route) in [
        (FIXED, ""),
        (PROTECT, ""),
        (FIXED, "[limits]\nheld_bodies = 0\n"),
        (FIXED, "response_buffer = 0\n"),
    ] {
        let service = Service::start();
        let gateway = service.gateway(limit, route);
        let mut slow = Vec::new();
        for number in 1..=12 {
            let mut connection = ask(&gateway, "/long");
            read_head(&mut connection.stream);
            slow.push(connection);
            wait_for_places(&gateway, 0, number);
        }
        short_requests_are_answered(&gateway);
        drop(slow.pop());
        for connection in &mut slow {
            read_pattern(&mut connection.stream, 0..LONG_BYTES);
        }
        wait_for_places(&gateway, 0, 0);
        wait_until("nothing is held", || held_bytes(&gateway) == 0);
    }
}

/// Each with a client that reads nothing until the upstream is done with it, or waits for it.
#[test]
fn what_is_read_ahead_comes_out_as_it_should_in_every_framing() {
    let service = Service::start();
    for (held, buffer) in [("128MiB", "32MiB"), ("0", "32MiB"), ("128MiB", "100KiB")] {
        let gateway = service.gateway(
            "concurrency = { limit = 1, queue = 0 }\n",
            &format!("response_buffer = \"{buffer}\"\ncompress = true\n[limits]\nheld_bodies = \"{held}\"\n"),
        );
        for (path, version) in [
            ("/chunks", "1.1"),
            ("/chunks", "1.0"),
            ("/close", "1.1"),
            ("/close", "1.0"),
        ] {
            let request = format!("GET {path} HTTP/{version}\r\nHost: test\r\n\r\n");
            let mut slow = begin(&gateway, &request);
            service.wait_for(path);
            wait_until("its place is free", || {
                client::get(gateway.address, "/").status == 200
            });
            let body = slow.response().body;
            assert_eq!(body.len() as u64, LONG_BYTES, "{path} {version}");
            read_pattern(&mut body.as_slice(), 0..LONG_BYTES);
        }
        let mut encoded = begin(
            &gateway,
            "GET /chunks HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n",
        );
        service.wait_for("/chunks");
        wait_until("its place is free", || {
            client::get(gateway.address, "/").status == 200
        });
        let response = encoded.response();
        assert_eq!(response.field("content-encoding"), Some("gzip"));
        let mut body = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(response.body.as_slice());
        decoder.read_to_end(&mut body).expect("it is whole");
        read_pattern(&mut body.as_slice(), 0..LONG_BYTES);
    }
}

#[test]
fn a_response_that_breaks_off_while_it_is_read_ahead_ends_in_a_reset() {
    let service = Service::start();
    let gateway = service.gateway(FIXED, "response_buffer = \"32MiB\"\n");
    let mut slow = ask(&gateway, "/broken");
    read_head(&mut slow.stream);
    wait_for_places(&gateway, 0, 0);
    let mut got = Vec::new();
    assert!(slow.stream.read_to_end(&mut got).is_err(), "a reset");
    wait_until("it is told", || {
        gateway.metric("weir_failures_total{fault=\"upstream\",reason=\"response_cut\"}") == 1
    });
}

#[test]
fn slow_clients_are_served_to_their_end_across_a_reload_and_a_drain() {
    let service = Service::start();
    let config = |limit: u32| {
        let limit = format!("concurrency = {{ limit = {limit}, queue = 0 }}\n");
        forward_everything(&[service.origin.address], &limit)
    };
    let mut gateway = Gateway::start(&config(1));
    let mut sends = upload(&gateway, 1000);
    let mut reads = ask(&gateway, "/long");
    read_head(&mut reads.stream);
    wait_for_places(&gateway, 0, 1);
    let mut stream = ask(&gateway, "/events");
    stream.until(b"one\r\n");
    gateway.configure(&config(2));
    gateway.reload();
    short_requests_are_answered(&gateway);
    gateway.process.signal("TERM");
    sends.send("x".repeat(500));
    assert_eq!(sends.response().status, 200);
    read_pattern(&mut reads.stream, 0..LONG_BYTES);
    // A stream of events has no end to wait for.
    stream.until(b"0\r\n\r\n");
    assert!(gateway.process.wait().success());
}
