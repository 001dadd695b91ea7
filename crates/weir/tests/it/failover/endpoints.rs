//! Endpoints that refuse, hang, pause or are killed, and that are used again when they are back.

use std::net::{SocketAddr, TcpStream};

use super::{Load, one_worker};
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::{App, Directory, Gateway, free_port, wait_until};

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

/// A restarted gateway, an idle service: what is known is that it refused, until somebody has asked.
#[test]
fn who_refused_is_not_up_before_somebody_asked() {
    let place = Directory::new();
    let socket = place.file("app.sock");
    let label = format!("unix:{}", socket.display());
    let log = place.file("access.log");
    let gateway = Gateway::start(&format!(
        "[access_log]\npath = {log:?}\nformat = \"json\"\nflush = \"100ms\"\n\
         [upstream.app]\nservers = [{label:?}]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n"
    ));
    let up = format!("weir_upstream_endpoint_up{{upstream=\"app\",endpoint=\"{label}\"}}");
    assert_eq!(gateway.metric(&up), 1, "nothing speaks against it");
    assert_eq!(client::get(gateway.address, "/").status, 502);
    assert_eq!(gateway.metric(&up), 0);
    let said = |text: &str| wait_until(text, || gateway.process.output().contains(text));
    said("app.sock of upstream app refuses connections and is passed over: No such file");
    let state = || client::ask_admin(gateway.admin, "/status").text();
    wait_until("its wait is over", || {
        state()
            .contains("\"word\":\"on trial\",\"why\":\"ENOENT 1 s ago; the next request tries it\"")
    });
    assert_eq!(gateway.metric(&up), 0, "nobody has asked");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    let entry = format!(
        "\"endpoint\":{label:?},\"connect_error\":\"ENOENT\",\"failure\":\"connect_failed\""
    );
    wait_until("the log names it", || logged().contains(&entry));

    let _app = Process::weir(&["app", "--listen", &label], &place);
    wait_until("it is asked", || {
        client::get(gateway.address, "/").status == 200
    });
    assert_eq!(gateway.metric(&up), 1);
    said("app.sock of upstream app accepts connections again");
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
