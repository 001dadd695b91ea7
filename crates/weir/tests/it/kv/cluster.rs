//! Several nodes: the cases of the course for two and three of them, in both syntaxes, with nodes that are killed and come back.

use super::Node;
use crate::harness::process::Process;
use crate::harness::{free_port, wait_until};

/// Has all nodes connected to each other, so that none is taken for down.
pub(super) fn several(count: usize) -> Vec<Node> {
    let nodes = Node::several(count);
    wait_for(&nodes);
    nodes
}

pub(super) fn wait_for(nodes: &[Node]) {
    let all = nodes.len();
    wait_until("the nodes know each other", || {
        nodes
            .iter()
            .all(|node| node.put(&format!("ready&ack={all}&from={all}"), b"") == 201)
    });
}

/// Starts a killed node again.
fn bring_back(nodes: &mut [Node], which: usize) {
    nodes[which].restart();
    wait_for(nodes);
}

#[test]
fn any_node_answers_for_any_key() {
    let nodes = several(2);
    for (number, node) in (0..).zip(nodes.iter().cycle().take(10)) {
        let key = format!("key{number}&replicas=1/1");
        assert_eq!(node.put(&key, key.as_bytes()), 201);
        for node in &nodes {
            assert_eq!(node.value(&key), Ok(key.clone()));
        }
        assert_eq!(node.delete(&key), 202);
        for node in &nodes {
            assert_eq!(node.value(&key), Err(404));
        }
    }
}

#[test]
fn a_key_with_one_replica_is_on_one_node() {
    let mut nodes = several(2);
    let keys: Vec<String> = (0..12).map(|n| format!("key{n}&ack=1&from=1")).collect();
    for key in &keys {
        assert_eq!(nodes[0].put(key, b"value"), 201);
    }
    let mut found = vec![0; keys.len()];
    for which in 0..2 {
        nodes[1 - which].kill();
        wait_until("the other one is missed", || {
            keys.iter().all(|key| nodes[which].get(key).status != 503)
        });
        for (key, found) in keys.iter().zip(&mut found) {
            *found += usize::from(nodes[which].get(key).status == 200);
        }
        bring_back(&mut nodes, 1 - which);
    }
    assert_eq!(found, vec![1; keys.len()]);
}

#[test]
fn what_does_not_fit_the_cluster_is_400_and_too_few_replicas_are_504() {
    let mut nodes = several(2);
    for wrong in [
        "ack=0&from=2",
        "replicas=0/2",
        "ack=3&from=2",
        "replicas=3/3",
        "from=3",
    ] {
        let key = format!("key&{wrong}");
        assert_eq!(nodes[0].get(&key).status, 400, "{wrong}");
        assert_eq!(nodes[0].put(&key, b""), 400, "{wrong}");
        assert_eq!(nodes[0].delete(&key), 400, "{wrong}");
    }
    nodes[1].kill();
    for enough in ["ack=2&from=2", "replicas=2/2"] {
        let key = format!("key&{enough}");
        assert_eq!(nodes[0].get(&key).status, 504);
        assert_eq!(nodes[0].put(&key, b""), 504);
        assert_eq!(nodes[0].delete(&key), 504);
    }
    assert_eq!(nodes[0].put("key&replicas=1/2", b"here"), 201);
    assert_eq!(nodes[0].value("key&ack=1&from=2"), Ok("here".to_owned()));
}

/// What is done while a node is away, how it is read when that is back, and what is found.
#[test]
fn a_node_that_was_away_answers_what_it_missed() {
    let mut nodes = several(2);
    let (one, two) = ("k&ack=1&from=2", "k&ack=2&from=2");
    assert_eq!(nodes[0].put(two, b"before"), 201);
    for away in [1, 0] {
        let here = 1 - away;
        nodes[away].kill();
        assert_eq!(nodes[here].put(one, b"written"), 201);
        bring_back(&mut nodes, away);
        assert_eq!(nodes[away].value(two), Ok("written".to_owned()));

        nodes[away].kill();
        assert_eq!(nodes[here].delete(one), 202);
        bring_back(&mut nodes, away);
        assert_eq!(nodes[away].value(two), Err(404));

        nodes[away].kill();
        assert_eq!(nodes[here].put(one, b"again"), 201);
        bring_back(&mut nodes, away);
        assert_eq!(nodes[away].value(two), Ok("again".to_owned()));
    }
}

#[test]
fn what_overlaps_is_seen() {
    let nodes = several(3);
    for (write, read) in [
        ("ack=1&from=3", "ack=3&from=3"),
        ("ack=2&from=3", "ack=2&from=3"),
        ("ack=3&from=3", "ack=1&from=3"),
        ("replicas=2/3", "replicas=2/3"),
    ] {
        let (write, read) = (format!("k&{write}"), format!("k&{read}"));
        assert_eq!(nodes[0].put(&write, read.as_bytes()), 201);
        assert_eq!(nodes[1].value(&read), Ok(read.clone()), "{write}");
        assert_eq!(nodes[2].delete(&write), 202);
        assert_eq!(nodes[0].value(&read), Err(404), "{write}");
    }
}

#[test]
fn two_of_three_tolerate_a_failure() {
    let mut nodes = several(3);
    let key = "k&replicas=2/3";
    for away in [0, 1, 2] {
        let (one, other) = ((away + 1) % 3, (away + 2) % 3);
        let value = format!("while {away} was away");
        assert_eq!(nodes[away].put(key, b"before"), 201);
        nodes[away].kill();
        assert_eq!(nodes[one].value(key), Ok("before".to_owned()));
        assert_eq!(nodes[one].put(key, value.as_bytes()), 201);
        assert_eq!(nodes[other].value(key), Ok(value.clone()));
        bring_back(&mut nodes, away);
        assert_eq!(nodes[away].value(key), Ok(value));
        assert_eq!(nodes[other].delete(key), 202);
        assert_eq!(nodes[away].value(key), Err(404));
    }
}

#[test]
fn a_key_is_on_as_many_nodes_as_are_asked_for() {
    let mut nodes = several(3);
    assert_eq!(nodes[0].put("k&replicas=2/2", b"value"), 201);
    let mut found = 0;
    for alone in 0..3 {
        let others = || (0..3).filter(move |other| *other != alone);
        others().for_each(|other| nodes[other].kill());
        wait_until("the others are missed", || {
            [200, 404, 504].contains(&nodes[alone].get("k&replicas=1/2").status)
        });
        found += usize::from(nodes[alone].get("k&replicas=1/2").status == 200);
        others().for_each(|other| nodes[other].restart());
        wait_for(&nodes);
    }
    assert_eq!(found, 2);
}

/// A stopped process still has its connections: what it is sent is taken by the system, and nothing comes back. Once it is missed,
/// a write that needs it ends at once and is nowhere, not even here.
#[test]
fn a_node_that_hangs_is_missed() {
    let nodes = several(2);
    nodes[1].process.signal("STOP");
    let mut number = 0;
    wait_until("it is missed", || {
        number += 1;
        assert_eq!(
            nodes[0].put(&format!("hung{number}&ack=2&from=2"), b""),
            504
        );
        let range = format!("/v0/entities?start=hung{number}&end=hung{number}~");
        nodes[0].ask("GET", &range, b"").text().is_empty()
    });
    nodes[1].process.signal("CONT");
    wait_for(&nodes);
    assert_eq!(nodes[1].value("hung1&ack=2&from=2"), Ok(String::new()));
}

/// What one other node has is asked for by connections of the worker's own, which end when that node hangs or dies.
#[test]
fn a_read_of_one_other_node_ends_whatever_becomes_of_that() {
    let mut nodes = several(2);
    let keys: Vec<String> = (0..12).map(|n| format!("key{n}&ack=1&from=1")).collect();
    for key in &keys {
        assert_eq!(nodes[0].put(key, b"value"), 201);
    }
    let all = |node: &Node| -> Vec<u16> { keys.iter().map(|key| node.get(key).status).collect() };
    let own = |status: &&u16| **status == 200;
    for round in 0..3 {
        // More than once: the connection may not be there for the first.
        for _ in 0..3 {
            assert_eq!(all(&nodes[0]), vec![200; keys.len()]);
        }
        match round {
            0 => nodes[1].process.signal("STOP"),
            _ => nodes[1].kill(),
        }
        for _ in 0..3 {
            let statuses = all(&nodes[0]);
            assert!(statuses.iter().all(|status| [200, 504].contains(status)));
            let there = statuses.iter().filter(own).count();
            assert!((1..keys.len()).contains(&there), "{statuses:?}");
        }
        match round {
            0 => nodes[1].process.signal("CONT"),
            _ => nodes[1].restart(),
        }
        wait_for(&nodes);
    }
}

/// Nobody reads it meanwhile: what a node missed comes to it by itself.
#[test]
fn hints_bring_what_a_node_missed() {
    let mut nodes = several(2);
    nodes[1].kill();
    for number in 0..50 {
        let key = format!("key{number}&ack=1&from=2");
        assert_eq!(nodes[0].put(&key, b"missed"), 201);
    }
    nodes[1].restart();
    let range = |node: &Node| node.ask("GET", "/v0/entities?start=key", b"").text();
    wait_until("the hints are there", || {
        range(&nodes[1]).matches("missed").count() == 50
    });
    assert_eq!(range(&nodes[0]), range(&nodes[1]));
}

/// What a node is that is started with these lines instead of its own.
fn changed(node: &Node, from: &str, to: &str) -> String {
    let config = node.directory.file("weir.toml");
    let text = std::fs::read_to_string(config).expect("it is there");
    assert!(text.contains(from), "{text}");
    text.replace(from, to)
}

#[test]
fn data_is_not_served_as_that_of_another_node() {
    let mut nodes = several(2);
    nodes[0].kill();
    let nodes_of = |node: &Node| {
        let config =
            std::fs::read_to_string(node.directory.file("weir.toml")).expect("it is there");
        let line = config
            .lines()
            .find(|line| line.starts_with("nodes = "))
            .expect("nodes");
        line.to_owned()
    };
    let (all, own) = (nodes_of(&nodes[0]), "node = ");
    let alone = changed(&nodes[0], &all, "");
    let lines = alone.lines().filter(|line| !line.starts_with(own));
    let alone = lines.collect::<Vec<_>>().join("\n");
    nodes[0].directory.write("alone.toml", alone);
    let path = nodes[0].directory.file("alone.toml");
    let path = path.to_str().expect("UTF-8");
    let mut process = Process::weir(&["serve", "--config", path], &nodes[0].directory);
    assert!(!process.wait().success());
    let told = process.output();
    assert!(
        told.contains("the data is of the node 127.0.0.1:"),
        "{told}"
    );
    assert!(told.contains("and the configuration says alone"), "{told}");
}

#[test]
fn nodes_that_do_not_agree_on_who_they_are_say_so_and_do_not_work_together() {
    let (ours, strange) = (Node::several(2), free_port());
    wait_for(&ours);
    let config = ours[1].directory.file("weir.toml");
    let text = std::fs::read_to_string(config).expect("it is there");
    let line = text
        .lines()
        .find(|line| line.starts_with("nodes = "))
        .expect("nodes");
    let more = line.replace(']', &format!(", \"127.0.0.1:{strange}\"]"));
    let mut other = ours;
    other[1].kill();
    let changed = changed(&other[1], line, &more);
    other[1].directory.write("weir.toml", changed);
    std::fs::remove_dir_all(other[1].directory.file("data")).expect("it is there");
    other[1].restart();
    wait_until("it is told", || {
        other[0].process.output().contains(
            "is not asked: it has other nodes, replicas or placement in its configuration",
        )
    });
    assert_eq!(other[0].put("k&ack=2&from=2", b""), 504);
}

/// A ring by MD5, as the first servers of the course had it: the store holds what it promises, and a client is led by the same rule.
#[test]
fn keys_may_be_placed_by_a_ring() {
    let ring = "placement = \"ring-tree\"\nhash = \"md5\"\nvirtual_nodes = 30\n";
    let mut nodes = Node::several_with(3, ring);
    wait_for(&nodes);
    let mut firsts = std::collections::BTreeSet::new();
    for number in 0..60 {
        let key = format!("key{number}");
        assert_eq!(nodes[number % 3].put(&key, key.as_bytes()), 201);
        let told = nodes.iter().map(|node| {
            let placement = node.ask("GET", &format!("/v1/placement?key={key}"), b"");
            let placement = placement.text();
            assert!(
                placement.contains("\"placement\": \"ring-tree\"")
                    && placement.contains("\"hash\": \"md5\""),
                "{placement}"
            );
            let (_, replicas) = placement.split_once("\"replicas\": [").expect("replicas");
            let first = replicas.split('"').nth(1).expect("a node");
            first.to_owned()
        });
        let told: std::collections::BTreeSet<String> = told.collect();
        assert_eq!(told.len(), 1, "{told:?}");
        firsts.extend(told);
    }
    assert_eq!(firsts.len(), 3, "each has a part of the keys");
    nodes[1].kill();
    for number in 0..60 {
        let key = format!("key{number}");
        assert_eq!(nodes[0].value(&key), Ok(key));
    }
}

#[test]
fn a_node_that_places_keys_in_another_way_is_refused() {
    let mut nodes = several(2);
    let config = nodes[0].directory.file("weir.toml");
    let text = std::fs::read_to_string(&config).expect("it is there");
    nodes[0].kill();
    let other = text.replacen("[[route]]", "placement = \"jump\"\n[[route]]", 1);
    std::fs::write(&config, &other).expect("it can be written");
    // Its data was placed in another way, so it does not start with it.
    let path = config.to_str().expect("UTF-8");
    let mut refused = Process::weir(&["serve", "--config", path], &nodes[0].directory);
    assert!(!refused.wait().success());
    let told = refused.output();
    assert!(
        told.contains("the data is of the node ") && told.contains("placed by jump by xxh3"),
        "{told}"
    );
    let data = nodes[0].directory.file("data");
    std::fs::remove_dir_all(data).expect("it is there");
    nodes[0].restart();
    wait_until("it is told", || {
        let told = nodes[0].process.output();
        told.contains(
            "is not asked: it has other nodes, replicas or placement in its configuration",
        )
    });
    assert_eq!(nodes[0].get("key&ack=2&from=2").status, 504);
}
