//! What is refused, and that nothing has changed by it: requests that fit no store, and nodes whose data is not theirs.

use std::path::Path;

use super::Node;
use super::cluster::several;
use crate::harness::client::{self, Connection};
use crate::harness::process::Process;

/// All that a node has itself.
fn own(node: &Node) -> String {
    node.ask("GET", "/v0/entities?start=%00", b"").text()
}

#[test]
fn what_fits_no_store_is_told_and_changes_nothing() {
    let nodes = several(3);
    let key = |bytes: usize| "k".repeat(bytes);
    let longest = key(1024);
    assert_eq!(nodes[0].put(&format!("{longest}&ack=3&from=3"), b"1"), 201);
    assert_eq!(nodes[1].value(&longest), Ok("1".to_owned()));
    let before: Vec<String> = nodes.iter().map(own).collect();
    let long = key(1025);
    let cases = [
        (format!("/v0/entity?id={long}"), "has 1025 bytes"),
        (format!("/v1/kv/{long}"), "has 1025 bytes"),
        ("/v0/entity?id=".to_owned(), "id is missing"),
        ("/v1/kv/".to_owned(), "key"),
        ("/v0/entity?id=a&id=b".to_owned(), "id is there twice"),
        ("/v0/entity?id=%zz".to_owned(), "the query is broken"),
        ("/v0/entity?id=a&ack=0".to_owned(), "ack is 0"),
        ("/v1/kv/a?ack=0".to_owned(), "ack is 0"),
        ("/v1/kv/a?from=4".to_owned(), "there are 3 nodes"),
        ("/v1/kv/a?ack=3&from=2".to_owned(), "expected 1 to 2"),
        ("/v1/kv/a?replicas=two/3".to_owned(), "ack is no number"),
        ("/v1/kv/a?replicas=2/3&ack=1".to_owned(), "either"),
        ("/v1/kv/a?ack=99999999999999999999".to_owned(), "no number"),
        (
            "/v1/kv/a?tll=5s".to_owned(),
            "tll is no parameter here: there are ttl, replicas, ack, from",
        ),
    ];
    for (target, why) in &cases {
        for method in ["PUT", "DELETE", "GET"] {
            let refused = nodes[2].ask(method, target, b"");
            assert_eq!(refused.status, 400, "{method} {target}");
            let told = refused.text();
            assert!(told.contains(why), "{method} {target}: {told}");
        }
    }
    // One line that cannot be done keeps all of a batch from being begun.
    let batch = format!(
        "{{\"put\": \"a\", \"value\": \"1\"}}\n{{\"put\": \"{long}\", \"value\": \"1\"}}\n"
    );
    let refused = nodes[0].ask("POST", "/v1/batch", batch.as_bytes());
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("1025"), "{}", refused.text());
    assert_eq!(nodes.iter().map(own).collect::<Vec<_>>(), before);
}

/// Also where nobody has said how long it is before it comes.
#[test]
fn a_value_that_is_too_long_is_413_and_changes_nothing() {
    let node = Node::alone("");
    for target in ["/v0/entity?id=key", "/v1/kv/key"] {
        let announced =
            format!("PUT {target} HTTP/1.1\r\nHost: kv\r\nContent-Length: 16777217\r\n\r\n");
        assert_eq!(client::send(node.address, &announced).status, 413);
        let mut connection = Connection::open(node.address);
        let head =
            format!("PUT {target} HTTP/1.1\r\nHost: kv\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.send(head);
        let chunk = [&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat();
        for _ in 0..16 {
            connection.send(&chunk);
        }
        connection.send(b"1\r\nx\r\n0\r\n\r\n");
        assert_eq!(connection.response().status, 413);
        assert_eq!(node.get("key").status, 404);
    }
}

/// Starts a node with a config that it must not start with, and says why it does not.
fn refused(node: &Node, changes: &[(&str, &str)]) -> String {
    let mut text = std::fs::read_to_string(node.directory.file("weir.toml")).expect("it is there");
    for (from, to) in changes {
        assert!(text.contains(from), "{text}");
        text = text.replace(from, to);
    }
    let path = node.directory.write("wrong.toml", text);
    let path = path.to_str().expect("UTF-8");
    let mut process = Process::weir(&["serve", "--config", path], &node.directory);
    assert_eq!(process.wait().code(), Some(1), "{}", process.output());
    process.output()
}

fn line_of<'t>(text: &'t str, key: &str) -> &'t str {
    let mut lines = text.lines();
    lines.find(|line| line.starts_with(key)).expect("a line")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn a_node_does_not_start_with_the_data_of_another_one_and_leaves_it_as_it_is() {
    let mut nodes = several(2);
    for number in 0..20 {
        let key = format!("key{number}&ack=2&from=2");
        assert_eq!(nodes[0].put(&key, b"value"), 201);
    }
    nodes.iter_mut().for_each(Node::kill);
    let data: Vec<String> = nodes
        .iter()
        .map(|node| shown(&node.directory.file("data")))
        .collect();
    // The directory of the other one.
    let told = refused(&nodes[0], &[(&data[0], &data[1])]);
    assert!(
        told.contains(&format!("{}: the data is of the node", data[1])),
        "{told}"
    );
    // Its address, with the own directory.
    let texts: Vec<String> = nodes
        .iter()
        .map(|node| std::fs::read_to_string(node.directory.file("weir.toml")).expect("it is there"))
        .collect();
    let (own, other) = (line_of(&texts[0], "node = "), line_of(&texts[1], "node = "));
    let told = refused(&nodes[0], &[(own, other)]);
    assert!(
        told.contains(&format!("{}: the data is of the node", data[0])),
        "{told}"
    );
    nodes.iter_mut().for_each(Node::restart);
    super::cluster::wait_for(&nodes);
    for number in 0..20 {
        let key = format!("key{number}&ack=2&from=2");
        assert_eq!(nodes[1].value(&key), Ok("value".to_owned()));
    }
}

/// Two processes of one directory would lose what the other one writes.
#[test]
fn a_directory_is_of_one_process_and_of_nothing_else() {
    let node = Node::alone("");
    assert_eq!(node.put("key", b"value"), 201);
    let data = shown(&node.directory.file("data"));
    let listening = format!("\"{}\"", node.address);
    let elsewhere = format!("\"{}\"", super::free_address());
    let moved = (&*listening, &*elsewhere);
    let told = refused(&node, &[moved]);
    assert!(
        told.contains(&format!("{data}: another process has this directory open")),
        "{told}"
    );
    let file = node.directory.write("file", "something else");
    let told = refused(&node, &[moved, (&data, &shown(&file))]);
    assert!(told.contains(&shown(&file)), "{told}");
    assert_eq!(
        std::fs::read(&file).expect("it is there"),
        b"something else"
    );
    assert_eq!(node.value("key"), Ok("value".to_owned()));
}
