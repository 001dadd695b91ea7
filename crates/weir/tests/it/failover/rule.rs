//! What a route with `retry` sends again, and what not.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::{answer, nothing_is_left, ok, one_worker, saying};
use crate::harness::client::{self, Connection, Response};
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

#[test]
fn only_statuses_of_the_rule_are_asked_for_again() {
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let status = head.split(['/', ' ']).nth(2).expect("a path");
            peer.send(answer(status.parse().expect("a status"), "sorry"));
        }
    });
    let rule = "retry = { attempts = 2, backoff = \"0s\", statuses = [500, \"520-529\"] }\n";
    let gateway = one_worker(&[origin.address], "", rule);
    let cases = [
        (500, 2),
        (501, 1),
        (503, 1),
        (519, 1),
        (520, 2),
        (529, 2),
        (404, 1),
    ];
    for (status, times) in cases {
        let response = client::get(gateway.address, &format!("/{status}"));
        assert_eq!(
            (response.status, response.text().as_str()),
            (status, "sorry")
        );
        assert_eq!(origin.heads_waiting(), times, "{status}");
    }
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

/// A body that came with its head is here still; one that was passed on as it came is not.
#[test]
fn a_body_goes_along_when_all_of_it_is_here() {
    let origin = Origin::start(|mut peer, number| {
        while peer.head().is_some() {
            let body = String::from_utf8(peer.body(4)).expect("text");
            let status = if number == 0 { 503 } else { 200 };
            peer.send(answer(status, &body));
            if number == 0 {
                return;
            }
        }
    });
    let gateway = one_worker(&[origin.address], "", RETRY);
    let response = asked(&mut Connection::open(gateway.address), "PUT", "whol");
    assert_eq!((response.status, response.text().as_str()), (200, "whol"));
    assert_eq!(origin.heads_waiting(), 2);
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

/// An interim response is bytes that the client has.
#[test]
fn nothing_is_sent_again_once_the_client_has_heard_of_it() {
    let origin = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            peer.send(answer(503, "bad"));
        }
    });
    let gateway = one_worker(&[origin.address], "", RETRY);
    let mut connection = Connection::open(gateway.address);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(connection.until(b"\r\n\r\n").starts_with(b"HTTP/1.1 103 "));
    assert_eq!(connection.response().text(), "bad");
    assert_eq!(origin.heads_waiting(), 1);
    // A client that cannot read them has not.
    let mut old = Connection::open(gateway.address);
    old.send("GET / HTTP/1.0\r\nHost: test\r\n\r\n");
    assert_eq!(old.response().text(), "bad");
    assert_eq!(origin.heads_waiting(), 3);
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

/// When the bad answer itself is the reason why there is nobody left to ask, it is better than none.
#[test]
fn an_answer_is_kept_until_there_is_a_better_one() {
    let origin = saying(503, "sorry");
    let breaker = "breaker = { consecutive = 1, open_for = \"60s\" }\n";
    let gateway = one_worker(&[origin.address], breaker, RETRY);
    let mut connection = Connection::open(gateway.address);
    let response = connection.get("/");
    assert_eq!((response.status, response.text().as_str()), (503, "sorry"));
    assert_eq!(origin.heads_waiting(), 1);
    assert_eq!(
        connection.get("/").text(),
        "503 Service Unavailable\n",
        "it is open"
    );
    nothing_is_left(&gateway);
}

/// The attempt that hangs is given up; the last one may take as long as the route allows.
#[test]
fn an_attempt_has_a_time_of_its_own() {
    let origin = Origin::start(|mut peer, number| {
        peer.head();
        if number == 0 {
            // Until the gateway closes.
            peer.head();
        } else {
            std::thread::sleep(Duration::from_millis(200));
            peer.send(ok("late, but well"));
        }
    });
    let rule = "retry = { attempts = 2, backoff = \"0s\", per_try = \"50ms\" }\n";
    let gateway = one_worker(&[origin.address], "", rule);
    assert_eq!(client::get(gateway.address, "/").text(), "late, but well");
    assert_eq!(origin.heads_waiting(), 2);
    assert_eq!(gateway.metric("weir_upstream_retries_total"), 1);
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
