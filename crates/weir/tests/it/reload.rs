//! Another configuration while the gateway runs: what changes, what stays, and that no request notices.

mod care;
mod kept;
mod listeners;
mod names;
mod servers;
mod swap;
mod under_load;
mod watch;

use std::net::SocketAddr;

use crate::harness::Gateway;
use crate::harness::client::{self, Response};

/// A route that answers `body` by itself.
fn responding(path: &str, body: &str) -> String {
    format!("[[route]]\npath = \"{path}\"\nrespond = {{ body = \"{body}\" }}\n")
}

/// An upstream, with a server for each of `servers`.
fn upstream(name: &str, servers: &[SocketAddr]) -> String {
    let servers: Vec<_> = servers.iter().map(|at| format!("\"{at}\"")).collect();
    format!("[upstream.{name}]\nservers = [{}]\n", servers.join(", "))
}

/// A route to an upstream.
fn forwarding(path: &str, upstream: &str) -> String {
    format!("[[route]]\npath = \"{path}\"\nupstream = \"{upstream}\"\n")
}

/// What the admin listener says to a request with a body.
fn ask(gateway: &Gateway, method: &str, path: &str, body: &str) -> Response {
    let json = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/json\r\n"
    };
    let length = body.len();
    client::send(
        gateway.admin,
        &format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{json}Content-Length: {length}\r\n\r\n{body}",
            gateway.admin
        ),
    )
}

/// What `GET /upstreams` says.
fn upstreams(gateway: &Gateway) -> serde_json::Value {
    let response = ask(gateway, "GET", "/upstreams", "");
    assert_eq!(response.status, 200, "{}", response.text());
    serde_json::from_slice(&response.body).expect("it is JSON")
}
