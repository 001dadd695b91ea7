//! One node: the cases by which a course on services under high load tests such a store, and what they leave out.

use serde_json::Value;

use super::Node;
use crate::harness::client::{self, ask_admin, send};
use crate::harness::process::Process;
use crate::harness::tool::run_to_end;
use crate::harness::{Directory, Gateway};

fn value(seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..1024).map(|_| rng.u8(..)).collect()
}

#[test]
fn a_node_is_up_when_it_listens() {
    let node = Node::alone("");
    assert_eq!(node.ask("GET", "/v0/status", b"").status, 200);
}

#[test]
fn bad_requests_are_told_apart() {
    let node = Node::alone("");
    for (method, target, status) in [
        ("GET", "/v0/entity?id=", 400),
        ("PUT", "/v0/entity?id=", 400),
        ("DELETE", "/v0/entity?id=", 400),
        ("GET", "/v0/entity", 400),
        ("GET", "/v0/abracadabra", 400),
        ("POST", "/v0/entity?id=key", 405),
        ("PATCH", "/v0/entity?id=key", 405),
        ("GET", "/v0/entity?id=key&ack=2&from=2", 400),
        ("GET", "/v0/entities?start=", 400),
        ("GET", "/abracadabra", 404),
    ] {
        let response = node.ask(method, target, b"");
        assert_eq!(
            response.status,
            status,
            "{method} {target}: {}",
            response.text()
        );
    }
}

#[test]
fn what_is_put_is_found_until_it_is_deleted() {
    let node = Node::alone("");
    assert_eq!(node.get("absent").status, 404);
    assert_eq!(node.delete("absent"), 202);
    let (one, two) = (value(1), value(2));
    assert_eq!((node.put("one", &one), node.put("two", &two)), (201, 201));
    assert_eq!((node.get("one").status, node.get("one").body), (200, one));
    assert_eq!(node.get("two").body, two);
    assert_eq!(node.put("one", &two), 201);
    assert_eq!(node.get("one").body, two);
    assert_eq!(node.put("one", b""), 201);
    let empty = node.get("one");
    assert_eq!((empty.status, empty.body), (200, Vec::new()));
    assert_eq!(node.delete("one"), 202);
    assert_eq!((node.get("one").status, node.get("two").status), (404, 200));
    assert_eq!(node.put("one", b"again"), 201);
    assert_eq!(node.get("one").text(), "again");
}

#[test]
fn what_was_put_outlives_the_process_and_not_its_directory() {
    let mut node = Node::alone("");
    let kept = value(3);
    assert_eq!((node.put("kept", &kept), node.delete("gone")), (201, 202));
    node.restart();
    assert_eq!(
        (node.get("kept").body, node.get("gone").status),
        (kept, 404)
    );
    node.process.kill();
    std::fs::remove_dir_all(node.directory.file("data")).expect("it is there");
    node.restart();
    assert_eq!(node.get("kept").status, 404);
}

#[test]
fn a_head_has_the_length_of_the_value_and_a_long_value_comes_whole() {
    let node = Node::alone("");
    let long: Vec<u8> = value(4).repeat(3000);
    assert_eq!(node.put("long", &long), 201);
    assert_eq!(node.get("long").body, long);
    let head = node.ask("HEAD", "/v0/entity?id=long", b"");
    let length = long.len().to_string();
    assert_eq!(head.field("content-length"), Some(&*length));
    // It is refused by what it says, before any of it has come.
    let length = (16 << 20) + 1;
    let too_long =
        format!("PUT /v0/entity?id=long HTTP/1.1\r\nHost: kv\r\nContent-Length: {length}\r\n\r\n");
    assert_eq!(client::send(node.address, &too_long).status, 413);
    assert_eq!(node.get("long").body, long);
}

#[test]
fn a_range_is_in_the_order_of_keys_and_leaves_out_what_is_deleted() {
    let node = Node::alone("");
    for (key, value) in [("c", "3"), ("a", "1"), ("d", "4"), ("b", "")] {
        assert_eq!(node.put(key, value.as_bytes()), 201);
    }
    let range = |query: &str| {
        let response = node.ask("GET", &format!("/v0/entities?{query}"), b"");
        assert_eq!(response.status, 200, "{query}");
        response.text()
    };
    assert_eq!(range("start=a"), "a\n1b\nc\n3d\n4");
    assert_eq!(range("start=b&end=d"), "b\nc\n3");
    assert_eq!(range("start=b&end=b"), "");
    assert_eq!(range("start=x"), "");
    node.delete("c");
    assert_eq!(range("start=b"), "b\nd\n4");
}

#[test]
fn a_range_is_longer_than_what_is_held_of_it() {
    let node = Node::alone("");
    let value = value(5).repeat(64);
    for number in 0..200 {
        assert_eq!(node.put(&format!("key{number:04}"), &value), 201);
    }
    let response = node.ask("GET", "/v0/entities?start=key", b"");
    let length = 200 * ("key0000\n".len() + value.len());
    assert_eq!((response.status, response.body.len()), (200, length));
}

#[test]
fn a_second_process_is_refused() {
    let node = Node::alone("");
    let config = node.directory.file("weir.toml");
    let text = std::fs::read_to_string(&config).expect("it is there");
    let port = node.address.port().to_string();
    let other = crate::harness::free_port().to_string();
    let second = node
        .directory
        .write("second.toml", text.replace(&port, &other));
    let second = second.to_str().expect("UTF-8");
    let mut process = Process::weir(&["serve", "--config", second], &node.directory);
    assert!(!process.wait().success());
    let told = process.output();
    assert!(
        told.contains("another process has this directory open"),
        "{told}"
    );
    assert_eq!(node.put("key", b"still here"), 201);
}

/// Files have no room from some moment on, by the system's limit.
#[test]
fn a_disk_that_takes_nothing_is_told() {
    let directory = Directory::new();
    let path = directory.file("data");
    let config = format!(
        "[kv]\nengine = {{ path = \"{}\" }}\n[[route]]\npath = \"/v0/{{*rest}}\"\nkv = true\n",
        path.display()
    );
    let gateway = Gateway::start_limited(&config, "trap '' XFSZ");
    let put = || {
        let request = "PUT /v0/entity?id=k HTTP/1.1\r\nHost: kv\r\nContent-Length: 0\r\n\r\n";
        send(gateway.address, request).status
    };
    let store = || -> Value {
        let answer = ask_admin(gateway.admin, "/store");
        serde_json::from_slice(&answer.body).expect("it is JSON")
    };
    let has_trouble = || {
        let status = ask_admin(gateway.admin, "/status").text();
        status.contains("store: this node writes nothing: ")
    };
    assert_eq!((put(), store()["failing"].clone()), (201, Value::Null));
    assert!(!has_trouble());
    gateway.wait_for_metric("weir_store_failing", 0);
    let pid = gateway.process.pid().to_string();
    let limited = run_to_end("prlimit", &["--pid", &pid, "--fsize=0:unlimited"]);
    assert!(limited.status.success(), "{}", limited.stderr);
    assert_eq!(put(), 503);
    assert!(has_trouble());
    gateway.wait_for_metric("weir_store_failing", 1);
    let admin = gateway.admin.to_string();
    let shown = run_to_end(
        env!("CARGO_BIN_EXE_weir"),
        &["kv", "status", "--admin", &admin],
    );
    let why = store()["failing"].as_str().expect("a text").to_owned();
    let says = format!("this node writes nothing: {why}\n");
    assert!(shown.stdout.contains(&says), "{}", shown.stdout);
}
