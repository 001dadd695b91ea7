//! `weir kv` in a shell: pipes that are slow.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::Node;
use super::client::{kv, several};

/// Nodes miss each other, and clients them, after a second.
const SLOW: Duration = Duration::from_millis(2500);

fn begin(node: &Node, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("kv")
        .args(arguments)
        .current_dir(node.directory.file(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

#[test]
fn a_value_may_take_long_to_come() {
    // There is no other one to be asked when the connection is lost.
    let nodes = Node::several(1);
    let mut put = begin(&nodes[0], &["put", "slow"]);
    let mut stdin = put.stdin.take().expect("a pipe");
    stdin.write_all(b"val").expect("it reads");
    thread::sleep(SLOW);
    stdin.write_all(b"ue").expect("it reads");
    drop(stdin);
    assert!(put.wait().expect("it ends").success());
    assert_eq!(kv(&nodes[0], &["get", "slow"]).text(), "value");
}

#[test]
fn whoever_reads_a_scan_may_take_long() {
    let nodes = several();
    let value = "x".repeat(8 << 10);
    for number in 0..300 {
        let target = format!("/v1/kv/k{number:03}");
        assert_eq!(nodes[0].ask("PUT", &target, value.as_bytes()).status, 201);
    }
    let mut scan = begin(&nodes[0], &["scan", "--prefix", "k"]);
    let mut stdout = scan.stdout.take().expect("a pipe");
    let mut text = vec![0; 4096];
    stdout.read_exact(&mut text).expect("it begins");
    thread::sleep(SLOW);
    stdout.read_to_end(&mut text).expect("it goes on");
    assert!(scan.wait().expect("it ends").success());
    assert_eq!(text.len(), 300 * ("k000\t\n".len() + value.len()));
}
