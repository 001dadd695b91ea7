//! Requests that would go round in circles: refused where the config shows it, and where the requests themselves do.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::tool::run_to_end;
use crate::harness::{App, Directory, Gateway, forward_everything, free_port};

#[test]
fn a_gateway_that_would_be_its_own_upstream_does_not_start() {
    let directory = Directory::new();
    let port = free_port();
    for (listener, server) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("0.0.0.0", "127.0.0.1"),
        ("0.0.0.0", "0.0.0.0"),
    ] {
        let config = format!(
            "[[listener]]\naddress = \"{listener}:{port}\"\n[upstream.app]\nservers = [\"{server}:{port}\"]\n\
             [[route]]\npath = \"/\"\nupstream = \"app\"\n"
        );
        let path = directory.write("weir.toml", config);
        let path = path.to_str().expect("UTF-8");
        for command in ["check", "serve"] {
            let run = run_to_end(env!("CARGO_BIN_EXE_weir"), &[command, path]);
            assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
            let told = format!(
                "weir.toml:4: upstream.app.servers[1]: found \"{server}:{port}\", expected the address of the service"
            );
            assert!(run.stderr.contains(&told), "{}", run.stderr);
        }
    }
    let (listen, to) = (format!("127.0.0.1:{port}"), format!(":{port}"));
    let flags = ["serve", "--listen", &listen, "--to", &to];
    let run = run_to_end(env!("CARGO_BIN_EXE_weir"), &flags);
    assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("leads back to the listener"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_gateway_that_runs_does_not_become_its_own_upstream() {
    let app = App::start("a");
    let gateway = Gateway::to(&[app.address]);
    let path = format!("/upstreams/app/servers/{}", gateway.address);
    let put = format!("PUT {path} HTTP/1.1\r\nHost: {}\r\n\r\n", gateway.admin);
    let answer = crate::harness::client::send(gateway.admin, &put);
    assert_eq!(answer.status, 409, "{}", answer.text());
    gateway.configure(&forward_everything(&[gateway.address], ""));
    let run = gateway.try_reload();
    assert_eq!(run.status.code(), Some(2));
    assert!(
        run.stderr.contains("leads back to the listener"),
        "{}",
        run.stderr
    );
    assert_eq!(Connection::open(gateway.address).get("/").status, 200);
}

/// Another server in between hides it from the config.
#[test]
fn a_request_that_comes_back_is_not_sent_on() {
    let back = Arc::new(OnceLock::<SocketAddr>::new());
    let to = Arc::clone(&back);
    let between = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            let mut onward = Connection::open(*to.get().expect("the gateway has started"));
            onward.send(&head);
            let status = onward.response().status;
            peer.send(format!(
                "HTTP/1.1 {status} Passed On\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    // A route with a cache would wait for the answer that it is to bring itself.
    let config = forward_everything(&[between.address], "") + "cache = true\n";
    let gateway = Gateway::start(&config);
    back.set(gateway.address).expect("it is set once");
    let mut connection = Connection::open(gateway.address);
    assert_eq!(connection.get("/").status, 508);
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"gateway\",reason=\"loop_detected\"}",
        1,
    );
    // The outer one is counted when its answer has gone out, which may be after the client has read it.
    gateway.wait_for_metric("weir_requests_total", 2);
}

/// An edge and an inner gateway are no loop.
#[test]
fn two_gateways_in_a_row_are_none() {
    let app = App::start("a");
    let inner = Gateway::to(&[app.address]);
    let edge = Gateway::to(&[inner.address]);
    let mut connection = Connection::open(edge.address);
    for _ in 0..3 {
        assert_eq!(connection.get("/").status, 200);
    }
}
