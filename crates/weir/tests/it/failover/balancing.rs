//! Which endpoint is asked: the home of a client while it lives, and those that answer before those that do not.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use super::{Load, ok, one_worker};
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{App, Gateway, forward_everything, free_port, wait_until};

#[test]
fn hashing_keeps_the_requests_of_one_client_together() {
    let apps = [App::start("a"), App::start("b"), App::start("c")];
    let servers = [&apps[0], &apps[1], &apps[2]].map(|app| app.address);
    let gateway = Gateway::start(&forward_everything(
        &servers,
        "balance = \"hash\"\nhash_on = \"header:x-user\"",
    ));
    let served_by = |user: usize| {
        // A connection of its own each time, so on either worker.
        let request = format!("GET / HTTP/1.1\r\nHost: test\r\nX-User: user-{user}\r\n\r\n");
        let response = client::send(gateway.address, &request);
        response.field("x-served-by").expect("a name").to_owned()
    };
    let homes: Vec<_> = (0..30).map(served_by).collect();
    for _ in 0..3 {
        let again: Vec<_> = (0..30).map(served_by).collect();
        assert_eq!(again, homes);
    }
    let used: BTreeSet<_> = homes.iter().collect();
    assert_eq!(used.len(), 3, "{homes:?}");

    // Without its home, a client goes elsewhere; the others stay where they are.
    let mut apps = apps;
    apps[0].process.kill();
    for (user, home) in homes.iter().enumerate() {
        let now = served_by(user);
        assert!(now == *home || home == "a" && now != "a", "{home} {now}");
    }
}

/// An endpoint that holds requests back, and what lets it answer.
fn held() -> (Origin, Sender<()>) {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let _ = released.lock().expect("no handler panics").recv();
            peer.send(ok("held"));
        }
    });
    (origin, release)
}

/// While one endpoint has a request that it does not answer, the other one gets the rest.
#[test]
fn balancers_that_count_prefer_the_endpoint_that_answers() {
    for balance in ["least-conn", "p2c"] {
        let (slow, release) = held();
        let quick = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nquick");
        let gateway = one_worker(
            &[slow.address, quick.address],
            &format!("balance = \"{balance}\""),
            "",
        );
        // Ask until a request is held.
        let mut asked = Vec::new();
        wait_until("the slow endpoint is asked", || {
            let mut connection = Connection::open(gateway.address);
            connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
            asked.push(connection);
            let mut is_held = false;
            wait_until("somebody is asked", || {
                is_held = slow.heads_waiting() > 0;
                is_held || quick.heads_waiting() > 0
            });
            is_held
        });
        // A machine that stands still makes the quick one slow, once or twice.
        let mut misled = 0;
        for _ in 0..20 {
            let mut connection = Connection::open(gateway.address);
            connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
            let mut is_held = false;
            wait_until("somebody is asked", || {
                is_held = slow.heads_waiting() > 0;
                is_held || quick.heads_waiting() > 0
            });
            if is_held {
                misled += 1;
                asked.push(connection);
            } else {
                assert_eq!(connection.response().text(), "quick", "{balance}");
            }
        }
        assert!(misled <= 2, "{balance}: {misled} of 20");
        drop(release);
        let mut held = asked.pop().expect("the last one asked is held");
        assert_eq!(held.response().text(), "held");
    }
}

/// An endpoint that never answers is alive as far as connecting goes: with the app's own delay, requests spread by load.
#[test]
fn a_slow_replica_gets_fewer_requests_under_least_conn() {
    let slow = App::start_with("slow", free_port(), &["--delay", "300ms"]);
    let quick = App::start("quick");
    let gateway = one_worker(
        &[slow.address, quick.address],
        "balance = \"least-conn\"",
        "",
    );
    let load = Load::start(gateway.address, 4);
    load.wait_for(200);
    let failed = load.end();
    assert!(failed.is_empty(), "{failed:?}");
    let served = |address| {
        gateway.metric(&format!(
            "weir_upstream_responses_total{{upstream=\"app\",endpoint=\"{address}\",class=\"2xx\"}}"
        ))
    };
    assert!(
        served(quick.address) > 10 * served(slow.address),
        "{} and {}",
        served(quick.address),
        served(slow.address)
    );
}
