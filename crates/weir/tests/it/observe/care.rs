//! What the gateway tells of its refusing: breakers, places in upstreams and ejected endpoints, in `/status` and in
//! `/metrics`.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use super::admin::metrics;
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything, wait_until};

fn status(gateway: &Gateway) -> Value {
    let response = client::ask_admin(gateway.admin, "/status");
    serde_json::from_slice(&response.body).expect("/status is JSON")
}

fn failing() -> Origin {
    Origin::answering("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
}

fn get_statuses(gateway: &Gateway, path: &str, count: usize) -> Vec<u16> {
    let mut connection = Connection::open(gateway.address);
    (0..count).map(|_| connection.get(path).status).collect()
}

/// A breaker without what depends on the time, and without words.
fn counts(breaker: &Value) -> Value {
    let mut breaker = breaker.clone();
    let members = breaker.as_object_mut().expect("an object");
    members.remove("for_ms").expect("how long it has been so");
    members.remove("shown").expect("its words");
    breaker
}

#[test]
fn a_breaker_is_told_of_by_route_and_by_endpoint() {
    let (sick, other) = (failing(), failing());
    // Two routes of one name are one series. Nothing here waits for a breaker to close.
    let gateway = Gateway::start(&format!(
        "[upstream.sick]\nservers = [\"{}\"]\n[upstream.other]\nservers = [\"{}\"]\n\
         breaker = {{ consecutive = 3, open_for = \"1h\" }}\n\
         [[route]]\nname = \"a \\\"route\\\"\"\npath = \"/a\"\nupstream = \"sick\"\n\
         breaker = {{ consecutive = 2, open_for = \"1h\", open_for_max = \"1h\" }}\n\
         [[route]]\nname = \"a \\\"route\\\"\"\npath = \"/b\"\nupstream = \"sick\"\nbreaker = true\n\
         [[route]]\npath = \"/other\"\nupstream = \"other\"\n",
        sick.address, other.address
    ));
    let before = status(&gateway);
    let closed = json!({"state": "closed", "openings": 0, "requests": 0, "failures": 0, "slow": 0});
    let routes = before["routes"].as_array().expect("a list");
    assert_eq!(routes.len(), 2, "{routes:?}");
    assert_eq!(routes[0]["route"], "a \"route\"");
    assert_eq!(
        [0, 1].map(|it| counts(&routes[0]["breakers"][it])),
        [closed.clone(), closed.clone()]
    );
    assert_eq!(routes[1]["breakers"], json!([]));
    let endpoint = &before["upstreams"][1]["endpoints"][0]["breaker"];
    assert_eq!(counts(endpoint), closed);
    assert_eq!(
        before["upstreams"][0]["endpoints"][0]["breaker"],
        Value::Null
    );

    assert_eq!(get_statuses(&gateway, "/a", 4), [500, 500, 503, 503]);
    assert_eq!(get_statuses(&gateway, "/b", 2), [500, 500]);
    assert_eq!(get_statuses(&gateway, "/other", 4), [500, 500, 500, 503]);

    let after = status(&gateway);
    let [open, half] = [0, 1].map(|breaker| &after["routes"][0]["breakers"][breaker]);
    assert_eq!(
        (&open["state"], &open["openings"]),
        (&json!("open"), &json!(1))
    );
    let remaining_ms = open["remaining_ms"].as_u64().expect("a time");
    // The wait is shortened by a fifth at most, so that many breakers do not close at once.
    assert!(
        (2_800_000..=3_600_000).contains(&remaining_ms),
        "{remaining_ms}"
    );
    assert_eq!(
        counts(half),
        json!({"state": "closed", "openings": 0, "requests": 2, "failures": 2, "slow": 0})
    );
    let endpoint = &after["upstreams"][1]["endpoints"][0]["breaker"];
    assert_eq!(endpoint["state"], "open");

    gateway.wait_for_metric(
        "weir_failures_total{fault=\"gateway\",reason=\"breaker_open\"}",
        3,
    );
    let page = metrics(&gateway);
    let endpoint = format!("upstream=\"other\",endpoint=\"{}\"", other.address);
    for (series, value) in [
        ("weir_breaker_state{route=\"a \\\"route\\\"\"}", 3),
        ("weir_breaker_openings_total{route=\"a \\\"route\\\"\"}", 1),
        (&format!("weir_breaker_state{{{endpoint}}}"), 3),
        (&format!("weir_breaker_openings_total{{{endpoint}}}"), 1),
        ("weir_breaker_state", 6),
    ] {
        assert_eq!(page.sum(series), value, "{series}");
    }
}

#[test]
fn places_in_an_upstream_are_told_of() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let is_open = Arc::clone(&gate);
    // Answers nobody until the gate is open.
    let origin = Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            let (open, changed) = &*is_open;
            let guard = open.lock().expect("nobody panics with it");
            drop(changed.wait_while(guard, |open| !*open));
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let limit = "concurrency = { limit = 1, queue_target = \"1m\", queue_interval = \"1m\" }";
    let gateway = Gateway::start(&forward_everything(&[origin.address], limit));
    let of_gate = |gateway: &Gateway| status(gateway)["upstreams"][0]["concurrency"].clone();
    let empty = json!({"limit": 1, "in_flight": 0, "streams": 0, "waiting": 0, "overloaded": false, "base_latency_us": null});
    assert_eq!(of_gate(&gateway), empty);

    let get = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";
    let mut admitted = Connection::open(gateway.address);
    admitted.send(get);
    wait_until("the first request is in flight", || {
        of_gate(&gateway)["in_flight"] == 1
    });
    let mut waiting = Connection::open(gateway.address);
    waiting.send(get);
    wait_until("the second waits", || of_gate(&gateway)["waiting"] == 1);
    assert_eq!(client::get(gateway.address, "/").status, 503, "no place");
    let page = metrics(&gateway);
    for (series, value) in [
        ("weir_concurrency_limit{upstream=\"app\"}", 1),
        ("weir_concurrency_in_flight{upstream=\"app\"}", 1),
        ("weir_concurrency_streams{upstream=\"app\"}", 0),
        ("weir_concurrency_waiting{upstream=\"app\"}", 1),
        ("weir_concurrency_overloaded{upstream=\"app\"}", 0),
    ] {
        assert_eq!(page.sum(series), value, "{series}");
    }
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"gateway\",reason=\"queue_full\"}",
        1,
    );

    *gate.0.lock().expect("nobody panics with it") = true;
    gate.1.notify_all();
    for connection in [&mut admitted, &mut waiting] {
        assert_eq!(connection.response().text(), "ok");
    }
    wait_until("all places are free", || of_gate(&gateway) == empty);
}

#[test]
fn the_base_latency_of_an_adaptive_limit_is_told_once_it_is_known() {
    let origin = super::answering();
    let protected = forward_everything(&[origin.address], "protect = true");
    let gateway = Gateway::start(&protected);
    let gate = status(&gateway)["upstreams"][0]["concurrency"].clone();
    assert_eq!(
        (&gate["limit"], &gate["base_latency_us"]),
        (&json!(10_000), &Value::Null)
    );
    let page = client::ask_admin(gateway.admin, "/metrics").text();
    assert!(!page.contains("weir_concurrency_base_latency_seconds{"));
    wait_until("the base latency is known", || {
        get_statuses(&gateway, "/", 20);
        status(&gateway)["upstreams"][0]["concurrency"]["base_latency_us"].is_u64()
    });
    metrics(&gateway).sum("weir_concurrency_base_latency_seconds{upstream=\"app\"}");
}

#[test]
fn an_ejected_endpoint_is_told_of_with_the_reason() {
    let (well, sick) = (super::answering(), failing());
    let ejection = "ejection = { consecutive = 3, eject_for = \"1h\" }";
    let gateway = Gateway::start(&forward_everything(&[well.address, sick.address], ejection));
    let places = |gateway: &Gateway| {
        let endpoints = &status(gateway)["upstreams"][0]["endpoints"];
        [0, 1].map(|index| endpoints[index]["place"].clone())
    };
    let present = json!({"state": "in", "ejections": 0, "reason": null});
    assert_eq!(places(&gateway), [present.clone(), present.clone()]);
    assert_eq!(
        status(&gateway)["upstreams"][0]["ejection"],
        json!({"suspended": false})
    );

    // Each second request goes to the sick one, until it is out.
    let statuses = get_statuses(&gateway, "/", 40);
    let failures = statuses.iter().filter(|status| **status == 500).count();
    assert!((3..12).contains(&failures), "{statuses:?}");

    let [first, second] = places(&gateway);
    assert_eq!(first, present);
    assert_eq!(
        (&second["state"], &second["ejections"]),
        (&json!("out"), &json!(1))
    );
    assert_eq!(second["reason"], "consecutive-failures");
    assert!(
        second["remaining_ms"]
            .as_u64()
            .is_some_and(|ms| ms > 2_000_000)
    );
    let page = metrics(&gateway);
    let of = |endpoint: SocketAddr| format!("{{upstream=\"app\",endpoint=\"{endpoint}\"}}");
    for (address, is_out) in [(well.address, 0), (sick.address, 1)] {
        for name in ["weir_endpoint_ejected", "weir_endpoint_ejections_total"] {
            let series = format!("{name}{}", of(address));
            assert_eq!(page.sum(&series), is_out, "{series}");
        }
    }
    assert_eq!(page.sum("weir_ejection_suspended{upstream=\"app\"}"), 0);
}
