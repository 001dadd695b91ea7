//! guard's interface: apps that are posted, what is served of them, that they stay, and what an import makes of them.

mod import;
mod kept;
mod posted;
mod served;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::client::{self, Response};
use crate::harness::{Directory, Gateway};

/// A gateway that takes apps and keeps them in `guard.json` of `directory`; `config` is what its file says besides.
fn taking_apps(directory: &Directory, config: &str) -> Gateway {
    let file = directory.file("guard.json");
    Gateway::start(&format!(
        "guard_api = true\nguard_file = \"{}\"\n{config}",
        file.display()
    ))
}

/// An app with one path for GET.
fn app(name: &str, backend: SocketAddr, path: &str) -> Value {
    json!({
        "name": name, "backends": [backend.to_string()], "weights": [1], "ratio": 0.5,
        "paths": [path], "methods": ["GET"]
    })
}

fn post(gateway: &Gateway, app: &str) -> Response {
    let length = app.len();
    client::send(
        gateway.admin,
        &format!(
            "POST /app HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{app}",
            gateway.admin
        ),
    )
}

/// Posts an app that must be taken.
#[track_caller]
fn take(gateway: &Gateway, app: &Value) {
    let response = post(gateway, &app.to_string());
    assert_eq!((response.status, &*response.text()), (200, "success!"));
}

/// A request to a host.
fn ask(gateway: &Gateway, method: &str, host: &str, target: &str) -> Response {
    let length = if method == "GET" {
        ""
    } else {
        "Content-Length: 0\r\n"
    };
    client::send(
        gateway.address,
        &format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{length}\r\n"),
    )
}

/// What is kept.
fn saved(path: &Path) -> Value {
    let text = std::fs::read(path).expect("apps are saved");
    serde_json::from_slice(&text).expect("the file is whole")
}
