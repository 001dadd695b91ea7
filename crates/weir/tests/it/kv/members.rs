//! Nodes come and go: under load, half-way, and where they may not.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weir_kv::client::{ClientSettings, Members};
use weir_kv::layout::Layout;
use weir_kv::layout::change::{self, Step, Want};

use super::client::{kv, nodes_of};
use super::cluster::several;
use super::{Node, free_address};
use crate::harness::process::Process;
use crate::harness::{free_port, wait_until};

/// Clients that go on all the time.
const CLIENTS: usize = 3;
/// Keys that are there before anything else.
const KEYS: usize = 400;

/// A node that is to join these, and what it is called.
pub(super) fn joining(nodes: &[&Node]) -> (Node, String) {
    let own = format!("127.0.0.1:{}", free_port());
    let others = nodes_of(nodes[0]);
    let mut all: Vec<String> = others.split(',').map(str::to_owned).collect();
    all.push(own.clone());
    let all = format!("{all:?}");
    let store = format!("node = \"{own}\"\nnodes = {all}\njoin = true\n");
    let node = Node::at(free_address(), "", &store);
    node.process.wait_for_port(own.parse().expect("an address"));
    (node, own)
}

/// What a node is called.
pub(super) fn name_of(node: &Node) -> String {
    let text = std::fs::read_to_string(node.directory.file("weir.toml")).expect("a config");
    let line = text.lines().find_map(|line| line.strip_prefix("node = "));
    line.expect("a node").replace('"', "")
}

fn fill(nodes: &[Node]) {
    for (number, node) in (0..KEYS).zip(nodes.iter().cycle()) {
        assert_eq!(node.put(&key(number), format!("v{number}").as_bytes()), 201);
    }
}

fn key(number: usize) -> String {
    format!("k{number:03}")
}

/// All that was there is there, whoever is asked.
fn check(nodes: &[&Node], what: &str) {
    for (number, node) in (0..KEYS).zip(nodes.iter().cycle()) {
        assert_eq!(node.value(&key(number)), Ok(format!("v{number}")), "{what}");
    }
}

/// How many keys a node has itself.
fn own_keys(node: &Node) -> usize {
    let response = node.ask("GET", "/v0/entities?start=k", b"");
    assert_eq!(response.status, 200);
    response.text().matches("\nv").count()
}

/// What clients know of their keys, and which nodes they ask.
struct Clients {
    nodes: Mutex<Vec<SocketAddr>>,
    is_over: AtomicBool,
    /// Requests of each client.
    asked: [AtomicUsize; CLIENTS],
    refused: AtomicUsize,
}

impl Clients {
    fn of(nodes: &[&Node]) -> Self {
        Self {
            nodes: Mutex::new(nodes.iter().map(|node| node.address).collect()),
            is_over: AtomicBool::new(false),
            asked: Default::default(),
            refused: AtomicUsize::new(0),
        }
    }

    fn ask_only(&self, nodes: &[&Node]) {
        *self.nodes.lock().expect("no client panics") =
            nodes.iter().map(|node| node.address).collect();
    }

    /// Writes higher and higher numbers, and reads them: never one that is lower than what was acknowledged.
    fn run(&self, client: usize) {
        let mut rng = fastrand::Rng::with_seed(client as u64);
        let mut acknowledged: HashMap<String, u64> = HashMap::new();
        for number in 1.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let address = {
                let nodes = self.nodes.lock().expect("no client panics");
                nodes[rng.usize(..nodes.len())]
            };
            let key = format!("c{client}-{}", rng.u8(..50));
            let is_put = rng.bool();
            let (method, body) = if is_put {
                ("PUT", number.to_string())
            } else {
                ("GET", String::new())
            };
            let mut connection = crate::harness::client::Connection::open(address);
            let length = body.len();
            connection.send(format!(
                "{method} /v0/entity?id={key} HTTP/1.1\r\nHost: kv\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            ));
            let response = connection.response_to(method).expect("it answers");
            self.asked[client].fetch_add(1, Ordering::Relaxed);
            let known = acknowledged.get(&key).copied();
            match (is_put, response.status) {
                (true, 201) => {
                    acknowledged.insert(key, number);
                }
                (false, 200) => {
                    let found: u64 = response.text().parse().expect("a number");
                    assert!(Some(found) >= known, "{key}: {found} after {known:?}");
                }
                (false, 404) => assert_eq!(known, None, "{key}"),
                _ => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Goes on for so many requests of each client more.
    fn wait_for_more(&self, count: usize) {
        let asked = || {
            self.asked
                .each_ref()
                .map(|asked| asked.load(Ordering::Relaxed))
        };
        let before = asked();
        wait_until("clients go on", || {
            let mut pairs = before.iter().zip(asked());
            pairs.all(|(before, now)| now >= before + count)
        });
    }
}

/// A node comes, one goes, and one that is lost is replaced; what clients write and read meanwhile is never refused and never lost.
#[test]
fn nodes_come_and_go_under_load() {
    let mut nodes = several(3);
    fill(&nodes);
    let clients = Clients::of(&nodes.iter().collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let clients = &clients;
            scope.spawn(move || clients.run(client));
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            come_and_go(&mut nodes, &clients)
        }));
        clients.is_over.store(true, Ordering::Relaxed);
        // Clients ask those that have come until they end.
        match result {
            Ok(come) => nodes.extend(come),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    assert_eq!(clients.refused.load(Ordering::Relaxed), 0);
}

fn come_and_go(nodes: &mut [Node], clients: &Clients) -> [Node; 2] {
    let [first, second, third] = nodes else {
        panic!("three of them");
    };
    let (fourth, name) = joining(&[first, second, third]);
    assert_eq!(fourth.get("k000").status, 503, "it has not joined");
    let refused = kv(first, &["join", &name]);
    assert!(refused.stderr.contains("say --yes"), "{}", refused.stderr);
    let planned = kv(first, &["join", &name, "--plan"]).text();
    assert!(planned.contains("12288"), "{planned}");
    let told = kv(first, &["join", &name, "--yes"]).text();
    assert!(told.contains("done: the cluster has 4 nodes"), "{told}");
    clients.wait_for_more(20);
    check(&[first, second, third, &fourth], "a fourth one has come");
    wait_until("nobody has what it is no replica of", || {
        let counts = [&*first, second, third, &fourth].map(own_keys);
        counts.iter().sum::<usize>() == 3 * KEYS
    });

    clients.ask_only(&[second, third, &fourth]);
    clients.wait_for_more(20);
    let told = kv(second, &["leave", &name_of(first), "--yes"]).text();
    assert!(told.contains("done: the cluster has 3 nodes"), "{told}");
    assert_eq!(first.get("k000").status, 503, "it has left");
    first.kill();
    check(&[second, third, &fourth], "the first one has left");

    clients.ask_only(&[third, &fourth]);
    clients.wait_for_more(20);
    // Whoever asks for it gets no answer in time, but all keys have another two.
    let lost = name_of(second);
    second.kill();
    let (fifth, name) = joining(&[third]);
    let refused = kv(third, &["move", &lost, &name, "--yes"]);
    assert!(
        refused.stderr.contains("does not answer"),
        "{}",
        refused.stderr
    );
    let told = kv(third, &["move", &lost, &name, "--gone", "--yes"]).text();
    assert!(told.contains("done: the cluster has 3 nodes"), "{told}");
    check(&[third, &fourth, &fifth], "the second one is replaced");
    // It does not know that it is lost.
    second.restart();
    assert_eq!(second.put("k000", b"of one that is lost"), 504);
    check(&[third, &fourth, &fifth], "the lost one came back");
    [fourth, fifth]
}

/// Some of the nodes, as an operator's program asks them.
pub(super) fn members(node: &Node) -> (tokio::runtime::Runtime, Members) {
    let nodes = nodes_of(node);
    let nodes = nodes
        .split(',')
        .map(|node| node.parse().expect("an address"));
    let settings = ClientSettings {
        nodes: nodes.collect(),
        secret: String::new(),
        timeout: Duration::from_secs(5),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    (runtime.expect("a runtime"), Members::new(settings))
}

/// Begins to let a node join, and goes no further once all know of it.
pub(super) fn begin_to_join(node: &Node, name: &str) -> Layout {
    let (runtime, members) = members(node);
    let layout = runtime.block_on(members.find());
    let layout = layout.expect("they answer").layout;
    let goal = change::planned(&layout, &Want::Join(name.into()), None).expect("a plan");
    let mut prepared = 0;
    while prepared < 4 {
        match runtime.block_on(members.step(&goal, None)) {
            Step::Tell(told) => prepared += told.len(),
            other => panic!("{other:?}"),
        }
    }
    goal
}

#[test]
fn a_change_that_was_left_half_way_is_taken_back_or_goes_on() {
    let mut nodes = several(3);
    fill(&nodes);
    let (mut fourth, name) = joining(&nodes.iter().collect::<Vec<_>>());
    let address = name.parse().expect("an address");
    begin_to_join(&nodes[0], &name);
    let refused = kv(&nodes[1], &["leave", &name_of(&nodes[0]), "--yes"]);
    assert!(
        refused.stderr.contains("another change is under way"),
        "{}",
        refused.stderr
    );
    // What it has promised outlives a crash, and so does what is written meanwhile.
    nodes[2].restart();
    wait_until("it is back", || nodes[2].put("k000", b"v0") == 201);
    check(&nodes.iter().collect::<Vec<_>>(), "half-way");
    let told = kv(&nodes[0], &["abort"]).text();
    assert!(told.contains("done: the cluster has 3 nodes"), "{told}");
    assert_eq!(fourth.get("k000").status, 503);
    check(&nodes.iter().collect::<Vec<_>>(), "taken back");
    // It may have something that is deleted meanwhile, so it begins anew.
    let refused = kv(&nodes[0], &["join", &name, "--yes"]);
    assert!(
        refused.stderr.contains("empty its directory"),
        "{}",
        refused.stderr
    );
    fourth.kill();
    let config = fourth.directory.file("weir.toml");
    let again = Process::weir(
        &["serve", "--config", config.to_str().expect("UTF-8")],
        &fourth.directory,
    );
    let output = wait_for_end(again);
    assert!(output.contains("empty its directory"), "{output}");
    std::fs::remove_dir_all(fourth.directory.file("data")).expect("it has data");
    fourth.restart();
    fourth.process.wait_for_port(address);

    // The first attempt to join was refused by that node alone.
    let told = kv(&nodes[0], &["abort"]).text();
    assert!(told.contains("the cluster has 3 nodes"), "{told}");
    begin_to_join(&nodes[1], &name);
    fourth.restart();
    fourth.process.wait_for_port(address);
    let told = kv(&nodes[2], &["finish"]).text();
    assert!(told.contains("done: the cluster has 4 nodes"), "{told}");
    let told = kv(&nodes[2], &["finish"]).text();
    assert!(told.contains("no change is under way"), "{told}");
    let mut all: Vec<&Node> = nodes.iter().collect();
    all.push(&fourth);
    check(&all, "it has come");
}

/// The node that decides is lost while a change is under way: the others take it back without it, and let it go.
#[test]
fn a_node_that_is_lost_half_way_does_not_hold_up_the_others() {
    let mut nodes = several(3);
    fill(&nodes);
    let (_fourth, name) = joining(&nodes.iter().collect::<Vec<_>>());
    begin_to_join(&nodes[0], &name);
    nodes.sort_by_key(name_of);
    let mut lost = nodes.remove(0);
    let lost_name = name_of(&lost);
    let refused = kv(&nodes[0], &["abort", "--gone", &lost_name]);
    assert!(refused.stderr.contains("is not lost"), "{}", refused.stderr);
    lost.kill();
    let refused = kv(&nodes[0], &["abort"]);
    assert!(refused.stderr.contains("--gone"), "{}", refused.stderr);
    let told = kv(&nodes[0], &["abort", "--gone", &lost_name]).text();
    assert!(told.contains("done: the cluster has 3 nodes"), "{told}");
    let told = kv(&nodes[1], &["leave", &lost_name, "--gone", "--yes"]).text();
    assert!(told.contains("done: the cluster has 2 nodes"), "{told}");
    check(&nodes.iter().collect::<Vec<_>>(), "one is lost");
}

fn wait_for_end(mut process: Process) -> String {
    process.wait();
    process.output()
}

/// A store of one node becomes the first of a cluster, and that grows to three: a key has as many replicas as there are nodes.
#[test]
fn a_cluster_grows_from_one_node() {
    let mut first = Node::alone("");
    fill(std::slice::from_ref(&first));
    let config = first.directory.file("weir.toml");
    let text = std::fs::read_to_string(&config).expect("a config");
    let own = format!("127.0.0.1:{}", free_port());
    let keys = format!("[kv]\nnode = \"{own}\"\nnodes = [\"{own}\"]\n");
    std::fs::write(&config, text.replace("[kv]\n", &keys)).expect("it is writable");
    first.restart();
    let (second, name) = joining(&[&first]);
    let told = kv(&first, &["join", &name, "--yes"]).text();
    assert!(told.contains("2 nodes, 2 replicas of a key"), "{told}");
    let (third, name) = joining(&[&first]);
    let told = kv(&second, &["join", &name, "--yes"]).text();
    assert!(told.contains("3 nodes, 3 replicas of a key"), "{told}");
    for node in [&first, &second, &third] {
        check(&[node], "of three");
        assert_eq!(own_keys(node), KEYS);
    }
}

#[test]
fn data_of_other_nodes_is_refused() {
    let nodes = several(3);
    let mut node = nodes.into_iter().next().expect("three of them");
    node.kill();
    let config = node.directory.file("weir.toml");
    let text = std::fs::read_to_string(&config).expect("a config");
    let own = name_of(&node);
    let other = format!("127.0.0.1:{}", free_port());
    let nodes = nodes_of(&node);
    for (from, to, says) in [
        (
            nodes.replace(',', "\", \""),
            format!("{own}\", \"{other}"),
            "the data is of the node",
        ),
        (own.clone(), other.clone(), "the data is of the node"),
    ] {
        std::fs::write(&config, text.replace(&from, &to)).expect("it is writable");
        let process = Process::weir(
            &["serve", "--config", config.to_str().expect("UTF-8")],
            &node.directory,
        );
        let output = wait_for_end(process);
        assert!(output.contains(says), "{output}");
    }
    std::fs::write(&config, &text).expect("it is writable");
    node.restart();
}
