//! What a route with `retry` sends again, and what not.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::{answer, nothing_is_left, ok, one_worker, saying};
use crate::harness::client::{Connection, Response};
use crate::harness::origin::Origin;
use crate::harness::wait_until;

/// Retries that do not wait.
const RETRY: &str = "retry = { attempts = 3, backoff = \"0s\" }\n";

fn request(method: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} / HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn asked(connection: &mut Connection, method: &str, body: &str) -> Response {
    connection.send(request(method, body));
    connection.response_to(method).expect("an answer")
}

#[test]
fn what_one_server_answers_badly_another_one_is_asked() {
    let (bad, good) = (saying(503, "bad"), saying(200, "good"));
    let gateway = one_worker(&[bad.address, good.address], "", RETRY);
    let mut connection = Connection::open(gateway.address);
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
        for _ in 0..4 {
            let response = asked(&mut connection, method, "");
            assert_eq!(response.status, 200, "{method}");
        }
    }
    let retries = bad.heads_waiting() as u64;
    assert!(retries > 0, "one of the two is asked first");
    assert_eq!(good.heads_waiting(), 20, "each is answered well once");
    assert_eq!(gateway.metric("weir_upstream_retries_total"), retries);
    let endpoint = format!("upstream=\"app\",endpoint=\"{}\"", bad.address);
    let counted = format!("weir_upstream_retries_total{{{endpoint},reason=\"status\"}}");
    assert_eq!(gateway.metric(&counted), retries);
}

/// Also where the balancer would send it to the same one, again and again.
#[test]
fn a_server_that_has_answered_badly_comes_last() {
    let (bad, good) = (saying(503, "bad"), saying(200, "good"));
    let by_path = "balance = \"hash\"\nhash_on = \"path\"\n";
    let gateway = one_worker(&[bad.address, good.address], by_path, RETRY);
    let mut connection = Connection::open(gateway.address);
    for number in 0..20 {
        assert_eq!(connection.get(&format!("/{number}")).text(), "good");
    }
    assert!(bad.heads_waiting() > 0, "it is the place of some paths");
    assert_eq!(good.heads_waiting(), 20);
}

/// The breaker of a server hears of each attempt, that of the route of the end.
#[test]
fn a_breaker_hears_of_what_is_its_own() {
    let (bad, good) = (saying(503, "bad"), saying(200, "good"));
    let of_servers = "breaker = { consecutive = 3, open_for = \"60s\" }\n";
    let of_route = format!("{RETRY}breaker = {{ consecutive = 1, open_for = \"60s\" }}\n");
    let gateway = one_worker(&[bad.address, good.address], of_servers, &of_route);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..20 {
        assert_eq!(connection.get("/").text(), "good");
    }
    assert_eq!(bad.heads_waiting(), 3, "then it is not asked any more");
}

/// Neither after a bad answer, nor after none, nor after a late one.
#[test]
fn a_post_is_never_sent_again() {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            peer.body(4);
            if head.contains(" /bad ") {
                peer.send(answer(503, "bad"));
            } else if head.contains(" /late ") {
                let _ = may_go_on.lock().expect("no handler panics").recv();
                peer.send(ok("late"));
            } else {
                return;
            }
        }
    });
    let rule = "retry = { attempts = 3, backoff = \"0s\", per_try = \"20ms\" }\n";
    let gateway = one_worker(&[origin.address], "", rule);
    for method in ["POST", "PATCH", "LOCK"] {
        let send = |path: &str| {
            let mut connection = Connection::open(gateway.address);
            connection.send(request(method, "body").replace(" / ", path));
            connection
        };
        let response = send(" /bad ").response();
        assert_eq!(
            (response.status, response.text().as_str()),
            (503, "bad"),
            "{method}"
        );
        assert_eq!(send(" /gone ").response().status, 502, "{method}");
        let mut late = send(" /late ");
        // Until long after the time of an attempt.
        std::thread::sleep(Duration::from_millis(100));
        go_on.send(()).expect("the origin waits");
        assert_eq!(late.response().text(), "late", "{method}");
        assert_eq!(
            origin.heads_waiting(),
            3,
            "{method} is sent once to each path"
        );
    }
    assert_eq!(gateway.metric("weir_upstream_retries_total"), 0);
}

#[test]
fn a_body_that_was_passed_on_is_not_sent_again() {
    let origin = Origin::start(|mut peer, _| {
        peer.head();
        let body = String::from_utf8(peer.body(4)).expect("text");
        peer.send(answer(503, &body));
    });
    let gateway = one_worker(&[origin.address], "", RETRY);
    for method in ["GET", "PUT"] {
        let mut connection = Connection::open(gateway.address);
        connection.send(request(method, "12345678").trim_end_matches("12345678"));
        assert!(origin.next_head().starts_with(method));
        connection.send("1234");
        let response = connection.response();
        assert_eq!(
            (response.status, response.text().as_str()),
            (503, "1234"),
            "{method}"
        );
        assert_eq!(origin.heads_waiting(), 0, "{method}");
    }
    assert_eq!(gateway.metric("weir_upstream_retries_total"), 0);
}

/// What acts twice like once goes on after a fresh connection died, as often as the rule says.
#[test]
fn a_connection_that_ends_without_an_answer_is_an_attempt() {
    let origin = Origin::start(|mut peer, number| {
        peer.head();
        match number % 3 {
            0 => {}
            1 => peer.send("HTTP/1.1 200 OK\r\nContent-"),
            _ => peer.send(ok(&number.to_string())),
        }
    });
    let gateway = one_worker(&[origin.address], "idle_connections = 0\n", RETRY);
    for (method, number) in [("GET", "2"), ("PUT", "5"), ("DELETE", "8")] {
        let response = asked(&mut Connection::open(gateway.address), method, "");
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, number),
            "{method}"
        );
        assert_eq!(origin.heads_waiting(), 3, "{method}");
    }
    let lines = gateway.metric("weir_upstream_retries_total");
    assert_eq!(lines, 6);
}

/// The last answer is what the client gets, as it came, and what was tried before leaves nothing behind.
#[test]
fn the_last_answer_is_passed_on() {
    let origin = saying(503, "sorry");
    let gateway = one_worker(&[origin.address], "", RETRY);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..5 {
        let response = connection.get("/");
        assert_eq!((response.status, response.text().as_str()), (503, "sorry"));
    }
    assert_eq!(origin.heads_waiting(), 15);
    // An answer is read to its end before its connection serves again, and kept until another one stands.
    assert_eq!(gateway.metric("weir_upstream_connects_total"), 2);
    nothing_is_left(&gateway);
}

/// A client that leaves during the wait is noticed, and nothing is held for it.
#[test]
fn a_client_may_leave_while_its_request_waits() {
    let origin = saying(503, "sorry");
    let rule = "retry = { attempts = 10, backoff = \"60s\", backoff_max = \"60s\" }\n";
    let gateway = one_worker(&[origin.address], "", rule);
    let mut connection = Connection::open(gateway.address);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_until("it waits", || {
        gateway.metric("weir_upstream_retries_total") > 0
    });
    drop(connection);
    let gone = "weir_failures_total{fault=\"client\",reason=\"client_gone\"}";
    gateway.wait_for_metric(gone, 1);
    nothing_is_left(&gateway);
}
