//! Endpoints that answer, and are left alone because of what they answer: ejection, breakers, and health checks.

mod alike;
mod checks;
mod ejection;
mod probes;

use std::net::SocketAddr;

use serde_json::Value;

use crate::harness::client::{self, Connection};
use crate::harness::{App, Gateway, free_port};

/// A replica that can be made bad.
fn replica(name: &str) -> App {
    App::start_with(name, free_port(), &["--faults"])
}

fn replicas() -> [App; 3] {
    ["a", "b", "c"].map(replica)
}

fn addresses(apps: &[App]) -> Vec<SocketAddr> {
    apps.iter().map(|app| app.address).collect()
}

/// Makes a replica bad, or well again with `none`.
fn set(app: &App, mode: &str) {
    let request = format!(
        "POST /fault?mode={mode} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let response = client::send(app.address, &request);
    assert_eq!(response.status, 200, "{}", response.text());
}

/// How many requests have come to a replica, health checks left out.
fn came_to(app: &App) -> u64 {
    let state = client::get(app.address, "/fault").text();
    let state: Value = serde_json::from_str(&state).expect("JSON");
    state["requests"].as_u64().expect("a count")
}

/// The status and the replica of so many answers, one after the other.
fn answers(connection: &mut Connection, count: usize) -> Vec<(u16, String)> {
    let answer = |_| {
        let response = connection.get("/");
        let replica = response.field("x-served-by").unwrap_or("nobody").to_owned();
        (response.status, replica)
    };
    (0..count).map(answer).collect()
}

/// What `/status` says of an endpoint of the first upstream.
fn status_of(gateway: &Gateway, endpoint: SocketAddr) -> Value {
    let status = client::ask_admin(gateway.admin, "/status").text();
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let endpoints = status["upstreams"][0]["endpoints"].as_array();
    let mut endpoints = endpoints.expect("a list").iter();
    let label = endpoint.to_string();
    let found = endpoints.find(|it| it["endpoint"] == label.as_str());
    found.expect("the endpoint is there").clone()
}
