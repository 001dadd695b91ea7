//! Endpoints that refuse, die, hang or come back, and which requests may be sent again.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::{App, Directory, Gateway, forward_everything, free_port, wait_until};

/// A gateway with one worker, so that every request looks into the same pool.
fn one_worker(servers: &[SocketAddr], upstream_keys: &str, route_keys: &str) -> Gateway {
    let forward = forward_everything(servers, upstream_keys);
    Gateway::start(&format!("[server]\nworkers = 1\n{forward}{route_keys}"))
}

/// An address of the loopback interface that refuses connections.
fn refusing() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// An address where connecting takes for ever: its queue is full and nobody accepts. It lasts as long as the sockets.
fn hanging() -> (SocketAddr, (socket2::Socket, Vec<TcpStream>)) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
        .expect("a socket can be made");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("loopback has a free port");
    socket.listen(0).expect("a bound socket listens");
    let address = socket.local_addr().expect("a bound socket has an address");
    let address = address.as_socket().expect("it is an IP address");
    let mut queue = Vec::new();
    let patience = std::time::Duration::from_millis(200);
    while let Ok(stream) = TcpStream::connect_timeout(&address, patience) {
        queue.push(stream);
    }
    (address, (socket, queue))
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// An origin that answers the first request of each connection with the number of the connection, and closes when it
/// has read the head of the second one, before it answers. The sender gets the number when that has happened.
fn closing_on_the_second_request() -> (Origin, Receiver<usize>) {
    let (tell, closed) = channel();
    let origin = Origin::start(move |mut peer, number| {
        if peer.head().is_none() {
            return;
        }
        peer.send(ok(&number.to_string()));
        if peer.head().is_some() {
            drop(peer);
            let _ = tell.send(number);
        }
    });
    (origin, closed)
}

#[test]
fn an_endpoint_that_refuses_is_passed_over() {
    let app = App::start("a");
    let gateway = Gateway::to(&[refusing(), app.address, refusing()]);
    let mut connection = Connection::open(gateway.address);
    for number in 0..30 {
        // Nothing of it was sent, so a POST may go elsewhere too.
        connection.send(if number % 2 == 0 {
            "GET / HTTP/1.1\r\nHost: test\r\n\r\n"
        } else {
            "POST /what-is-my-name HTTP/1.1\r\nHost: test\r\nContent-Length: 6\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\nname=x"
        });
        let response = connection.response();
        assert_eq!(response.status, 200);
        assert_eq!(response.field("x-served-by"), Some("a"));
    }
    let up = |address: SocketAddr| {
        gateway.metric(&format!(
            "weir_upstream_endpoint_up{{upstream=\"app\",endpoint=\"{address}\"}}"
        ))
    };
    assert_eq!(up(app.address), 1);
}

#[test]
fn when_every_endpoint_refuses_the_answer_is_502() {
    let gateway = Gateway::to(&[refusing(), refusing()]);
    let mut connection = Connection::open(gateway.address);
    for _ in 0..5 {
        let response = connection.get("/");
        assert_eq!(response.status, 502);
        assert_eq!(response.field("connection"), None);
    }
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"upstream\",reason=\"connect_failed\"}",
        5,
    );
}

/// A connect that hangs ends at its deadline: elsewhere if there is another endpoint, with a 504 if not.
#[test]
fn a_connect_that_hangs_is_given_up() {
    let (address, _open) = hanging();
    let timeout = "timeout = { connect = \"300ms\" }\n";
    let alone = one_worker(&[address], "", timeout);
    assert_eq!(client::get(alone.address, "/").status, 504);
    alone.wait_for_metric(
        "weir_failures_total{fault=\"upstream\",reason=\"connect_timeout\"}",
        1,
    );

    let app = App::start("a");
    let beside = one_worker(&[address, app.address], "", timeout);
    let mut connection = Connection::open(beside.address);
    for _ in 0..4 {
        assert_eq!(connection.get("/").status, 200);
    }
}

#[test]
fn a_response_that_does_not_come_is_a_504() {
    let origin = Origin::start(|mut peer, _| while peer.head().is_some() {});
    let gateway = one_worker(
        &[origin.address],
        "",
        "timeout = { response = \"300ms\" }\n",
    );
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").status, 504);
    // It may be at work on it, so nobody else is asked; and a late answer must not meet the next request.
    assert_eq!(connection.get("/").status, 504);
    assert_eq!(origin.heads_waiting(), 2);
    assert_eq!(gateway.metric("weir_upstream_retries_total"), 0);
    assert_eq!(gateway.metric("weir_upstream_pool_hits_total"), 0);
}

/// A response that pauses for longer than `idle` is broken off.
#[test]
fn a_response_that_pauses_is_broken_off() {
    let origin = Origin::start(|mut peer, _| {
        if peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
            peer.head();
        }
    });
    let gateway = one_worker(&[origin.address], "", "timeout = { idle = \"300ms\" }\n");
    let mut connection = Connection::open(gateway.address);
    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(connection.rest().ends_with(b"\r\n\r\nhello"));
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"upstream\",reason=\"response_cut\"}",
        1,
    );
}

/// The endpoint closed an idle connection while the request was on its way: what is harmless to repeat is sent once
/// more, on a fresh one.
#[test]
fn a_get_that_met_a_dead_idle_connection_is_sent_again() {
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let (origin, closed) = closing_on_the_second_request();
        let gateway = one_worker(&[origin.address], "", "");
        let mut connection = Connection::open(gateway.address);
        assert_eq!(connection.get("/").text(), "0");
        connection.send(format!(
            "{method} / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
        ));
        let response = connection.response_to(method).expect("an answer");
        let expected = if method == "HEAD" { "" } else { "1" };
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, expected),
            "{method}"
        );
        assert_eq!(closed.recv(), Ok(0));
        assert_eq!(origin.heads_waiting(), 3, "{method}");
        assert_eq!(gateway.metric("weir_upstream_retries_total"), 1);
        assert_eq!(gateway.metric("weir_upstream_pool_hits_total"), 1);
    }
}

/// An endpoint that accepts and closes, again and again, is not asked without end.
#[test]
fn sending_again_has_an_end() {
    let origin = Origin::start(|mut peer, _| drop(peer.head()));
    let gateway = one_worker(&[origin.address], "", "");
    assert_eq!(client::get(gateway.address, "/").status, 502);
    assert_eq!(origin.heads_waiting(), 3);
}

/// The same with a POST: its bytes were sent, so it may have been acted on, and is not sent again.
#[test]
fn a_post_that_met_a_dead_idle_connection_is_not_sent_again() {
    let (origin, closed) = closing_on_the_second_request();
    let gateway = one_worker(&[origin.address], "", "");
    for method in ["POST", "PATCH", "SUBSCRIBE"] {
        let mut connection = Connection::open(gateway.address);
        connection.get("/");
        let _ = origin.next_head();
        connection.send(format!(
            "{method} / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
        ));
        assert_eq!(connection.response().status, 502, "{method}");
        closed.recv().expect("it closed");
        assert!(origin.next_head().starts_with(method));
        assert_eq!(origin.heads_waiting(), 0, "{method} is asked once");
    }
    assert_eq!(gateway.metric("weir_upstream_retries_total"), 0);
}

/// A connection that the endpoint closed while it was idle is noticed before it is used: even a POST is safe.
#[test]
fn an_idle_connection_that_was_closed_is_not_used() {
    let (go_on, may_go_on) = channel::<()>();
    let (tell, closed) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let origin = Origin::start(move |mut peer, number| {
        if peer.head().is_some() {
            peer.body(4);
            peer.send(ok(&number.to_string()));
            let _ = may_go_on.lock().expect("no handler panics").recv();
            drop(peer);
            let _ = tell.send(());
        }
    });
    let gateway = one_worker(&[origin.address], "", "");
    let mut connection = Connection::open(gateway.address);
    for number in 0..10 {
        connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!(connection.response().text(), number.to_string());
        go_on.send(()).expect("the origin waits");
        closed.recv().expect("it closed");
    }
    assert_eq!(gateway.metric("weir_upstream_pool_hits_total"), 0);
}

/// A body of which nothing was sent goes along when its head is sent again, even if the first endpoint refused it.
#[test]
fn a_body_that_was_not_sent_yet_goes_along_with_the_repeated_head() {
    let (go_on, may_go_on) = channel::<()>();
    let (tell, closed) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let origin = Origin::start(move |mut peer, number| {
        if number > 0 {
            peer.head();
            let body = peer.body(4);
            return peer.send(ok(&String::from_utf8(body).expect("text")));
        }
        peer.head();
        peer.send(ok("first"));
        peer.head();
        let _ = may_go_on.lock().expect("no handler panics").recv();
        let socket = socket2::SockRef::from(&peer.stream);
        let _ = socket.set_linger(Some(std::time::Duration::ZERO));
        drop(peer);
        let _ = tell.send(());
    });
    let gateway = one_worker(&[origin.address], "", "");
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").text(), "first");
    let _ = origin.next_head();
    connection.send("PUT / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\n");
    assert!(origin.next_head().starts_with("PUT"));
    // While the gateway stands still, its connection is reset and the body arrives: it learns of both at once.
    gateway.process.signal("STOP");
    go_on.send(()).expect("the origin waits");
    closed.recv().expect("it closed");
    connection.send("body");
    gateway.process.signal("CONT");
    assert_eq!(connection.response().text(), "body");
}

/// Requests by `count` keep-alive connections until told to stop; how many there were, and those that failed.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(gateway: SocketAddr, count: usize) -> Self {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let threads = (0..count).map(|_| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut failed = Vec::new();
                let mut connection = Connection::open(gateway);
                while !stop.load(Ordering::Relaxed) {
                    connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
                    match connection.response_to("GET") {
                        Some(response) if response.status == 200 && response.body.len() == 612 => {}
                        Some(response) => failed.push(response.head),
                        None => {
                            failed.push("closed".to_owned());
                            connection = Connection::open(gateway);
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                failed
            })
        });
        let threads = threads.collect();
        Self {
            stop,
            done,
            threads,
        }
    }

    /// Waits until so many more requests were answered.
    fn wait_for(&self, more: usize) {
        let goal = self.done.load(Ordering::Relaxed) + more;
        wait_until("more requests are answered", || {
            self.done.load(Ordering::Relaxed) >= goal
        });
    }

    fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.threads.into_iter().map(JoinHandle::join);
        failed
            .flat_map(|failed| failed.expect("it read every answer"))
            .collect()
    }
}

#[test]
fn a_replica_that_is_killed_under_load_fails_no_request_and_is_used_again() {
    let mut apps = [App::start("a"), App::start("b"), App::start("c")];
    let gateway = Gateway::to(&[apps[0].address, apps[1].address, apps[2].address]);
    let load = Load::start(gateway.address, 8);
    for app in &mut apps {
        let served = format!(
            "weir_upstream_responses_total{{upstream=\"app\",endpoint=\"{}\"",
            app.address
        );
        let before = gateway.metric(&served);
        load.wait_for(200);
        wait_until("it is used", || gateway.metric(&served) > before + 10);
        app.process.kill();
        load.wait_for(500);
        let (name, port) = (app.name.clone(), app.address.port());
        *app = App::start_with(&name, port, &[]);
        let before = gateway.metric(&served);
        wait_until("it is used again", || gateway.metric(&served) > before + 50);
    }
    let failed = load.end();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn upstreams_are_reached_over_unix_sockets_too() {
    let directory = Directory::new();
    let path = directory.file("app.sock");
    let listen = format!("unix:{}", path.display());
    let arguments = ["app", "--listen", &listen, "--name", "unix"];
    let mut process = Process::weir(&arguments, &directory);
    wait_until("it listens", || process.output().contains("listens on"));
    let gateway = Gateway::start(&format!(
        "[server]\nworkers = 1\n[upstream.app]\nservers = [\"{listen}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n"
    ));
    let mut connection = Connection::open(gateway.address);
    for _ in 0..3 {
        let response = connection.get("/");
        assert_eq!(
            (
                response.status,
                response.body.len(),
                response.field("x-served-by")
            ),
            (200, 612, Some("unix"))
        );
    }
    assert_eq!(gateway.metric("weir_upstream_pool_hits_total"), 2);

    process.kill();
    assert_eq!(connection.get("/").status, 502);
    let _again = Process::weir(&arguments, &directory);
    wait_until("it is used again", || connection.get("/").status == 200);
}

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
        for _ in 0..20 {
            assert_eq!(
                client::get(gateway.address, "/").text(),
                "quick",
                "{balance}"
            );
        }
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
