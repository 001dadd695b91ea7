//! Queues and Kafka, with a real broker.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Queued;
use super::sink::Sink;
use crate::harness::kafka::Kafka;
use crate::harness::wait_until;

const ROUTE: &str =
    "[[route]]\npath = \"/{user}\"\ndefer = { queue = \"events\", key = \"path:user\" }\n";

fn to_topic(kafka: &Kafka, more: &str) -> Queued {
    let address = kafka.address();
    let queue = format!(
        "[queue.events.sink.bus]\nkafka = {{ brokers = [\"{address}\"], topic = \"bus\"{more} }}"
    );
    Queued::start(&Sink::start(), &queue, ROUTE)
}

fn headers(record: &Value) -> BTreeMap<String, String> {
    let headers = record["headers"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let pairs = headers
        .chunks(2)
        .map(|pair| (text(&pair[0]), text(&pair[1])));
    pairs.collect()
}

/// A consumer that is not ours reads what was deferred: key, headers and content. The broker is killed meanwhile, and weir is.
#[test]
fn anybodys_consumer_reads_what_was_deferred() {
    let mut kafka = Kafka::start();
    let mut queued = to_topic(&kafka, "");
    let sent = queued.post_with(
        "/ann?x=1",
        "X-Trace: abc\r\nContent-Type: application/json\r\n",
        "{\"a\":1}",
    );
    assert_eq!(sent.status, 202);
    queued.wait_for_sink("bus");
    let records = kafka.records("bus");
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["key"], "ann");
    assert_eq!(records[0]["payload"], "{\"a\":1}");
    let headers = headers(&records[0]);
    let header = |name: &str| headers.get(name).map(String::as_str);
    assert_eq!(header(":method"), Some("POST"));
    assert_eq!(header(":path"), Some("/ann?x=1"));
    assert_eq!(header("x-trace"), Some("abc"));
    assert_eq!(header("content-type"), Some("application/json"));
    assert_eq!(header("weir-queue"), Some("events"));
    assert_eq!(header("weir-offset"), Some("0"));
    // While the broker is away the queue keeps what comes.
    let mut sent: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let users = ["/u1", "/u2", "/u3", "/u4", "/u5"];
    for round in 0..5 {
        for number in 0..100 {
            let user = users[number % users.len()];
            let body = format!("{round} {number}");
            queued.accepted(user, &body);
            sent.entry(&user[1..]).or_default().push(body);
        }
        match round {
            1 => kafka.kill(),
            2 => {
                wait_until("it is told", || queued.sink("bus")["is_ill"] == true);
                kafka.restart();
            }
            3 => queued.restart(),
            _ => {}
        }
    }
    queued.wait_for_sink("bus");
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut again = 0;
    for record in kafka
        .records("bus")
        .iter()
        .skip_while(|record| record["key"] == "ann")
    {
        let text = |name: &str| record[name].as_str().expect("a text").to_owned();
        let (key, body) = (text("key"), text("payload"));
        if key == "ann" {
            continue;
        }
        let of_key = seen.entry(key).or_default();
        if of_key.contains(&body) {
            again += 1;
        } else {
            of_key.push(body);
        }
    }
    for (user, bodies) in &sent {
        assert_eq!(seen.get(*user), Some(bodies), "{user}, in its order");
    }
    assert!(again <= 300, "{again} records are there twice");
}

/// What no broker would take is a dead letter, and what is behind it is produced.
#[test]
fn a_record_that_is_too_large_is_a_dead_letter() {
    let kafka = Kafka::start();
    let queued = to_topic(&kafka, ", options = { \"message.max.bytes\" = \"2000\" }");
    queued.accepted("/ann", &"a".repeat(3000));
    queued.accepted("/ann", "small");
    queued.wait_for_sink("bus");
    let records = kafka.records("bus");
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["payload"], "small");
    let told = queued.told(&["dead", "list", "events/bus"]);
    assert!(told.contains("message.max.bytes"), "{told}");
}
