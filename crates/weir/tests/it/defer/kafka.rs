//! Queues and Kafka, with a real broker.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::Queued;
use super::sink::Answer;
use super::sink::Sink;
use crate::harness::kafka::Kafka;
use crate::harness::{tool, wait_until};

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
        "X-Trace: abc\r\nContent-Type: application/json\r\nWeir-Id: mine\r\nWeir-Expires-Ms: 1\r\n",
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
    // A client does not say what only weir knows.
    assert_ne!(header("weir-id"), Some("mine"));
    assert_eq!(header("weir-expires-ms"), None);
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

/// A queue that lives in a topic of three partitions, and is delivered to `sink` by a group.
fn in_kafka(kafka: &Kafka, sink: &Sink) -> Queued {
    let route = format!("{ROUTE}upstream = \"sink\"\n");
    let queue = format!(
        "kafka = {{ brokers = [\"{}\"], topic = \"bus\" }}\nbackoff = \"10ms\"",
        kafka.address()
    );
    Queued::start(sink, &queue, &route)
}

/// What of `sent` came, by key: each at least once, in order by first appearance. How many came again.
#[track_caller]
fn all_came(sink: &Sink, sent: &BTreeMap<String, Vec<String>>) -> usize {
    let mut first: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut again = 0;
    for delivered in sink.seen() {
        let path = delivered.head.split(' ').nth(1).expect("a path");
        let of_key = first.entry(path[1..].to_owned()).or_default();
        if of_key.contains(&delivered.body) {
            again += 1;
        } else {
            of_key.push(delivered.body);
        }
    }
    assert_eq!(&first, sent);
    again
}

fn wait_for_all(sink: &Sink, sent: &BTreeMap<String, Vec<String>>) {
    let count: usize = sent.values().map(Vec::len).sum();
    let distinct = || {
        let seen = sink.seen();
        let seen: std::collections::BTreeSet<_> = seen
            .iter()
            .map(|one| {
                (
                    one.head.split(' ').nth(1).map(str::to_owned),
                    one.body.clone(),
                )
            })
            .collect();
        seen.len()
    };
    wait_until(
        &format!("{count} are delivered, not {}", distinct()),
        || distinct() >= count,
    );
}

/// Accepted whatever the broker does, produced, fetched and delivered: all of it, in the order of each key, whoever is killed.
#[test]
fn a_queue_in_kafka_is_delivered_whoever_is_killed() {
    let mut kafka = Kafka::start();
    let sink = Sink::answering(|delivered| {
        // One key fails for a while, and holds up no other.
        let fails = delivered.head.contains("/u3 ") && delivered.attempt < 3;
        Answer::status(if fails { 503 } else { 200 })
    });
    let mut queued = in_kafka(&kafka, &sink);
    let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Each time that somebody is killed, whatever was sent before may come again.
    let mut may_come_again = 0;
    for round in 0..7 {
        for number in 0..60 {
            let user = format!("u{}", number % 6);
            let body = format!("{round} {number}");
            queued.accepted(&format!("/{user}"), &body);
            sent.entry(user).or_default().push(body);
        }
        match round {
            0 => wait_for_all(&sink, &sent),
            1 | 4 => {
                may_come_again += 60 * (round + 1);
                queued.restart();
            }
            2 => {
                may_come_again += 60 * (round + 1);
                kafka.kill();
            }
            3 => {
                wait_until("it is told", || queued.sink("kafka")["is_ill"] == true);
                kafka.restart();
            }
            _ => {}
        }
    }
    wait_for_all(&sink, &sent);
    let again = all_came(&sink, &sent);
    assert!(again <= may_come_again, "{again} came again");
    let delivered = &sink.seen()[0];
    let id = delivered
        .field("weir-id")
        .expect("what a duplicate is told by");
    assert_eq!(id.len(), 36, "{id}");
    assert!(
        delivered.field("weir-upstream").is_none(),
        "{}",
        delivered.head
    );
    // When it has ended in an orderly way, nothing comes again.
    queued.wait_for("waiting", 0);
    assert_eq!(queued.end(), Some(0));
    let before = sink.seen().len();
    queued.restart();
    queued.accepted("/u1", "last");
    sent.get_mut("u1")
        .expect("it is there")
        .push("last".to_owned());
    wait_for_all(&sink, &sent);
    let more: Vec<_> = sink.bodies().split_off(before);
    assert_eq!(more, ["last"]);
}

/// Two share a group. One is killed, and the other delivers what it had.
#[test]
fn two_weirs_share_the_work() {
    let kafka = Kafka::start();
    let slow = |_: &super::sink::Delivered| Answer(200, "", Duration::from_millis(3));
    let sinks = [Sink::answering(slow), Sink::answering(slow)];
    let mut both = [in_kafka(&kafka, &sinks[0]), in_kafka(&kafka, &sinks[1])];
    let mut sent: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut number = 0;
    let mut send = |queued: &Queued, count: usize| {
        for _ in 0..count {
            let (user, body) = (format!("u{}", number % 20), number.to_string());
            queued.accepted(&format!("/{user}"), &body);
            sent.insert((user, body), 0);
            number += 1;
        }
    };
    let has_both = || sinks.iter().all(|sink| !sink.seen().is_empty());
    wait_until("both deliver", || {
        send(&both[0], 20);
        has_both()
    });
    send(&both[0], 300);
    both[1].kill();
    send(&both[0], 100);
    wait_until("all is delivered", || {
        for count in sent.values_mut() {
            *count = 0;
        }
        for delivered in sinks.iter().flat_map(Sink::seen) {
            let path = delivered.head.split(' ').nth(1).expect("a path");
            let key = (path[1..].to_owned(), delivered.body.clone());
            *sent.get_mut(&key).expect("nothing is invented") += 1;
        }
        sent.values().all(|&count| count > 0)
    });
}

/// A record of somebody else is no request that weir has taken.
#[test]
fn what_weir_has_not_produced_is_a_dead_letter() {
    let kafka = Kafka::start();
    let sink = Sink::start();
    let queued = in_kafka(&kafka, &sink);
    queued.accepted("/ann", "ours");
    wait_until("it is delivered", || sink.seen().len() == 1);
    let address = kafka.address().to_string();
    let file = queued.directory.write("record", "theirs");
    let file = file.to_str().expect("UTF-8");
    tool::run(
        "kcat",
        &["-P", "-b", &address, "-t", "bus", "-k", "ann", file],
    );
    queued.wait_for("dead", 1);
    let told = queued.told(&["dead", "list", "events"]);
    assert!(told.contains("weir has not produced it"), "{told}");
    let run = queued.weir_queue(&["replay", "events", "--from", "0"]);
    assert!(run.stderr.contains("weir-events"), "{}", run.stderr);
    assert_eq!(sink.seen().len(), 1);
}
