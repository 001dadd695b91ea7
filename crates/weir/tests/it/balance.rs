//! Spreading: requests over endpoints by weight, connections over workers.

use std::collections::BTreeMap;

use crate::harness::client::{self, Connection};
use crate::harness::{App, Gateway, wait_until};

/// 100 requests over weights 5, 1, 1: each endpoint gets its share to within one request, though two workers
/// balance without knowing of each other.
#[test]
fn requests_follow_the_weights() {
    let apps = [App::start("a"), App::start("b"), App::start("c")];
    let [a, b, c] = [&apps[0], &apps[1], &apps[2]].map(|app| app.address);
    let gateway = Gateway::start(&format!(
        "[upstream.app]\nservers = [{{ address = \"{a}\", weight = 5 }}, \"{b}\", \"{c}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\n"
    ));
    let mut served = BTreeMap::<String, i32>::new();
    for _ in 0..100 {
        let response = client::get(gateway.address, "/");
        assert_eq!(response.status, 200);
        *served
            .entry(response.field("x-served-by").expect("a name").to_owned())
            .or_default() += 1;
    }
    for (name, share) in [("a", 72), ("b", 14), ("c", 14)] {
        assert!((served[name] - share).abs() <= 1, "{served:?}");
    }
}

/// Six long-lived connections on two workers: none has more than four.
#[test]
fn long_lived_connections_are_spread_over_workers() {
    let app = App::start("a");
    let gateway = Gateway::to(&[app.address]);
    for _ in 0..5 {
        let mut connections: Vec<_> = (0..6).map(|_| Connection::open(gateway.address)).collect();
        for connection in &mut connections {
            assert_eq!(connection.get("/healthz").status, 200);
        }
        let on =
            |worker| gateway.metric(&format!("weir_client_connections{{worker=\"{worker}\"}}"));
        assert!(
            on(0) <= 4 && on(1) <= 4 && on(0) + on(1) == 6,
            "{} and {}",
            on(0),
            on(1)
        );
        drop(connections);
        wait_until("the connections are gone", || on(0) + on(1) == 0);
    }
}
