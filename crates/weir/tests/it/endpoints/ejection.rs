//! Replicas that fail, are slow, hang or die: they are left, and found again when they are well.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::{addresses, answers, came_to, replicas, set};
use crate::failover::Load;
use crate::harness::client::{Connection, Response};
use crate::harness::origin::Origin;
use crate::harness::{App, Gateway, PATIENCE, forward_everything, wait_until};

/// Whoever is out stays out for as long as a test takes.
const FOR_GOOD: &str = "ejection = { eject_for = \"1h\", eject_for_max = \"1h\" }";
/// Whoever is out is tried again soon.
const FOR_NOW: &str =
    "ejection = { eject_for = \"100ms\", eject_for_max = \"200ms\", slow_start = \"100ms\" }";

/// With one worker, requests that come one after the other take turns.
fn gateway(apps: &[App], upstream_keys: &str) -> Gateway {
    let forward = forward_everything(&addresses(apps), upstream_keys);
    Gateway::start(&format!("[server]\nworkers = 1\n{forward}"))
}

#[test]
fn a_replica_that_answers_500_is_left_after_a_few_of_them() {
    let apps = replicas();
    let gateway = gateway(&apps, FOR_GOOD);
    let mut connection = Connection::open(gateway.address);
    assert!(
        answers(&mut connection, 30)
            .iter()
            .all(|(status, _)| *status == 200)
    );
    set(&apps[1], "fail");
    let found = answers(&mut connection, 300);
    let bad: Vec<_> = found.iter().filter(|(status, _)| *status != 200).collect();
    // Five in a row, and until its siblings have answered often enough meanwhile for it to be no chance.
    assert_eq!(bad, vec![&(500, "b".to_owned()); 7]);
    let last_bad = found.iter().rposition(|(status, _)| *status != 200);
    assert!(last_bad < Some(24), "{last_bad:?}");
    assert_eq!(came_to(&apps[1]), 10 + 7);
}

/// That the head of a response is here is half of it.
#[test]
fn a_replica_whose_responses_break_off_is_left() {
    let well = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let sick = Origin::start(|mut peer, _| {
        if peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nok");
        }
    });
    for cache in ["", "cache = true\n"] {
        let forward = forward_everything(&[well.address, sick.address], FOR_GOOD);
        let gateway = Gateway::start(&format!("[server]\nworkers = 1\n{forward}{cache}"));
        let is_whole = |number: usize| {
            let mut stream = TcpStream::connect(gateway.address).expect("it accepts");
            let request =
                format!("GET /{number} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("it reads");
            let mut response = Vec::new();
            // Broken off is one of two ends.
            let _ = stream.read_to_end(&mut response);
            !response.windows(6).any(|bytes| bytes == b": 1000")
        };
        let (mut number, mut in_a_row) = (0, 0);
        wait_until("forty in a row are whole", || {
            number += 1;
            in_a_row = if is_whole(number) { in_a_row + 1 } else { 0 };
            in_a_row == 40
        });
    }
}

#[test]
fn what_a_client_can_provoke_ejects_nobody() {
    let well = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    for provoked in [
        "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n",
    ] {
        let asked = Origin::answering(provoked);
        let servers = [well.address, asked.address];
        let forward = forward_everything(&servers, FOR_GOOD);
        let gateway = Gateway::start(&format!("[server]\nworkers = 1\n{forward}"));
        let mut connection = Connection::open(gateway.address);
        let bad = (0..200).filter(|_| connection.get("/").status != 200);
        assert_eq!(bad.count(), 100, "{provoked}");
    }
}

#[test]
fn a_replica_that_is_well_again_takes_its_share_again() {
    let apps = replicas();
    let gateway = gateway(&apps, FOR_NOW);
    let mut connection = Connection::open(gateway.address);
    set(&apps[1], "fail");
    let fifty = answers(&mut connection, 50);
    assert!(fifty.contains(&(500, "b".to_owned())));
    set(&apps[1], "none");
    wait_until("it has its share again", || {
        let thirty = answers(&mut connection, 30);
        assert!(thirty.iter().all(|(status, _)| *status == 200));
        thirty.iter().filter(|(_, replica)| replica == "b").count() == 10
    });
}

#[test]
fn a_replica_that_is_slow_is_left() {
    let apps = replicas();
    let gateway = Gateway::start(&forward_everything(&addresses(&apps), FOR_GOOD));
    let load = Load::start(gateway.address, 32);
    load.wait_for(300);
    set(&apps[1], "slow");
    wait_until("nothing comes to it any more", || {
        let before = came_to(&apps[1]);
        load.wait_for(300);
        came_to(&apps[1]) == before
    });
    assert_eq!(load.end(), Vec::<String>::new());
}

/// Requests that it keeps waiting are evidence enough: none of them has to fail for it.
#[test]
fn a_replica_that_hangs_is_left_and_its_requests_are_not_lost() {
    let apps = replicas();
    let gateway = gateway(&apps, FOR_GOOD);
    set(&apps[1], "hang");
    let (mut hung, mut in_a_row) = (Vec::new(), 0);
    wait_until("thirty requests in a row are answered", || {
        let mut connection = Connection::open(gateway.address);
        connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        if is_answered_soon(&connection) {
            assert_eq!(connection.response().status, 200);
            in_a_row += 1;
        } else {
            hung.push(connection);
            in_a_row = 0;
        }
        in_a_row == 30
    });
    let came_to_it = came_to(&apps[1]);
    assert!(came_to_it > 0, "it was asked");
    set(&apps[1], "none");
    // On a machine that stands still, the others may have been late as well.
    let all_say = hung.iter_mut().map(Connection::response);
    let says_b = |response: &Response| response.field("x-served-by") == Some("b");
    assert_eq!(all_say.filter(says_b).count() as u64, came_to_it);
}

/// Whether a byte comes within half a second, which is long for a page and not for a replica that hangs.
fn is_answered_soon(connection: &Connection) -> bool {
    let stream = &connection.stream;
    let set = |patience| {
        let set = stream.set_read_timeout(Some(patience));
        set.expect("a timeout can be set");
    };
    set(Duration::from_millis(500));
    let has_come = stream.peek(&mut [0]).is_ok();
    set(PATIENCE);
    has_come
}

#[test]
fn a_replica_that_is_killed_fails_no_request_and_comes_back() {
    let mut apps = replicas();
    let gateway = Gateway::start(&forward_everything(&addresses(&apps), FOR_NOW));
    let load = Load::start(gateway.address, 8);
    load.wait_for(300);
    apps[1].process.kill();
    load.wait_for(1000);
    let port = apps[1].address.port();
    apps[1] = App::start_with("b", port, &["--faults"]);
    wait_until("it is used again", || came_to(&apps[1]) > 100);
    assert_eq!(load.end(), Vec::<String>::new());
}

/// When two of three fail, it is not them that stand out: all are used, and nobody is told that there is no endpoint.
#[test]
fn no_more_than_the_cap_are_left() {
    let apps = replicas();
    let gateway = gateway(&apps, FOR_NOW);
    let mut connection = Connection::open(gateway.address);
    set(&apps[1], "fail");
    set(&apps[2], "fail");
    let all_of = |found: &[(u16, String)]| {
        let of = |status, name: &str| {
            found
                .iter()
                .filter(|it| **it == (status, name.to_owned()))
                .count()
        };
        [of(200, "a"), of(500, "b"), of(500, "c")]
    };
    wait_until("all three have their share", || {
        let thirty = answers(&mut connection, 30);
        assert_eq!(all_of(&thirty).iter().sum::<usize>(), 30, "{thirty:?}");
        all_of(&thirty) == [10, 10, 10]
    });
    set(&apps[2], "none");
    wait_until("the one that still fails is left", || {
        let thirty = answers(&mut connection, 30);
        thirty.iter().all(|(status, _)| *status == 200)
    });
}

#[test]
fn the_breaker_of_an_endpoint_keeps_requests_from_it_alone() {
    let apps = replicas();
    let breaker = "breaker = { consecutive = 3, open_for = \"50s\", open_for_max = \"60s\" }";
    let gateway = gateway(&apps, breaker);
    let mut connection = Connection::open(gateway.address);
    set(&apps[1], "fail");
    let found = answers(&mut connection, 300);
    let bad: Vec<_> = found.iter().filter(|(status, _)| *status != 200).collect();
    assert_eq!(bad, vec![&(500, "b".to_owned()); 3]);

    set(&apps[0], "fail");
    set(&apps[2], "fail");
    let found = answers(&mut connection, 20);
    assert_eq!(found.iter().filter(|(status, _)| *status == 500).count(), 6);
    let refused = connection.get("/");
    assert_eq!(refused.status, 503);
    let wait_s: Option<u64> = refused.field("retry-after").and_then(|s| s.parse().ok());
    assert!(
        wait_s.is_some_and(|wait| (1..=60).contains(&wait)),
        "{}",
        refused.head
    );
    assert_eq!(came_to(&apps[1]), 3);
}
