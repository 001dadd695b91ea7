//! Hints, repair, and what is deleted and forgotten.

use std::fs;
use std::thread;
use std::time::Duration;

use super::Node;
use super::cluster::{several, wait_for};
use crate::harness::wait_until;

/// One replica, which the node reads from its own engine.
pub(super) fn own(node: &Node, key: &str) -> Result<String, u16> {
    // A range of a node alone tells what it has itself.
    let response = node.ask("GET", &format!("/v0/entities?start={key}&end={key}~"), b"");
    assert_eq!(response.status, 200);
    let text = response.text();
    let value = text.strip_prefix(&format!("{key}\n"));
    value.map(str::to_owned).ok_or(404)
}

#[test]
fn hints_outlive_the_node_that_keeps_them() {
    let mut nodes = several(3);
    nodes[2].kill();
    for number in 0..50 {
        wait_until("two of three take it", || {
            nodes[0].put(&format!("h{number:02}"), b"value") == 201
        });
    }
    assert_eq!(nodes[0].delete("h00"), 202);
    // What is kept for the third one is on the disk of the first by now, or soon.
    thread::sleep(Duration::from_millis(300));
    nodes[0].restart();
    nodes[1].kill();
    nodes[2].restart();
    wait_until("the third one has what it missed", || {
        (1..50).all(|number| own(&nodes[2], &format!("h{number:02}")) == Ok("value".to_owned()))
    });
}

/// A cluster whose nodes have these keys besides.
fn with(more: &str) -> Vec<Node> {
    let nodes = Node::several_with(3, more);
    wait_for(&nodes);
    nodes
}

#[test]
fn repair_makes_replicas_alike() {
    let mut nodes = with("repair = \"1s\"\n");
    for number in 0..300 {
        assert_eq!(
            nodes[0].put(&format!("r{number:03}&ack=3&from=3"), b"old"),
            201
        );
    }
    nodes[2].kill();
    for number in (0..300).step_by(7) {
        wait_until("two of three take it", || {
            nodes[0].put(&format!("r{number:03}"), b"new") == 201
        });
    }
    for number in (1..300).step_by(7) {
        assert_eq!(nodes[1].delete(&format!("r{number:03}")), 202);
    }
    for node in &mut nodes[..2] {
        // Without the hints, which would do it as well.
        node.kill();
        fs::remove_dir_all(node.directory.file("data/hints")).expect("there are hints");
    }
    for node in &mut nodes {
        node.restart();
    }
    wait_until("the third one has all", || {
        (0..300).all(|number| {
            let expected = match number % 7 {
                0 => Ok("new".to_owned()),
                1 => Err(404),
                _ => Ok("old".to_owned()),
            };
            own(&nodes[2], &format!("r{number:03}")) == expected
        })
    });
}

/// The first byte of a cell says its form; all keys of the tree are counted by what is stored, so a forgotten one is no longer
/// in any file once it is compacted. What is seen from outside is that an older value, brought from elsewhere, is taken again.
#[test]
fn a_deletion_is_remembered_until_all_replicas_have_it() {
    let mut nodes = with("repair = \"1s\"\ntombstones = \"1s\"\n");
    for number in 0..40 {
        assert_eq!(
            nodes[0].put(&format!("d{number:02}&ack=3&from=3"), b"value"),
            201
        );
    }
    nodes[2].kill();
    for number in 0..40 {
        wait_until("two of three take it", || {
            nodes[0].delete(&format!("d{number:02}")) == 202
        });
    }
    // Longer than deletions are kept: they are remembered all the same, since the third one does not know of them.
    thread::sleep(Duration::from_secs(8));
    for node in &mut nodes[..2] {
        node.kill();
        let _ = fs::remove_dir_all(node.directory.file("data/hints"));
    }
    for node in &mut nodes {
        node.restart();
    }
    wait_for(&nodes);
    wait_until("they are deleted on the third one, too", || {
        (0..40).all(|number| own(&nodes[2], &format!("d{number:02}")) == Err(404))
    });
    for number in 0..40 {
        for node in &nodes {
            assert_eq!(node.value(&format!("d{number:02}")), Err(404), "{number}");
        }
    }
}
