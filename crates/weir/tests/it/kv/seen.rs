//! What operators see of the store, and ask of it.

mod stale;

use std::fs;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use serde_json::{Value, json};

use super::Node;
use crate::harness::browser::Page;
use crate::harness::client::{Response, ask_admin, send};
use crate::harness::tool::{Run, run_to_end};
use crate::harness::{Gateway, free_port, wait_until};

/// A node with an admin listener.
struct Seen {
    node: Node,
    admin: SocketAddr,
}

impl Deref for Seen {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl DerefMut for Seen {
    fn deref_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

impl Seen {
    /// These keys stand in `[kv]`.
    fn start(store: &str) -> Self {
        let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let node = Node::with("", &format!("{store}[admin]\nlisten = \"{admin}\"\n"));
        node.process.wait_for_port(admin);
        Self { node, admin }
    }

    /// Three nodes that know each other.
    fn three() -> Vec<Self> {
        let addresses: Vec<String> = (0..3)
            .map(|_| format!("\"127.0.0.1:{}\"", free_port()))
            .collect();
        let all = addresses.join(", ");
        let nodes = addresses.iter();
        let nodes: Vec<Self> = nodes
            .map(|node| Self::start(&format!("node = {node}\nnodes = [{all}]\n")))
            .collect();
        for node in &nodes {
            node.wait_for_nodes(3);
        }
        nodes
    }

    fn wait_for_nodes(&self, up: usize) {
        wait_until("it sees who is there", || {
            let nodes = self.nodes();
            nodes.iter().filter(|node| node["is_up"] == true).count() == up
        });
    }

    fn store(&self) -> Value {
        json_of(&ask_admin(self.admin, "/store"))
    }

    fn nodes(&self) -> Vec<Value> {
        self.store()["nodes"].as_array().expect("a list").clone()
    }

    /// What this node says of another one.
    fn says_of(&self, other: &Self) -> Value {
        let address = other.store_address();
        let found = self
            .nodes()
            .into_iter()
            .find(|node| node["address"] == *address);
        found.expect("it is there")
    }

    /// Where the other nodes reach it, which also a config of one that is away says.
    fn store_address(&self) -> String {
        let config = fs::read_to_string(self.directory.file("weir.toml")).expect("it is there");
        let line = config
            .lines()
            .find_map(|line| line.strip_prefix("node = \""));
        line.expect("a node").trim_end_matches('"').to_owned()
    }

    fn kept_for(&self, other: &Self, which: &str) -> u64 {
        let count = self.says_of(other)["hints"][which].as_u64();
        count.expect("a count")
    }

    fn troubles(&self) -> Vec<String> {
        let status = json_of(&ask_admin(self.admin, "/status"));
        let troubles = status["troubles"].as_array().expect("a list").clone();
        let text = |of: &Value, key: &str| of[key].as_str().expect("a text").to_owned();
        troubles
            .iter()
            .map(|it| format!("{}: {}", text(it, "tone"), text(it, "text")))
            .collect()
    }

    fn has_metric(&self, line: &str) -> bool {
        let page = ask_admin(self.admin, "/metrics").text();
        page.lines().any(|own| own == line)
    }

    /// `weir kv …`.
    fn weir_kv(&self, arguments: &[&str]) -> Run {
        let admin = self.admin.to_string();
        let arguments = [&["kv"], arguments, &["--admin", &admin]].concat();
        run_to_end(env!("CARGO_BIN_EXE_weir"), &arguments)
    }

    fn v1(&self, method: &str, key: &str, lines: &str) -> Response {
        self.ask_with(method, &format!("/v1/kv/{key}"), lines, b"")
    }
}

fn json_of(response: &Response) -> Value {
    serde_json::from_slice(&response.body).expect("it is JSON")
}

#[test]
fn what_clients_ask_is_counted_by_what_came_of_it() {
    let node = Seen::start("");
    assert_eq!(node.v1("PUT", "a", "").status, 201);
    let tag = node.v1("GET", "a", "");
    let tag = tag.field("etag").expect("a tag").to_owned();
    let known = format!("If-None-Match: {tag}\r\n");
    assert_eq!(node.v1("GET", "a", &known).status, 304);
    assert_eq!(node.v1("GET", "b", "").status, 404);
    assert_eq!(node.v1("PUT", "a", "If-None-Match: *\r\n").status, 412);
    assert_eq!(node.v1("DELETE", "b", "If-Match: *\r\n").status, 412);
    assert_eq!(node.v1("DELETE", "a", "").status, 204);
    assert_eq!(node.v1("GET", "a", "").status, 404);
    let batch = b"{\"put\": \"c\", \"value\": \"v\"}\n{\"get\": \"c\"}\n{\"get\": \"d\"}\n";
    assert_eq!(node.ask("POST", "/v1/batch", batch).status, 200);
    assert_eq!(node.put("e", b"v"), 201);
    assert_eq!(node.value("e"), Ok("v".to_owned()));
    assert_eq!(node.value("f"), Err(404));
    assert_eq!(node.delete("e"), 202);
    // The lines of a batch are done at once: whether the value was there when it was read, nobody knows.
    let store = node.store();
    let operations = &store["operations"];
    let count = |kind: &str, end: &str| operations[kind][end].as_u64().expect("a count");
    let read = [count("get", "ok"), count("get", "not_found")];
    assert_eq!(read.iter().sum::<u64>(), 8, "{operations}");
    assert!(read[0] >= 3 && read[1] >= 4, "{operations}");
    let outcomes = |ok: u64, unmet: u64| {
        json!({
            "ok": ok, "not_found": 0, "unmet": unmet, "conflict": 0, "too_few": 0, "busy": 0, "refused": 0, "failed": 0,
        })
    };
    assert_eq!(operations["put"], outcomes(3, 1));
    assert_eq!(operations["delete"], outcomes(2, 1));
    assert_eq!(operations["under_way"], 0);
    for line in [
        "weir_store_operations_total{operation=\"put\",outcome=\"ok\"} 3",
        "weir_store_operations_total{operation=\"delete\",outcome=\"unmet\"} 1",
        "weir_store_node_slots{node=\"alone\",rank=\"first\"} 16384",
        "weir_store_node_up{node=\"alone\"} 1",
    ] {
        assert!(node.has_metric(line), "{line}");
    }
    let status = json_of(&ask_admin(node.admin, "/status"));
    assert_eq!(status["store"]["operations"], *operations);
    let shown = node.weir_kv(&["status"]).stdout;
    assert!(shown.contains("node alone, epoch 1"), "{shown}");
}

/// The node that a key is first on, by the placement.
fn first_of(node: &Node, key: &str) -> String {
    let placement = json_of(&node.ask("GET", &format!("/v1/placement?key={key}"), b""));
    let first = placement["key"]["replicas"][0].as_str();
    first.expect("an address").to_owned()
}

#[test]
fn writes_that_another_node_makes_are_counted_where_they_come_in() {
    let nodes = Seen::three();
    let own = nodes[0].store_address();
    let mut others = 0;
    for number in 0..30 {
        let key = format!("k{number}");
        assert_eq!(nodes[0].v1("PUT", &key, "").status, 201);
        others += u64::from(first_of(&nodes[0], &key) != own);
    }
    assert!((1..30).contains(&others), "{others}");
    let operations = nodes[0].store()["operations"].clone();
    assert_eq!(operations["forwarded"], others);
    assert_eq!(operations["put"]["ok"], 30);
    for node in &nodes[1..] {
        assert_eq!(node.store()["operations"]["put"]["ok"], 0);
    }
    let slots = |which: &str| -> u64 {
        let nodes = nodes[0].nodes();
        nodes.iter().filter_map(|node| node[which].as_u64()).sum()
    };
    assert_eq!(
        (slots("first_of"), slots("replica_of")),
        (16_384, 3 * 16_384)
    );
}

const DOWN: &str = "document.querySelectorAll('.slots .down').length";
const ROWS: &str = "document.querySelector('[aria-label=\"Nodes of the store\"]').textContent";

#[test]
fn a_killed_node_is_down_and_what_it_misses_waits_and_goes() {
    let mut nodes = Seen::three();
    let mut page = Page::open(&format!("http://{}/", nodes[0].admin));
    page.wait_for(
        "three nodes are shown",
        &format!("{ROWS}.split('up').length === 4"),
    );
    assert_eq!(page.value(DOWN), 0);
    assert_eq!(
        page.value("document.querySelectorAll('.slots path').length"),
        3
    );
    nodes[2].kill();
    for node in &nodes[..2] {
        node.wait_for_nodes(2);
    }
    assert_eq!(nodes[0].says_of(&nodes[2])["is_up"], false);
    for number in 0..30 {
        assert_eq!(nodes[0].v1("PUT", &format!("k{number}"), "").status, 201);
    }
    let kept = |nodes: &[Seen], which: &str| -> u64 {
        let others = nodes[..2].iter();
        others.map(|node| node.kept_for(&nodes[2], which)).sum()
    };
    wait_until("the hints are on the disk", || {
        kept(&nodes, "waiting") == 30
    });
    let address = nodes[2].store_address();
    let expected = format!(
        "warn: store: 1 of 3 nodes does not answer, {address}; what it misses is kept for it"
    );
    assert!(
        nodes[0].troubles().contains(&expected),
        "{:?}",
        nodes[0].troubles()
    );
    assert!(nodes[0].has_metric(&format!("weir_store_node_up{{node=\"{address}\"}} 0")));
    let shown = nodes[0].weir_kv(&["status"]).stdout;
    let is_down = |line: &str| line.starts_with(&address) && line.contains(" down ");
    assert!(shown.lines().any(is_down), "{shown}");
    page.wait_for(
        "it is shown to be down",
        &format!("{DOWN} === 1 && {ROWS}.includes('down')"),
    );
    nodes[2].restart();
    wait_until("the hints are taken", || {
        kept(&nodes, "waiting") == 0 && kept(&nodes, "taken") == 30
    });
    assert_eq!(nodes[0].troubles(), [""; 0]);
    page.wait_for(
        "it is shown to be up",
        &format!("{DOWN} === 0 && !{ROWS}.includes('down')"),
    );
}

/// Kills the third node, writes keys, and has nothing kept for it.
fn with_missed_writes() -> Vec<Seen> {
    let mut nodes = Seen::three();
    nodes[2].kill();
    for node in &nodes[..2] {
        node.wait_for_nodes(2);
    }
    for number in 0..20 {
        assert_eq!(nodes[0].v1("PUT", &format!("k{number:02}"), "").status, 201);
    }
    for node in &mut nodes[..2] {
        node.kill();
        fs::remove_dir_all(node.directory.file("data/hints")).expect("there are hints");
    }
    nodes
}

#[test]
fn a_read_that_mends_a_replica_is_counted() {
    let mut nodes = with_missed_writes();
    for node in &mut nodes {
        node.restart();
    }
    for node in &nodes {
        node.wait_for_nodes(3);
    }
    assert_eq!(nodes[0].v1("GET", "k00?ack=3&from=3", "").status, 200);
    assert_eq!(nodes[0].store()["operations"]["read_repairs"], 1);
    assert_eq!(nodes[0].v1("GET", "k00?ack=3&from=3", "").status, 200);
    assert_eq!(nodes[0].store()["operations"]["read_repairs"], 1);
}

#[test]
fn a_repair_is_ordered_and_told() {
    let mut nodes = with_missed_writes();
    for node in &mut nodes[1..] {
        node.restart();
    }
    for node in &nodes[1..] {
        node.wait_for_nodes(2);
    }
    let told = nodes[2].weir_kv(&["repair", "--wait"]);
    assert_eq!(
        told.status.code(),
        Some(1),
        "{}{}",
        told.stdout,
        told.stderr
    );
    let away = format!(
        "it is not whole: {} did not answer",
        nodes[0].store_address()
    );
    assert!(told.stdout.contains(&away), "{}", told.stdout);
    assert!(
        nodes[2]
            .troubles()
            .iter()
            .any(|it| it.contains("the last repair is not whole"))
    );
    assert!(nodes[2].has_metric("weir_store_repair_incomplete 1"));
    nodes[0].restart();
    nodes[2].wait_for_nodes(3);
    // Writes of the last moments are left for the next one. Two nodes have them, and each is taken once.
    let mut received = nodes[2].store()["repair"]["received"]
        .as_u64()
        .expect("a count");
    wait_until("a repair brings what was missed", || {
        let told = nodes[2].weir_kv(&["repair", "--wait", "--json"]);
        assert_eq!(told.status.code(), Some(0), "{}", told.stderr);
        let repair: Value = serde_json::from_str(&told.stdout).expect("JSON");
        assert_eq!(repair["is_waiting"], false);
        assert!(
            repair["ended_ms"].as_u64() >= repair["began_ms"].as_u64(),
            "{repair}"
        );
        received += repair["received"].as_u64().expect("a count");
        received >= 20
    });
    assert_eq!(received, 20);
    let own = nodes[2]
        .ask("GET", "/v0/entities?start=k&end=l", b"")
        .text();
    assert_eq!(own.matches('k').count(), 20, "{own}");
    // On a busy machine, a node may be missed for a moment.
    wait_until("nothing is wrong any more", || {
        nodes[2].troubles().is_empty()
    });
}

#[test]
fn only_an_operator_has_a_repair_begin() {
    let node = Seen::start("");
    let ask = |head: &str| send(node.admin, &format!("{head}\r\nContent-Length: 0\r\n\r\n"));
    let json = "Content-Type: application/json";
    let host = format!("Host: {}", node.admin);
    for (head, status) in [
        (format!("GET /store/repair HTTP/1.1\r\n{host}"), 405),
        (format!("POST /store HTTP/1.1\r\n{host}\r\n{json}"), 405),
        (format!("POST /store/repair HTTP/1.1\r\n{host}"), 415),
        (
            format!(
                "POST /store/repair HTTP/1.1\r\n{host}\r\n{json}\r\nOrigin: http://example.com"
            ),
            403,
        ),
        (
            format!("POST /store/repair HTTP/1.1\r\nHost: example.com\r\n{json}"),
            403,
        ),
        (format!("GET /store/other HTTP/1.1\r\n{host}"), 404),
    ] {
        assert_eq!(ask(&head).status, status, "{head}");
    }
    assert_eq!(node.store()["repair"]["began_ms"], 0);
    let begun = ask(&format!("POST /store/repair HTTP/1.1\r\n{host}\r\n{json}"));
    assert_eq!(begun.status, 202);
    let repair = json_of(&begun)["repair"].clone();
    assert!(
        repair["is_waiting"] == true || repair["began_ms"] != 0,
        "{repair}"
    );
    wait_until("it ends", || node.store()["repair"]["ended_ms"] != 0);
}

#[test]
fn a_gateway_without_a_store_says_so() {
    let gateway = Gateway::start("[[route]]\npath = \"/\"\nrespond = {}\n");
    assert_eq!(ask_admin(gateway.admin, "/store").status, 404);
    let status = json_of(&ask_admin(gateway.admin, "/status"));
    assert_eq!(status["store"], Value::Null);
    assert!(
        !ask_admin(gateway.admin, "/metrics")
            .text()
            .contains("weir_store")
    );
    let admin = gateway.admin.to_string();
    for command in ["status", "repair"] {
        let run = run_to_end(
            env!("CARGO_BIN_EXE_weir"),
            &["kv", command, "--admin", &admin],
        );
        assert_eq!(run.status.code(), Some(2));
        assert_eq!(run.stderr, "there is no store: no route has kv = true\n");
    }
}
