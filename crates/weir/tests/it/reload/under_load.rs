//! Reloads under load, to and fro between two configurations: no request fails, no WebSocket ends, no count runs back, and
//! memory does not grow. `bench/reload.py` does it a thousand times.

use std::collections::HashMap;

use tungstenite::Message;

use super::{forwarding, responding, upstream};
use crate::failover::Load;
use crate::harness::client;
use crate::harness::{App, Gateway};
use crate::upgrade::websocket::{connect, echo};

const RELOADS: usize = 100;
/// What so many reloads may add to the memory of the gateway, all in all: a snapshot of this size is some 10 KiB.
const ADDED_BYTES_MAX: u64 = 4 << 20;

/// Every counter, by its series.
fn counters(gateway: &Gateway) -> HashMap<String, u64> {
    let page = client::ask_admin(gateway.admin, "/metrics").text();
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let series = lines.filter_map(|line| line.rsplit_once(' '));
    let counters = series.filter(|(name, _)| name.contains("_total") || name.contains("_count"));
    let parsed = counters.map(|(name, value)| (name.to_owned(), value.parse().expect("a count")));
    parsed.collect()
}

#[test]
fn a_hundred_reloads_under_load() {
    let apps = ["a", "b", "c"].map(App::start);
    let [a, b, c] = [0, 1, 2].map(|index: usize| apps[index].address);
    let sockets = echo();
    let common = [
        upstream("sockets", &[sockets.address]),
        forwarding("/chat", "sockets"),
        forwarding("/", "app"),
    ]
    .concat();
    let weighted =
        format!("[upstream.app]\nservers = [{{ address = \"{b}\", weight = 5 }}, \"{c}\"]\n");
    let many: String = (0..50)
        .map(|n| responding(&format!("/one/{n}"), "x"))
        .collect();
    let configs = [
        format!("{}{common}{many}", upstream("app", &[a, b])),
        format!("{weighted}{common}{}", responding("/two", "x")),
    ];
    let gateway = Gateway::start(&configs[0]);
    let mut websockets: Vec<_> = (0..10).map(|_| connect(gateway.address)).collect();
    let load = Load::start(gateway.address, 8);
    let reload = |number: usize| {
        gateway.configure(&configs[number % 2]);
        let told = gateway.reload();
        assert!(told.contains(&format!("server {c} ")), "{told}");
        load.wait_for(20);
    };
    // What the first ones take is not what each takes.
    (1..=20).for_each(reload);
    let resident = gateway.process.resident_bytes();
    let connects = format!("weir_upstream_connects_total{{upstream=\"app\",endpoint=\"{b}\"}}");
    let connected = gateway.metric(&connects);
    let mut before = counters(&gateway);
    for number in 1..=RELOADS {
        reload(number);
        let after = counters(&gateway);
        for (series, was) in &before {
            // Those of what is gone are gone.
            let is = after.get(series);
            assert!(
                is.is_none_or(|is| is >= was),
                "{series} was {was}, is {is:?}"
            );
        }
        before = after;
        let socket = &mut websockets[number % 10];
        socket.send(Message::text("still here")).expect("sent");
        assert_eq!(socket.read().expect("an echo"), Message::text("still here"));
    }
    let opened = gateway.metric(&connects) - connected;
    assert!(
        opened <= 16,
        "{opened} connections were opened to a server that stayed"
    );
    assert_eq!(load.end(), [""; 0]);
    let added = gateway.process.resident_bytes().saturating_sub(resident);
    println!("{RELOADS} reloads add {added} bytes, {opened} connections");
    assert!(added <= ADDED_BYTES_MAX, "{added} bytes were added");
    assert_eq!(
        gateway.metric("weir_config_reloads_total{result=\"refused\"}"),
        0
    );
}

/// A file with a mistake, again and again: the load sees nothing of it.
#[test]
fn bad_files_under_load() {
    let app = App::start("a");
    let good = [upstream("app", &[app.address]), forwarding("/", "app")].concat();
    let gateway = Gateway::start(&good);
    let load = Load::start(gateway.address, 8);
    for _ in 0..20 {
        gateway.configure(&good.replace("[upstream.app]", "[upstream.app]\nbalance = \"best\""));
        let run = gateway.try_reload();
        assert!(
            run.stderr.contains("upstream.app.balance: found \"best\""),
            "{}",
            run.stderr
        );
        load.wait_for(50);
    }
    assert_eq!(load.end(), [""; 0]);
    assert_eq!(gateway.metric("weir_config_generation"), 1);
}
