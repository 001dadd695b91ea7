//! `weir kv` in a shell: pipes that are slow, and keys that are awkward.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Node;
use super::client::{kv, over_http, several};

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

/// A path cannot have this one, so it goes by a batch, which does the same.
#[test]
fn a_key_that_no_path_has_is_like_any_other() {
    const KEY: &str = "tenant1/../tenant2";
    let node = Node::alone("");
    let weir = |arguments: &[&str]| over_http(&node, arguments);
    assert_eq!(weir(&["get", KEY]).code, 1);
    assert_eq!(weir(&["put", KEY, "x", "--if-match", "*"]).code, 1);
    let absent = ["--if-none-match", "*"];
    let first = weir(&[&["put", KEY, "one", "--ttl", "1h"], &absent[..]].concat()).text();
    let again = weir(&[&["put", KEY, "two"], &absent[..]].concat());
    assert_eq!(again.code, 1);
    let told = format!("the value of {KEY} has the tag {first}");
    assert!(again.stderr.contains(&told), "{again:?}");
    let json: Value = serde_json::from_str(&weir(&["get", KEY, "--json"]).text()).expect("JSON");
    assert_eq!((&json["key"], &json["value"]), (&KEY.into(), &"one".into()));
    assert_eq!(json["etag"], format!("\"{}\"", first.trim()));
    assert!(json["expires_ms"].is_u64(), "{json}");
    // It is nobody else's.
    assert_eq!(weir(&["get", "tenant2"]).code, 1);
    assert_eq!(weir(&["scan"]).text(), format!("{KEY}\tone\n"));
    assert_eq!(weir(&["delete", KEY, "--if-match", first.trim()]).code, 0);
    assert_eq!(weir(&["delete", KEY, "--if-match", first.trim()]).code, 1);
    assert_eq!(weir(&["get", KEY]).code, 1);
}
