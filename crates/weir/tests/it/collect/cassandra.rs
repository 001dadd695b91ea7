//! A table of a real Cassandra.

use serde_json::json;

use super::{Collector, holds, kill_while_clients_post};
use crate::harness::cassandra::Cassandra;
use crate::harness::wait_until;
use crate::kv::keyspace;

/// All in one, since a node takes long to start.
#[test]
fn events_are_kept_and_read_back() {
    let mut cassandra = Cassandra::start();
    keyspace(&cassandra);
    let start = |table: &str, more: &str| {
        let engine = format!(
            "cassandra = {{ nodes = [\"{}\"], table = \"weir.{table}\" }}",
            cassandra.address()
        );
        Collector::start(|_| engine, more)
    };
    holds(&mut start("alone", "batch = 1"));
    let mut collector = start("activities", "");
    holds(&mut collector);
    let other = start("activities", "batch = { events = 100, wait = \"20ms\" }");
    assert_eq!(other.find("user_id=tim&last=1000").len(), 250);
    // Of one name, the last stays, also in one statement, and whichever is greater.
    let again = |data| json!({ "user_id": "two", "id": "same", "timestamp": 5, "data": data });
    for (first, last) in [(1, 2), (2, 1)] {
        collector.post(&json!([again(first), again(last)]));
        assert_eq!(other.parts("user_id=two", "data"), [json!(last)]);
    }
    // More than goes into one statement.
    let long = "x".repeat(20_000);
    let events: Vec<_> = (0..20)
        .map(|_| json!({ "user_id": "long", "data": long }))
        .collect();
    assert_eq!(collector.post(&json!(events)).len(), 20);
    assert_eq!(other.parts("user_id=long", "data"), vec![json!(long); 20]);
    kill_while_clients_post(&mut collector, 0);
    let kept = collector.post(&json!({ "user_id": "kept" }));
    cassandra.kill();
    let refused = collector.ask("POST", "", "", "{\"user_id\": \"refused\"}");
    assert_eq!(refused.status, 503, "{}", refused.text());
    cassandra.restart();
    wait_until("it answers again", || {
        collector.ask("GET", "?user_id=kept", "", "").status == 200
    });
    assert_eq!(collector.parts("user_id=kept", "id"), [json!(kept[0])]);
}
