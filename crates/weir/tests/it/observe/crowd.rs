//! The admin listener answers whatever others do with it: those who say nothing, read nothing, or ask by another name.

use std::net::SocketAddr;

use crate::harness::Gateway;
use crate::harness::client::{self, Connection};

/// As many as would take every place several times over, each for as long as a client may take.
const CROWD: usize = 200;

fn gateway() -> Gateway {
    Gateway::start("[[route]]\npath = \"/\"\nrespond = {}\n")
}

fn is_answered(admin: SocketAddr) {
    assert_eq!(client::ask_admin(admin, "/healthz").text(), "ok\n");
    assert_eq!(client::ask_admin(admin, "/status").status, 200);
}

#[test]
fn clients_that_say_nothing_or_stop_in_the_middle_lock_nobody_out() {
    let gateway = gateway();
    let host = gateway.admin;
    let body = format!(
        "POST /cache/purge HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{{"
    );
    for beginning in ["", "GET /status HTTP/1.1\r\nHo", &body] {
        let crowd: Vec<_> = (0..CROWD)
            .map(|_| {
                let mut connection = Connection::open(gateway.admin);
                connection.send(beginning);
                connection
            })
            .collect();
        is_answered(gateway.admin);
        drop(crowd);
    }
}

#[test]
fn clients_that_do_not_read_lock_nobody_out() {
    let gateway = gateway();
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", gateway.admin);
    // More answers than the sockets hold.
    let requests = request.repeat(1000);
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| {
            let mut connection = Connection::open(gateway.admin);
            connection.send(&requests);
            connection
        })
        .collect();
    is_answered(gateway.admin);
    drop(crowd);
}

#[test]
fn what_can_be_read_is_only_told_by_address_and_health_by_any_name() {
    let gateway = gateway();
    let ask = |path: &str, host: &str| {
        let request = format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
        client::send(gateway.admin, &request)
    };
    for path in ["/", "/status", "/metrics", "/nowhere", "/upstreams"] {
        for host in [
            "page.example",
            "page.example:9901",
            "127.0.0.1.page.example",
        ] {
            let response = ask(path, &format!("Host: {host}\r\n"));
            assert_eq!(response.status, 403, "{path} {host}");
            let said = response.text();
            assert!(
                said.starts_with("{\"error\":\"found a name in Host, expected an address"),
                "{said}"
            );
        }
        let expected = if path == "/nowhere" { 404 } else { 200 };
        for host in ["localhost", "127.0.0.1", "[::1]:9901"] {
            let response = ask(path, &format!("Host: {host}\r\n"));
            assert_eq!(response.status, expected, "{path} {host}");
        }
    }
    for host in ["Host: page.example\r\n", "Host: \r\n", "Host: a b\r\n", ""] {
        assert_eq!(ask("/healthz", host).text(), "ok\n", "{host}");
    }
}
