//! Circuit breakers: when they open, whom they refuse, how many they let through to see, and that they close again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Counting;
use crate::harness::client::{self, Connection};
use crate::harness::{Gateway, forward_everything, wait_until};

/// Opens after four requests of which half failed, for 200 ms.
const BREAKER: &str = "min_requests = 4, open_for = \"200ms\", recovery = \"10ms\"";

fn gateway(origin: &Counting, breaker: &str) -> Gateway {
    let forward = forward_everything(&[origin.origin.address], "");
    Gateway::start(&format!("{forward}breaker = {{ {BREAKER}, {breaker} }}\n"))
}

fn fail(origin: &Counting, status: u16) {
    origin.work.status.store(status, Ordering::SeqCst);
}

fn status_of(gateway: &Gateway, path: &str) -> u16 {
    client::get(gateway.address, path).status
}

#[test]
fn a_route_that_fails_is_left_alone_and_comes_back() {
    let origin = Counting::start();
    let gateway = gateway(&origin, "probes = 1, probe_successes = 2");
    fail(&origin, 500);
    for _ in 0..4 {
        assert_eq!(status_of(&gateway, "/"), 500);
    }
    let refused = client::get(gateway.address, "/");
    assert_eq!(
        (refused.status, refused.field("retry-after")),
        (503, Some("1"))
    );
    assert_eq!(refused.text(), "503 Service Unavailable\n");
    assert_eq!(origin.work.total(), 4);
    let counter = "weir_failures_total{fault=\"gateway\",reason=\"breaker_open\"}";
    gateway.wait_for_metric(counter, 1);

    // A probe that fails opens it again.
    wait_until("a probe is sent", || status_of(&gateway, "/") == 500);
    assert_eq!(status_of(&gateway, "/"), 503);
    assert_eq!(origin.work.total(), 5);

    fail(&origin, 200);
    wait_until("the route is back", || {
        (0..10).all(|_| status_of(&gateway, "/") == 200)
    });
}

#[test]
fn only_what_counts_as_a_failure_opens_it() {
    let origin = Counting::start();
    let gateway = gateway(&origin, "statuses = [429, \"502-504\"]");
    fail(&origin, 500);
    for _ in 0..8 {
        assert_eq!(status_of(&gateway, "/"), 500);
    }
    fail(&origin, 429);
    for _ in 0..8 {
        assert_eq!(status_of(&gateway, "/"), 429);
    }
    assert_eq!(status_of(&gateway, "/"), 503);
}

#[test]
fn what_a_client_can_provoke_opens_it_only_where_it_is_named() {
    let origin = Counting::start();
    for provoked in [400, 404, 413, 414, 417, 429, 431, 499, 501, 505] {
        let usual = gateway(&origin, "");
        fail(&origin, provoked);
        for _ in 0..8 {
            assert_eq!(status_of(&usual, "/"), provoked);
        }
    }
    for (named, status) in [("501", 501), ("\"5xx\"", 505), ("431", 431)] {
        let named = gateway(&origin, &format!("statuses = [{named}]"));
        fail(&origin, status);
        for _ in 0..4 {
            assert_eq!(status_of(&named, "/"), status);
        }
        assert_eq!(status_of(&named, "/"), 503, "{status}");
    }
}

#[test]
fn no_answer_is_a_failure_and_a_client_that_leaves_is_none() {
    let origin = Counting::start();
    let gateway = gateway(&origin, "");
    for _ in 0..8 {
        let mut connection = Connection::open(gateway.address);
        connection.send("GET /hold HTTP/1.1\r\nHost: test\r\n\r\n");
        wait_until("it is there", || origin.work.now() == 1);
        drop(connection);
        gateway_forgets(&gateway);
        origin.work.release(1);
        wait_until("the origin is idle", || origin.work.now() == 0);
    }
    for _ in 0..4 {
        assert_eq!(status_of(&gateway, "/die"), 502);
    }
    assert_eq!(status_of(&gateway, "/"), 503);
}

/// The gateway has noticed that its client has left.
fn gateway_forgets(gateway: &Gateway) {
    wait_until("no request is in flight", || {
        gateway.metric("weir_upstream_in_flight") == 0
    });
}

#[test]
fn no_more_probes_than_allowed_however_many_ask() {
    const PROBES: usize = 2;
    let origin = Counting::start();
    let gateway = gateway(&origin, "probes = 2, probe_successes = 2");
    fail(&origin, 500);
    for _ in 0..4 {
        assert_eq!(status_of(&gateway, "/"), 500);
    }
    fail(&origin, 200);
    origin.work.most.store(0, Ordering::SeqCst);
    let (over, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut connection = Connection::open(gateway.address);
                while !over.load(Ordering::SeqCst) {
                    match connection.get("/hold").status {
                        200 => {}
                        503 => drop(refused.fetch_add(1, Ordering::SeqCst)),
                        status => panic!("{status}"),
                    }
                }
            });
        }
        wait_until("the probes are out", || origin.work.now() == PROBES);
        let before = refused.load(Ordering::SeqCst);
        wait_until("a thousand more have asked", || {
            refused.load(Ordering::SeqCst) >= before + 1_000
        });
        assert_eq!(origin.work.most(), PROBES);
        over.store(true, Ordering::SeqCst);
        origin.work.release(u64::from(u32::MAX));
    });
    wait_until("the route is back", || status_of(&gateway, "/") == 200);
}

#[test]
fn an_endpoint_that_fails_leaves_the_others_their_requests() {
    let (bad, good) = (Counting::start(), Counting::start());
    fail(&bad, 500);
    let servers = [bad.origin.address, good.origin.address];
    let breaker = "breaker = { min_requests = 4, open_for = \"60s\" }";
    let gateway = Gateway::start(&forward_everything(&servers, breaker));
    let statuses: Vec<u16> = (0..40).map(|_| status_of(&gateway, "/")).collect();
    let failed = statuses.iter().filter(|status| **status == 500).count();
    assert_eq!(failed, 4, "{statuses:?}");
    assert_eq!((bad.work.total(), good.work.total()), (4, 36));
    // When all of them fail, there is nobody left to ask.
    fail(&good, 500);
    wait_until("both are open", || status_of(&gateway, "/") == 503);
    let refused = client::get(gateway.address, "/");
    let wait: u64 = refused
        .field("retry-after")
        .expect("a time")
        .parse()
        .expect("a number");
    assert!((1..=120).contains(&wait), "{wait}");
}
