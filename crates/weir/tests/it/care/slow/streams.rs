//! What has no end, or is not over soon, is counted apart.

use std::io::Read as _;

use super::*;
use crate::harness::pattern::read_head;

#[test]
fn event_streams_are_counted_apart() {
    for limit in [FIXED, PROTECT] {
        let service = Service::start();
        let gateway = service.gateway(limit, "");
        let mut streams = Vec::new();
        for _ in 0..20 {
            let mut stream = ask(&gateway, "/events");
            stream.until(b"one\r\n");
            streams.push(stream);
        }
        wait_for_places(&gateway, 0, 20);
        short_requests_are_answered(&gateway);
        drop(streams.pop());
        wait_for_places(&gateway, 0, 19);
        service.open();
        for stream in &mut streams {
            stream.until(b"two\r\n0\r\n\r\n");
        }
        wait_for_places(&gateway, 0, 0);
    }
}

#[test]
fn what_goes_on_for_long_is_a_stream_whatever_it_calls_itself() {
    let service = Service::start();
    let gateway = service.gateway("concurrency = { limit = 1, queue = 0 }\n", "");
    let mut stream = ask(&gateway, "/stream");
    stream.until(b"one\r\n");
    wait_for_places(&gateway, 0, 1);
    short_requests_are_answered(&gateway);
    service.open();
    stream.until(b"two\r\n0\r\n\r\n");
    wait_for_places(&gateway, 0, 0);
}

/// On its way into the cache as anywhere else, or past it.
#[test]
fn what_is_stored_is_a_stream_too() {
    for (path, stored) in [("/events", 0), ("/stream", 1)] {
        let service = Service::start();
        let gateway = service.gateway(
            "concurrency = { limit = 1, queue = 0 }\n",
            "cache = { force_ttl = \"60s\" }\n",
        );
        let mut stream = ask(&gateway, path);
        stream.until(b"one\r\n");
        wait_for_places(&gateway, 0, 1);
        service.open();
        stream.until(b"two\r\n0\r\n\r\n");
        wait_for_places(&gateway, 0, 0);
        assert_eq!(gateway.metric("weir_cache_objects"), stored, "{path}");
    }
}

#[test]
fn streams_crowd_out_streams_and_nobody_else() {
    let service = Service::start();
    let gateway = service.gateway("concurrency = { limit = 8, queue = 0, streams = 2 }\n", "");
    let mut streams = [ask(&gateway, "/events"), ask(&gateway, "/events")];
    for stream in &mut streams {
        stream.until(b"one\r\n");
    }
    let third = client::get(gateway.address, "/events");
    assert_eq!((third.status, third.field("retry-after")), (503, Some("1")));
    wait_until("it is counted", || failures(&gateway, "streams_full") == 1);
    // One that has begun can only be broken off, in a way that its client notices.
    let mut slow = ask(&gateway, "/long");
    read_head(&mut slow.stream);
    wait_until("it is refused", || failures(&gateway, "streams_full") == 2);
    let mut rest = Vec::new();
    assert!(slow.stream.read_to_end(&mut rest).is_err(), "a reset");
    // So is an upload that is larger than what is collected.
    let mut long_upload = upload(&gateway, 1 << 20);
    long_upload.send("x".repeat(1 << 10));
    wait_until("it is refused", || failures(&gateway, "streams_full") == 3);
    assert_eq!(long_upload.response().status, 503);
    short_requests_are_answered(&gateway);
    service.open();
    for stream in &mut streams {
        stream.until(b"two\r\n0\r\n\r\n");
    }
    wait_for_places(&gateway, 0, 0);
}

#[test]
fn where_no_streams_are_set_apart_each_keeps_its_place() {
    let service = Service::start();
    let gateway = service.gateway("concurrency = { limit = 1, queue = 0, streams = 0 }\n", "");
    let mut stream = ask(&gateway, "/events");
    stream.until(b"one\r\n");
    assert_eq!(client::get(gateway.address, "/").status, 503);
    service.open();
    stream.until(b"two\r\n0\r\n\r\n");
    short_requests_are_answered(&gateway);
}
