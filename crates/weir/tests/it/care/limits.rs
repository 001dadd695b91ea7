//! A concurrency limit: never more than it at once, over all workers; everybody is answered or refused; and a place
//! comes back whatever becomes of the request that has it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Counting;
use crate::harness::client::{self, Connection};
use crate::harness::pattern::read_head;
use crate::harness::{Gateway, forward_everything, free_port, wait_until};

/// A gateway whose upstream is `origin`, with `concurrency` and further keys of the route.
fn gateway(origin: &Counting, concurrency: &str, route: &str) -> Gateway {
    let concurrency = format!("concurrency = {concurrency}");
    let forward = forward_everything(&[origin.origin.address], &concurrency);
    Gateway::start(&format!("{forward}{route}"))
}

/// Nobody waits.
const NO_QUEUE: &str = "queue = 0";
/// Whoever waits does so for longer than any test.
const PATIENT: &str = "queue_target = \"60s\", queue_interval = \"60s\"";

fn ask(gateway: &Gateway, path: &str) -> Connection {
    ask_with(gateway, path, "")
}

fn ask_with(gateway: &Gateway, path: &str, fields: &str) -> Connection {
    let mut connection = Connection::open(gateway.address);
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"));
    connection
}

fn refused(gateway: &Gateway, reason: &str) -> u64 {
    gateway.metric(&format!(
        "weir_failures_total{{fault=\"gateway\",reason=\"{reason}\"}}"
    ))
}

/// So many wait, as the admin listener says.
fn wait_for_waiters(gateway: &Gateway, count: u64) {
    wait_until(&format!("{count} requests wait"), || {
        let status = client::ask_admin(gateway.admin, "/status").text();
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["upstreams"][0]["concurrency"]["waiting"] == count
    });
}

/// Exactly `limit` requests are let through at once, and no more.
fn assert_places(gateway: &Gateway, origin: &Counting, limit: usize) {
    let mut held: Vec<_> = (0..limit).map(|_| ask(gateway, "/hold")).collect();
    wait_until("all places are taken", || origin.work.now() == limit);
    assert_eq!(client::get(gateway.address, "/").status, 503);
    origin.work.release(limit as u64);
    for connection in &mut held {
        assert_eq!(connection.response().status, 200);
    }
}

#[test]
fn a_limit_holds_for_all_workers_and_everybody_is_told() {
    const LIMIT: usize = 4;
    const CLIENTS: usize = 48;
    const REQUESTS: usize = 40;
    let origin = Counting::start();
    let limit = format!(
        "{{ limit = {LIMIT}, queue = 64, queue_target = \"2ms\", queue_interval = \"10ms\" }}"
    );
    let gateway = gateway(&origin, &limit, "");
    let (good, shed) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = Connection::open(gateway.address);
                for _ in 0..REQUESTS {
                    let response = connection.get("/");
                    match (response.status, response.field("retry-after")) {
                        (200, None) => good.fetch_add(1, Ordering::Relaxed),
                        (503, Some("1")) => shed.fetch_add(1, Ordering::Relaxed),
                        _ => panic!("{}", response.head),
                    };
                }
            });
        }
    });
    let (good, shed) = (good.into_inner(), shed.into_inner());
    assert_eq!(origin.work.most(), LIMIT);
    assert_eq!(good, origin.work.total());
    assert_eq!(good + shed, (CLIENTS * REQUESTS) as u64);
    assert!(shed > 0, "48 clients wait for 2 places in the queue");
    let reasons = ["queue_full", "waited_too_long", "displaced"];
    wait_until("all refusals are counted", || {
        let counts = reasons.map(|reason| refused(&gateway, reason));
        counts.iter().sum::<u64>() == shed
    });
}

/// A gateway whose upstream is both origins, with `concurrency`, and nobody waits.
fn gateway_of_two(origins: [&Counting; 2], concurrency: &str) -> Gateway {
    let addresses = origins.map(|counting| counting.origin.address);
    let concurrency = format!("concurrency = {{ {concurrency}, {NO_QUEUE} }}");
    Gateway::start(&forward_everything(&addresses, &concurrency))
}

#[test]
fn an_endpoint_gets_no_more_than_its_own_limit() {
    let (first, second) = (Counting::start(), Counting::start());
    let gateway = gateway_of_two([&first, &second], "per_endpoint = 2");
    let mut held: Vec<_> = (0..4).map(|_| ask(&gateway, "/hold")).collect();
    wait_until("all places are taken", || {
        (first.work.now(), second.work.now()) == (2, 2)
    });
    assert_eq!(client::get(gateway.address, "/").status, 503);

    // What the second has free is for nobody that has to go to the first.
    second.work.release(2);
    wait_until("the second has places", || second.work.now() == 0);
    for _ in 0..20 {
        assert_eq!(client::get(gateway.address, "/").status, 200);
    }
    assert_eq!((first.work.total(), second.work.total()), (2, 22));
    first.work.release(2);
    for connection in &mut held {
        assert_eq!(connection.response().status, 200);
    }
}

/// The connection dies under a GET, which is repeated once, at the only endpoint, where its own place is.
#[test]
fn the_places_of_an_endpoint_that_is_down_let_nobody_in() {
    let first = Counting::start();
    let dead = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let concurrency = format!("concurrency = {{ per_endpoint = 2, {PATIENT} }}");
    let servers = [first.origin.address, dead];
    let gateway = Gateway::start(&forward_everything(&servers, &concurrency));
    for _ in 0..4 {
        assert_eq!(client::get(gateway.address, "/").status, 200);
    }
    wait_until("only one is asked", || gate_of(&gateway)["limit"] == 2);
    let mut held = [ask(&gateway, "/hold"), ask(&gateway, "/hold")];
    wait_until("its places are taken", || first.work.now() == 2);
    // There is a queue for those who come now.
    let mut waits = ask(&gateway, "/");
    wait_for_waiters(&gateway, 1);
    first.work.release(2);
    for connection in held.iter_mut().chain([&mut waits]) {
        assert_eq!(connection.response().status, 200);
    }
}

#[test]
fn a_request_that_is_repeated_is_not_counted_twice() {
    let origin = Counting::start();
    let limit = format!("{{ per_endpoint = 1, {NO_QUEUE} }}");
    let gateway = gateway(&origin, &limit, "");
    for _ in 0..4 {
        assert_eq!(client::get(gateway.address, "/die").status, 502);
    }
    assert_eq!(origin.work.total(), 8);
}

#[test]
fn an_endpoint_that_hangs_leaves_places_to_the_others() {
    let (hangs, works) = (Counting::start(), Counting::start());
    let gateway = gateway_of_two([&hangs, &works], "limit = 8");
    let mut held = Vec::new();
    for asked in 1..=40 {
        held.push(ask(&gateway, "/hold"));
        wait_until("it is there", || {
            hangs.work.total() + works.work.total() == asked
        });
        works.work.release(works.work.now() as u64);
        wait_until("the other one is idle", || works.work.now() == 0);
    }
    assert_eq!(
        hangs.work.now(),
        6,
        "half as many again as its share of eight"
    );
    hangs.work.release(6);
    for connection in &mut held {
        assert_eq!(connection.response().status, 200);
    }
}

#[test]
fn a_place_comes_back_whatever_becomes_of_the_request() {
    let origin = Counting::start();
    // A response that takes a second would be set apart.
    let limit = format!("{{ limit = 2, {NO_QUEUE}, streams = 0 }}");
    let gateway = gateway(&origin, &limit, "upgrade = [\"websocket\"]\n");
    let is_full = || client::get(gateway.address, "/").status == 503;

    // Answered.
    assert_places(&gateway, &origin, 2);

    // The client leaves while the origin works, which does not notice.
    let left = [ask(&gateway, "/hold"), ask(&gateway, "/hold")];
    wait_until("both are there", || origin.work.now() == 2);
    drop(left);
    wait_until("both have left", || {
        gateway.metric("weir_failures_total{fault=\"client\",reason=\"client_gone\"}") == 2
    });
    assert!(is_full());
    origin.work.release(2);
    wait_until("their places are free", || !is_full());
    assert_places(&gateway, &origin, 2);

    // The origin dies. A GET is repeated once, on its own place.
    for _ in 0..4 {
        assert_eq!(client::get(gateway.address, "/die").status, 502);
    }
    assert_places(&gateway, &origin, 2);

    // The response has begun: it holds its place until it has ended.
    let mut streams = [ask(&gateway, "/stream"), ask(&gateway, "/stream")];
    for stream in &mut streams {
        stream.until(b"\r\n\r\nha");
    }
    assert!(is_full());
    origin.work.release(2);
    for stream in &mut streams {
        stream.until(b"lf");
    }
    assert_places(&gateway, &origin, 2);

    // A tunnel may last for days, and holds none.
    let fields = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let tunnels = [(); 3].map(|()| {
        let mut tunnel = ask_with(&gateway, "/upgrade", fields);
        let head = String::from_utf8(tunnel.until(b"\r\n\r\n")).expect("ASCII");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        tunnel
    });
    assert!(!is_full());
    origin.work.release(3);
    wait_until("the origin is idle", || origin.work.now() == 0);
    drop(tunnels);
    assert_places(&gateway, &origin, 2);
}

/// For how long an answer is read that its client breaks off is the client's doing.
/// What the admin listener says of the limit.
fn gate_of(gateway: &Gateway) -> serde_json::Value {
    let status = client::ask_admin(gateway.admin, "/status").text();
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    status["upstreams"][0]["concurrency"].clone()
}

#[test]
fn an_adaptive_limit_learns_only_from_whole_answers() {
    /// More than it learns from at once.
    const ANSWERS: u64 = 100;
    let origin = Counting::start();
    let gateway = gateway(&origin, "\"adaptive\"", "");
    let gate = || gate_of(&gateway);
    let leave = |_| {
        let mut leaves = ask(&gateway, "/stream");
        read_head(&mut leaves.stream);
        leaves
    };
    drop((0..ANSWERS).map(leave).collect::<Vec<_>>());
    wait_until("their places are free", || gate()["in_flight"] == 0);
    assert!(gate()["base_latency_us"].is_null());
    // The origin has yet to notice.
    origin.work.release(ANSWERS);
    wait_until("all are over", || origin.work.now() == 0);
    for _ in 0..ANSWERS {
        origin.work.release(1);
        assert_eq!(ask(&gateway, "/stream").response().status, 200);
    }
    assert!(gate()["base_latency_us"].is_u64());
}

/// Where all clients leave before they are answered, nothing else would say that requests queue.
#[test]
fn who_has_left_still_says_how_long_the_service_takes() {
    let origin = Counting::start();
    let gateway = gateway(&origin, "\"adaptive\"", "");
    let base = || gate_of(&gateway)["base_latency_us"].as_u64();
    for _ in 0..100 {
        let leaves = ask(&gateway, "/hold");
        wait_until("it is at work", || origin.work.now() == 1);
        drop(leaves);
        origin.work.release(1);
        wait_until("its place is free", || gate_of(&gateway)["in_flight"] == 0);
    }
    assert!(base().is_some());
}

/// An attempt that was given up has its place for as long as the service is at work on it.
#[test]
fn the_service_never_works_on_more_than_its_limit() {
    const LIMIT: usize = 3;
    let origin = Counting::start();
    let gateway = gateway(
        &origin,
        &format!("{{ limit = {LIMIT}, {PATIENT} }}"),
        "retry = { attempts = 3, per_try = \"50ms\" }",
    );
    let mut given_up = ask(&gateway, "/hold");
    wait_until("all three attempts are under way", || {
        origin.work.now() == LIMIT
    });
    // Who leaves while the rest of a response is worked on leaves its place there for a while, too.
    let mut waits = ask(&gateway, "/");
    wait_for_waiters(&gateway, 1);
    origin.work.release(1);
    assert_eq!(waits.response().status, 200);
    origin.work.release(2);
    assert_eq!(given_up.response().status, 200);
    wait_until("all is over", || gate_of(&gateway)["in_flight"] == 0);
    let mut leaves = ask(&gateway, "/stream");
    read_head(&mut leaves.stream);
    drop(leaves);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(gate_of(&gateway)["in_flight"], 1);
    wait_until("it would be a stream", || {
        gate_of(&gateway)["in_flight"] == 0
    });
}

#[test]
fn a_waiter_that_leaves_makes_room_and_takes_no_place_along() {
    let origin = Counting::start();
    let gateway = gateway(&origin, &format!("{{ limit = 3, {PATIENT} }}"), "");
    let mut held: Vec<_> = (0..3).map(|_| ask(&gateway, "/hold")).collect();
    wait_until("all places are taken", || origin.work.now() == 3);
    let (leaves, mut stays) = (ask(&gateway, "/"), ask(&gateway, "/"));
    wait_for_waiters(&gateway, 2);
    // There is no room for a third.
    let third = client::get(gateway.address, "/");
    assert_eq!((third.status, third.field("retry-after")), (503, Some("1")));
    drop(leaves);
    wait_for_waiters(&gateway, 1);
    let mut third = ask(&gateway, "/");
    wait_for_waiters(&gateway, 2);
    origin.work.release(3);
    for connection in held.iter_mut().chain([&mut stays, &mut third]) {
        assert_eq!(connection.response().status, 200);
    }
    assert_eq!(origin.work.most(), 3);
    assert_eq!(refused(&gateway, "queue_full"), 1);
}

#[test]
fn who_matters_more_goes_first_and_the_least_is_refused() {
    let origin = Counting::start();
    let gateway = gateway(
        &origin,
        &format!("{{ limit = 1, {PATIENT} }}"),
        "priority = { header = \"x-priority\", default = \"normal\" }\n",
    );
    let mut held = ask(&gateway, "/hold");
    wait_until("the place is taken", || origin.work.now() == 1);
    let mut low = ask_with(&gateway, "/", "X-Priority: low\r\n");
    wait_for_waiters(&gateway, 1);
    // One may wait, and each who comes matters more than the one before.
    let mut normal = ask_with(&gateway, "/", "X-Priority: nonsense\r\n");
    assert_eq!(low.response().status, 503);
    let mut critical = ask_with(&gateway, "/", "X-Priority: Critical\r\n");
    assert_eq!(normal.response().status, 503);
    let mut high = ask_with(&gateway, "/", "X-Priority: high\r\n");
    assert_eq!(high.response().status, 503);
    origin.work.release(1);
    assert_eq!(held.response().status, 200);
    assert_eq!(critical.response().status, 200);
    assert_eq!(refused(&gateway, "displaced"), 2);
    assert_eq!(refused(&gateway, "queue_full"), 1);
}

#[test]
fn while_the_important_are_too_many_nobody_else_is_let_in() {
    let origin = Counting::start();
    let gateway = gateway(
        &origin,
        "{ limit = 4, queue_target = \"10ms\", queue_interval = \"40ms\" }",
        "priority = { header = \"x-priority\", default = \"low\" }\n",
    );
    let mut held: Vec<_> = (0..4).map(|_| ask(&gateway, "/hold")).collect();
    wait_until("the places are taken", || origin.work.now() == 4);
    // There are always some who wait, until the queue knows that these alone are too many.
    wait_until("a low one is outranked", || {
        let mut waiting = [(); 3].map(|()| ask_with(&gateway, "/", "X-Priority: high\r\n"));
        assert_eq!(client::get(gateway.address, "/").status, 503);
        assert!(waiting.iter_mut().all(|it| it.response().status == 503));
        refused(&gateway, "outranked") > 0
    });
    origin.work.release(4);
    assert!(held.iter_mut().all(|it| it.response().status == 200));
    wait_until("it is let in again", || {
        client::get(gateway.address, "/").status == 200
    });
}

#[test]
fn who_waits_is_answered_across_a_reload_and_a_drain() {
    let origin = Counting::start();
    let config = |limit: u32| {
        let concurrency = format!("concurrency = {{ limit = {limit}, {PATIENT} }}");
        forward_everything(&[origin.origin.address], &concurrency)
    };
    let mut gateway = Gateway::start(&config(1));
    let mut held = ask(&gateway, "/hold");
    wait_until("the place is taken", || origin.work.now() == 1);
    let mut waits = ask(&gateway, "/hold");
    wait_for_waiters(&gateway, 1);
    // There are more places now: one for who waits, and one besides.
    gateway.configure(&config(3));
    gateway.reload();
    wait_until("who waits is let in", || origin.work.now() == 2);
    assert_eq!(client::get(gateway.address, "/").status, 200);
    let mut third = ask(&gateway, "/hold");
    wait_until("all places are taken", || origin.work.now() == 3);
    let mut last = ask(&gateway, "/");
    wait_for_waiters(&gateway, 1);
    gateway.process.signal("TERM");
    origin.work.release(4);
    for connection in [&mut held, &mut waits, &mut third, &mut last] {
        assert_eq!(connection.response().status, 200);
    }
    assert!(gateway.process.wait().success());
}
