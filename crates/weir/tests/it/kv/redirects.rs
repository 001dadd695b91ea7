//! `Prefer: redirect`: who asks the wrong node is told the right one.

use super::Node;
use super::cluster::wait_for;
use crate::harness::client::{Connection, Response};
use crate::harness::wait_until;

const PREFER: &str = "Prefer: respond-async, redirect\r\n";

fn with_urls() -> Vec<Node> {
    let nodes = Node::several_at(3, |addresses| {
        let urls: Vec<String> = addresses
            .iter()
            .map(|at| format!("\"http://{at}\""))
            .collect();
        format!("urls = [{}]\n", urls.join(", "))
    });
    wait_for(&nodes);
    nodes
}

/// Which of the nodes a redirect leads to; it keeps the target.
fn led_to(nodes: &[Node], target: &str, response: &Response) -> usize {
    assert_eq!(response.status, 307, "{}", response.text());
    for (name, value) in [("preference-applied", "redirect"), ("vary", "Prefer")] {
        assert_eq!(response.field(name), Some(value));
    }
    let location = response.field("location").expect("a location");
    let is_it = |node: &Node| location == format!("http://{}{target}", node.address);
    let led_to = nodes.iter().position(is_it);
    led_to.unwrap_or_else(|| panic!("{location} is no node"))
}

#[test]
fn each_key_is_answered_by_one_node_and_the_others_lead_there() {
    let nodes = with_urls();
    let mut owned = [0; 3];
    for number in 0..20 {
        for target in [
            format!("/v0/entity?id=key%20{number}&ack=2&from=3"),
            format!("/v1/kv/dir/key%20{number}?ack=2"),
        ] {
            for method in ["PUT", "GET", "DELETE"] {
                let ask = |node: &Node| node.ask_with(method, &target, PREFER, b"value");
                let answers: Vec<Response> = nodes.iter().map(ask).collect();
                let is_answered = |answer: &Response| answer.status < 300;
                let owner = answers.iter().position(is_answered).expect("an owner");
                owned[owner] += 1;
                for (which, answer) in answers.iter().enumerate() {
                    if which != owner {
                        assert_eq!(led_to(&nodes, &target, answer), owner, "{method} {target}");
                    }
                }
            }
        }
    }
    assert!(owned.iter().all(|count| *count > 0), "{owned:?}");
    // Whoever does not ask for it is answered by any node, and so are requests for more than a key.
    for node in &nodes {
        assert_eq!(node.ask("PUT", "/v1/kv/k", b"").status, 201);
        let other = node.ask_with("PUT", "/v1/kv/k", "Prefer: redirect=never\r\n", b"");
        assert_eq!(other.status, 201);
        assert_eq!(node.ask_with("GET", "/v1/range", PREFER, b"").status, 200);
    }
}

#[test]
fn nobody_is_led_to_a_node_that_is_down() {
    let mut nodes = with_urls();
    let target = "/v1/kv/key";
    let put = |node: &Node| node.ask_with("PUT", target, PREFER, b"value");
    let owner = nodes
        .iter()
        .position(|node| put(node).status == 201)
        .expect("an owner");
    nodes[owner].kill();
    let left: Vec<usize> = (0..3).filter(|which| *which != owner).collect();
    wait_until("it is missed", || {
        let answers = left.iter().map(|which| put(&nodes[*which]));
        let answers: Vec<Response> = answers.collect();
        answers.iter().any(|answer| answer.status == 201)
            && answers
                .iter()
                .filter(|answer| answer.status == 307)
                .all(|answer| led_to(&nodes, target, answer) != owner)
    });
}

/// A client that is slow holds up the end of a node. Nobody else gets through to that, and it still makes the writes of its keys.
#[test]
fn nobody_is_led_to_a_node_that_drains() {
    let nodes = with_urls();
    let target = "/v1/kv/key";
    let put = |node: &Node| node.ask_with("PUT", target, PREFER, b"value");
    let owner = nodes.iter().position(|node| put(node).status == 201);
    let owner = owner.expect("an owner");
    let mut slow = Connection::open(nodes[owner].address);
    slow.send("PUT /v1/kv/slow HTTP/1.1\r\nHost: kv\r\nContent-Length: 4\r\n\r\nha");
    // It has been read when what came after it is answered.
    assert_eq!(put(&nodes[owner]).status, 201);
    nodes[owner].process.signal("TERM");
    let others = || (0..3).filter(|which| *which != owner);
    wait_until("the others answer themselves", || {
        others().all(|which| put(&nodes[which]).status == 201)
    });
    slow.send("lf");
    assert_eq!(slow.response().status, 201);
}

#[test]
fn without_urls_any_node_answers() {
    let nodes = super::cluster::several(3);
    for node in &nodes {
        let put = node.ask_with("PUT", "/v1/kv/key", PREFER, b"value");
        assert_eq!((put.status, put.field("location")), (201, None));
    }
}
