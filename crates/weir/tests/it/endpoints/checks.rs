//! Health checks: when endpoints leave and return, and what becomes of the checks when the configuration changes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::json;

use super::status_of;
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{App, Directory, Gateway, forward_everything, free_port, wait_until};

const OFTEN: &str = "health = { path = \"/healthz\", interval = \"100ms\", rise = 2, fall = 2 }";

/// An origin that answers all paths well but one, `/healthz`, with a status of the test's choice.
struct Patient {
    origin: Origin,
    status: Arc<AtomicU16>,
}

impl Patient {
    fn start(name: &'static str) -> Self {
        let status = Arc::new(AtomicU16::new(200));
        let said = Arc::clone(&status);
        let origin = Origin::start(move |mut peer, _| {
            while let Some(head) = peer.head() {
                let status = if head.starts_with("GET /healthz ") {
                    said.load(Ordering::Relaxed)
                } else {
                    200
                };
                peer.send(format!(
                    "HTTP/1.1 {status} X\r\nX-Served-By: {name}\r\nContent-Length: 2\r\n\r\nok"
                ));
            }
        });
        Self { origin, status }
    }

    fn address(&self) -> SocketAddr {
        self.origin.address
    }

    fn say(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }
}

fn is_up(gateway: &Gateway, endpoint: SocketAddr) -> bool {
    let status = status_of(gateway, endpoint);
    let is_up = status["up"] == true;
    let gauge = format!("weir_upstream_endpoint_up{{upstream=\"app\",endpoint=\"{endpoint}\"}}");
    // Between the two questions it may have changed.
    is_up && gateway.metric(&gauge) == 1
}

/// Who answers thirty requests.
fn answering(gateway: &Gateway) -> Vec<String> {
    let mut connection = Connection::open(gateway.address);
    let mut names: Vec<String> = (0..30)
        .map(|_| {
            let response = connection.get("/");
            assert_eq!(response.status, 200);
            response.field("x-served-by").expect("a name").to_owned()
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn an_endpoint_whose_check_fails_leaves_and_returns() {
    let (a, b) = (Patient::start("a"), Patient::start("b"));
    let gateway = Gateway::start(&forward_everything(&[a.address(), b.address()], OFTEN));
    wait_until("it was checked", || {
        status_of(&gateway, b.address())["check"] == json!({"up": true, "error": null})
    });
    assert_eq!(answering(&gateway), ["a", "b"]);

    b.say(503);
    wait_until("it is down", || !is_up(&gateway, b.address()));
    assert_eq!(
        status_of(&gateway, b.address())["check"],
        json!({"up": false, "error": "GET /healthz was answered with 503"})
    );
    assert_eq!(answering(&gateway), ["a"]);
    let told = format!(
        "{} of upstream app is down: GET /healthz was answered with 503",
        b.address()
    );
    wait_until("the operator is told", || {
        gateway.process.output().contains(&told)
    });

    b.say(204);
    wait_until("it is up", || is_up(&gateway, b.address()));
    assert_eq!(answering(&gateway), ["a", "b"]);
    let told = format!("{} of upstream app is up again", b.address());
    wait_until("the operator is told", || {
        gateway.process.output().contains(&told)
    });
}

#[test]
fn when_all_checks_fail_endpoints_are_asked_all_the_same() {
    let (a, b) = (Patient::start("a"), Patient::start("b"));
    a.say(500);
    b.say(500);
    let gateway = Gateway::start(&forward_everything(&[a.address(), b.address()], OFTEN));
    for patient in [&a, &b] {
        wait_until("it is down", || !is_up(&gateway, patient.address()));
    }
    assert_eq!(answering(&gateway), ["a", "b"]);
}

/// An endpoint that is down stays so over a reload that leaves it and its check alone.
#[test]
fn a_reload_keeps_what_is_known_unless_the_check_is_another_one() {
    let (a, b) = (Patient::start("a"), Patient::start("b"));
    let servers = [a.address(), b.address()];
    // Down at the first bad answer, and never again up: only its state can say so after a reload.
    let once = "health = { path = \"/healthz\", interval = \"200ms\", fall = 1, rise = 100 }";
    let gateway = Gateway::start(&forward_everything(&servers, once));
    b.say(500);
    wait_until("it is down", || !is_up(&gateway, b.address()));
    b.say(200);

    let route = "[[route]]\npath = \"/other\"\nupstream = \"app\"\n";
    gateway.configure(&(forward_everything(&servers, once) + route));
    gateway.reload();
    assert!(!is_up(&gateway, b.address()));
    assert_eq!(answering(&gateway), ["a"]);

    let seldom = "health = { path = \"/healthz\", interval = \"1h\" }";
    gateway.configure(&forward_everything(&servers, seldom));
    gateway.reload();
    wait_until("nothing is held against it", || {
        let status = status_of(&gateway, b.address());
        status["up"] == true && status["check"].is_null()
    });

    gateway.configure(&forward_everything(&servers, once));
    gateway.reload();
    b.say(500);
    wait_until("it is down", || !is_up(&gateway, b.address()));
    gateway.configure(&forward_everything(&servers, ""));
    gateway.reload();
    wait_until("nobody is asked any more", || {
        let status = status_of(&gateway, b.address());
        status["up"] == true && status["check"].is_null()
    });
}

#[test]
fn endpoints_are_checked_from_when_they_are_added_until_they_are_removed() {
    let (a, b) = (Patient::start("a"), Patient::start("b"));
    let gateway = Gateway::start(&forward_everything(&[a.address()], OFTEN));
    let ask = |method: &str, address: SocketAddr| {
        let request = format!(
            "{method} /upstreams/app/servers/{address} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: 2\r\nConnection: close\r\n\r\n{{}}",
            gateway.admin
        );
        let response = client::send(gateway.admin, &request);
        assert_eq!(response.status, 200, "{}", response.text());
    };
    b.say(500);
    ask("PUT", b.address());
    wait_until("it is down", || !is_up(&gateway, b.address()));
    assert!(b.origin.next_head().starts_with("GET /healthz "));
    ask("DELETE", b.address());
    // One check may have been under way.
    wait_until(
        "three checks of the other one pass without one of it",
        || {
            a.origin.heads();
            b.origin.heads();
            for _ in 0..3 {
                a.origin.next_head();
            }
            b.origin.heads_waiting() == 0
        },
    );
}

#[test]
fn a_gateway_that_drains_checks_nobody() {
    let a = Patient::start("a");
    let waiting = Origin::start(|mut peer, _| {
        peer.head();
        peer.head();
    });
    let gateway = Gateway::start(&format!(
        "{}[upstream.slow]\nservers = [\"{}\"]\n[[route]]\npath = \"/slow\"\nupstream = \"slow\"\n",
        forward_everything(&[a.address()], OFTEN),
        waiting.address
    ));
    let has_thread = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.process.pid()));
        let names = tasks
            .expect("it runs")
            .flatten()
            .map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        names.into_iter().any(|name| name.trim() == "checks")
    };
    let mut connection = Connection::open(gateway.address);
    connection.send("GET /slow HTTP/1.1\r\nHost: test\r\n\r\n");
    waiting.next_head();
    wait_until("the thread has its name", has_thread);
    gateway.process.signal("TERM");
    wait_until("the thread is gone", || !has_thread());
}

#[test]
fn tcp_checks_ask_for_a_connection_alone() {
    let a = App::start("a");
    let port = free_port();
    let b = SocketAddr::from(([127, 0, 0, 1], port));
    let tcp = "health = { tcp = true, interval = \"100ms\", rise = 1, fall = 2 }";
    let gateway = Gateway::start(&forward_everything(&[a.address, b], tcp));
    wait_until("it is down", || {
        status_of(&gateway, b)["check"]["up"] == false
    });
    let error = status_of(&gateway, b)["check"]["error"].to_string();
    assert!(error.contains("cannot be connected to"), "{error}");
    let _b = App::start_with("b", port, &[]);
    wait_until("it is up", || is_up(&gateway, b));
    assert_eq!(answering(&gateway), ["a", "b"]);
}

#[test]
fn unix_sockets_are_checked_too() {
    let directory = Directory::new();
    let listen = format!("unix:{}", directory.file("app.sock").display());
    let arguments = ["app", "--listen", &listen, "--name", "unix"];
    let _app = crate::harness::process::Process::weir(&arguments, &directory);
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{listen}\"]\n{OFTEN}\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n"
    ));
    wait_until("it was checked", || {
        let status = client::ask_admin(gateway.admin, "/status").text();
        status.contains(r#""check":{"up":true,"error":null}"#)
    });
}
