//! How many copies of requests an upstream gets that fails everything.

use super::saying;
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything};

/// A fifth of the requests, and 15 more. Nothing that a test does is a minute ago.
const FIFTH: &str = "retry_budget = { ratio = 0.2, min_per_s = 0.25, ttl = \"60s\" }\n";
const RETRY: &str = "retry = { attempts = 3, backoff = \"1ms\" }\n";

/// However it fails them: 200 requests are 40 more and 15 more, not one over.
#[test]
fn an_origin_that_fails_everything_gets_a_fifth_more() {
    let closing = || Origin::start(|mut peer, _| drop(peer.head()));
    for (origin, status) in [(saying(503, "sorry"), 503), (closing(), 502)] {
        // Two workers, and one budget.
        let forward = forward_everything(&[origin.address], FIFTH);
        let gateway = Gateway::start(&format!("{forward}{RETRY}"));
        let clients = (0..4).map(|_| {
            let address = gateway.address;
            std::thread::spawn(move || {
                let mut connection = Connection::open(address);
                (0..50).all(|_| connection.get("/").status == status)
            })
        });
        let clients: Vec<_> = clients.collect();
        for client in clients {
            assert!(client.join().expect("it reads every answer"));
        }
        assert_eq!(origin.heads_waiting(), 255, "{status}");
        assert_eq!(gateway.metric("weir_upstream_retries_total"), 55);
        let refused = gateway.metric("weir_upstream_retries_refused_total");
        assert!(
            (145..=200).contains(&refused),
            "{refused} were not sent again"
        );
    }
}

/// A reload that changes something else does not fill the budget again; one that changes the budget does.
#[test]
fn a_budget_outlives_a_reload() {
    let origin = saying(503, "sorry");
    let config = |retries_per_s: &str, more: &str| {
        let budget = format!(
            "retry_budget = {{ ratio = 0.0, min_per_s = {retries_per_s}, ttl = \"60s\" }}\n"
        );
        let forward = forward_everything(&[origin.address], &budget);
        format!("{forward}{RETRY}{more}")
    };
    let gateway = Gateway::start(&config("0.05", ""));
    let heads_of_two_requests = || {
        client::get(gateway.address, "/");
        client::get(gateway.address, "/");
        origin.heads_waiting()
    };
    assert_eq!(heads_of_two_requests(), 5, "there were three retries");
    gateway.configure(&config(
        "0.05",
        "rate = { requests = 1000, per = \"1s\" }\n",
    ));
    gateway.reload();
    assert_eq!(heads_of_two_requests(), 2);
    gateway.configure(&config("0.1", ""));
    gateway.reload();
    assert_eq!(heads_of_two_requests(), 6);
}
