//! Servers that are added, weighted, drained and removed through the admin listener.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tungstenite::Message;

use super::{ask, forwarding, responding, upstream, upstreams};
use crate::harness::client::Connection;
use crate::harness::origin::Origin;
use crate::harness::{Gateway, wait_until};
use crate::upgrade::websocket::{connect, echo};

/// Origins that say `a`, `b`, `c`.
fn origins() -> [Origin; 3] {
    ["a", "b", "c"].map(|name| Origin::saying(([127, 0, 0, 1], 0).into(), name))
}

fn path(server: &Origin) -> String {
    format!("/upstreams/app/servers/{}", server.address)
}

/// How often who answers, of so many requests.
fn shares(gateway: &Gateway, requests: usize) -> HashMap<String, usize> {
    let mut connection = Connection::open(gateway.address);
    let mut shares = HashMap::new();
    for _ in 0..requests {
        *shares.entry(connection.get("/").text()).or_default() += 1;
    }
    shares
}

/// What `GET /upstreams` says of a server.
fn server(gateway: &Gateway, server: &Origin) -> serde_json::Value {
    let servers = upstreams(gateway)["upstreams"][0]["servers"].take();
    let label = server.address.to_string();
    let servers = servers.as_array().expect("a list").iter();
    let mut found = servers.filter(|it| it["server"] == label.as_str());
    found.next().cloned().unwrap_or_default()
}

/// Waits until so many more requests have come to an origin.
pub(super) fn wait_until_asked(origin: &Origin, count: usize) {
    let mut asked = 0;
    wait_until(&format!("{count} requests have come"), || {
        asked += origin.heads_waiting();
        asked >= count
    });
}

fn in_flight(gateway: &Gateway, origin: &Origin) -> u64 {
    let server = server(gateway, origin);
    server["endpoints"][0]["in_flight"]
        .as_u64()
        .expect("a count")
}

#[test]
fn servers_are_added_weighted_and_removed() {
    let [a, b, c] = origins();
    let config = |more: &str| {
        format!(
            "{}{}{more}",
            upstream("app", &[a.address, b.address]),
            forwarding("/", "app")
        )
    };
    let gateway = Gateway::start(&config(""));
    assert_eq!(
        shares(&gateway, 10),
        [("a".into(), 5), ("b".into(), 5)].into()
    );

    let added = ask(&gateway, "PUT", &path(&c), r#"{"weight": 8}"#);
    let expected = format!("upstream app: server {} added", c.address);
    assert_eq!(added.status, 200, "{}", added.text());
    assert!(added.text().contains(&expected), "{}", added.text());
    assert_eq!(shares(&gateway, 100)["c"], 80);

    let weighted = ask(&gateway, "PATCH", &path(&a), r#"{"weight": 7}"#);
    assert_eq!(weighted.status, 200);
    let found = shares(&gateway, 160);
    assert_eq!((found["a"], found["b"], found["c"]), (70, 10, 80));

    assert_eq!(ask(&gateway, "DELETE", &path(&b), "").status, 200);
    assert_eq!(ask(&gateway, "DELETE", &path(&b), "").status, 404);
    assert!(!shares(&gateway, 60).contains_key("b"));

    // A file that says of the upstream what it said before leaves it as it is now.
    gateway.configure(&config(&responding("/x", "x")));
    let told = gateway.reload();
    assert!(
        told.contains("made through the admin listener are kept"),
        "{told}"
    );
    assert_eq!(shares(&gateway, 150)["c"], 80);
    // What one says of a server that it did not say before holds, and what was added stays.
    let only_c = upstream("app", &[c.address]);
    gateway.configure(&format!("{only_c}{}", forwarding("/", "app")));
    let told = gateway.reload();
    assert!(
        told.contains("made through the admin listener are gone"),
        "{told}"
    );
    assert_eq!(shares(&gateway, 10), [("c".into(), 10)].into());
}

/// Requests by connections that never rest, until it is dropped or ended; one that fails panics.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<usize>>,
}

impl Load {
    pub(super) fn start(address: SocketAddr) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let threads = (0..8).map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut connection = Connection::open(address);
                let mut answered = 0;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(connection.get("/").status, 200);
                    answered += 1;
                }
                answered
            })
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }

    pub(super) fn end(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let answered = threads.into_iter().map(JoinHandle::join);
        answered
            .map(|answered| answered.expect("no request failed"))
            .sum()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// After the answer only what was on its way reaches a server that is drained; and it comes back when it is told to.
#[test]
fn a_server_is_drained_under_load() {
    let [a, b, _] = origins();
    let servers = upstream("app", &[a.address, b.address]);
    let gateway = Gateway::start(&format!("{servers}{}", forwarding("/", "app")));
    let load = Load::start(gateway.address);
    for _ in 0..10 {
        wait_until_asked(&a, 100);
        let drained = ask(&gateway, "PATCH", &path(&a), r#"{"draining": true}"#);
        assert_eq!(drained.status, 200, "{}", drained.text());
        let on_their_way = in_flight(&gateway, &a);
        a.heads_waiting();
        wait_until_asked(&b, 500);
        let after = a.heads_waiting() as u64;
        assert!(
            after <= on_their_way,
            "{after} came, {on_their_way} were on their way"
        );
        wait_until("what was on its way has ended", || {
            in_flight(&gateway, &a) == 0
        });
        assert_eq!(server(&gateway, &a)["draining"], true);
        wait_until("no idle connection is left", || {
            server(&gateway, &a)["endpoints"][0]["idle"] == 0
        });
        let back = ask(&gateway, "PATCH", &path(&a), r#"{"draining": false}"#);
        assert_eq!(back.status, 200);
    }
    assert!(load.end() > 5_000);
}

/// A server that is removed while requests are on their way to it: they end there, and none fails.
#[test]
fn a_server_is_replaced_under_load() {
    let [a, b, _] = origins();
    let servers = upstream("app", &[a.address]);
    let gateway = Gateway::start(&format!("{servers}{}", forwarding("/", "app")));
    let load = Load::start(gateway.address);
    for _ in 0..20 {
        for (new, old) in [(&b, &a), (&a, &b)] {
            assert_eq!(ask(&gateway, "PUT", &path(new), "").status, 200);
            assert_eq!(ask(&gateway, "DELETE", &path(old), "").status, 200);
            wait_until_asked(new, 20);
        }
    }
    load.end();
}

/// A tunnel counts as on its way for as long as it lasts; without another server there is nobody to ask, and that is told.
#[test]
fn a_tunnel_keeps_a_drained_server_busy() {
    let origin = echo();
    let gateway = Gateway::to(&[origin.address]);
    let mut socket = connect(gateway.address);
    assert_eq!(in_flight(&gateway, &origin), 1);
    assert_eq!(
        ask(&gateway, "PATCH", &path(&origin), r#"{"draining": true}"#).status,
        200
    );
    let refused = crate::harness::client::get(gateway.address, "/");
    assert_eq!(refused.status, 503);
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"upstream\",reason=\"no_endpoint\"}",
        1,
    );
    socket.send(Message::text("still here")).expect("sent");
    assert_eq!(socket.read().expect("an echo"), Message::text("still here"));
    assert_eq!(in_flight(&gateway, &origin), 1);
    drop(socket);
    wait_until("nothing is on its way", || {
        in_flight(&gateway, &origin) == 0
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let [a, b, _] = origins();
    let servers = upstream("app", &[a.address]);
    let gateway = Gateway::start(&format!("{servers}{}", forwarding("/", "app")));
    let b = path(&b);
    for (method, path, body, status, told) in [
        (
            "PUT",
            "/upstreams/ap/servers/127.0.0.1:1",
            "",
            404,
            "there is no upstream \\\"ap\\\"; there is \\\"app\\\"",
        ),
        (
            "PUT",
            "/upstreams/app/servers/127.0.0.1",
            "",
            400,
            "expected a host and a port",
        ),
        (
            "PUT",
            "/upstreams/app/servers/nowhere.invalid:1",
            "",
            409,
            "looking up",
        ),
        (
            "PUT",
            &b,
            r#"{"weight": 0}"#,
            400,
            "weight: found 0, expected an integer from 1 to 1000",
        ),
        ("PUT", &b, r#"{"weight": 1001}"#, 400, "weight: found 1001"),
        ("PUT", &b, r#"{"wieght": 5}"#, 400, "unknown field `wieght`"),
        ("PUT", &b, r#"{"draining": true}"#, 400, "PATCH drains"),
        ("PUT", &b, "[]", 400, "expected an object such as"),
        ("PATCH", &b, r#"{"weight": 5}"#, 404, "has no server"),
        ("PATCH", &b, "", 400, "found nothing to change"),
        ("DELETE", &b, "", 404, "has no server"),
        ("DELETE", &path(&a), "", 409, "at least one server"),
        ("POST", &b, "", 405, "PUT, PATCH, DELETE"),
        ("POST", "/upstreams", "", 405, "GET, HEAD"),
        ("GET", "/upstreams/app", "", 404, "here are"),
        (
            "DELETE",
            "/upstreams/ap/changes",
            "",
            404,
            "there is no upstream",
        ),
        ("GET", "/upstreams/app/changes", "", 405, "DELETE"),
    ] {
        let response = ask(&gateway, method, path, body);
        let text = response.text();
        assert_eq!(response.status, status, "{method} {path} {body}: {text}");
        assert!(text.contains(told), "{method} {path} {body}: {text}");
    }
    assert_eq!(gateway.metric("weir_config_generation"), 1);
}
