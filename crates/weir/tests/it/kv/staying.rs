//! What clients of nodes that stay notice while others come and go: nothing. And what an operator is told of changes that do not go on.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use weir_kv::frame::Change;
use weir_kv::layout::change::{self, Step};

use super::client::kv;
use super::cluster::{several, wait_for};
use super::members::{begin_to_join, joining, members};
use super::{Node, free_address};
use crate::harness::client::Connection;
use crate::harness::wait_until;

const CLIENTS: usize = 3;

/// The status of a request, and what came with it.
fn ask(node: SocketAddr, method: &str, key: &str, line: &str) -> (u16, String) {
    let mut connection = Connection::open(node);
    let body = if method == "PUT" { "value" } else { "" };
    let length = body.len();
    connection.send(format!(
        "{method} /v1/kv/{key} HTTP/1.1\r\nHost: kv\r\nContent-Length: {length}\r\n{line}Connection: close\r\n\r\n{body}"
    ));
    let response = connection.response_to(method).expect("it answers");
    (response.status, response.text())
}

fn only_if_there_is_none(node: SocketAddr, key: &str) -> (u16, String) {
    ask(node, "PUT", key, "If-None-Match: *\r\n")
}

/// Writes each key once, sees that it is not written again, and reads it; until it is over. Says what went wrong.
fn write_and_read(client: usize, nodes: &[SocketAddr], is_over: &AtomicBool) -> Vec<String> {
    let (mut rng, mut wrong) = (fastrand::Rng::with_seed(client as u64), Vec::new());
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("c{client}-{number}");
        let mut node = || nodes[rng.usize(..nodes.len())];
        for (what, told, expected) in [
            ("first", only_if_there_is_none(node(), &key), 201),
            ("second", only_if_there_is_none(node(), &key), 412),
            ("read", ask(node(), "GET", &key, ""), 200),
        ] {
            if told.0 != expected {
                wrong.push(format!("{what} {key}: {told:?}"));
            }
        }
    }
    wrong
}

/// A node comes and goes while clients ask the others, with keys on so many nodes.
fn come_and_go(nodes: &[Node], replicas: &str) {
    let staying: Vec<&Node> = nodes.iter().collect();
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run = |client| {
            let (addresses, is_over) = (&addresses, &is_over);
            scope.spawn(move || write_and_read(client, addresses, is_over))
        };
        let clients: Vec<_> = (0..CLIENTS).map(run).collect();
        let come_and_go = || {
            for _ in 0..3 {
                let (mut comes, name) = joining(&staying);
                for what in ["join", "leave"] {
                    let arguments = [what, &name, "--yes", "--replicas", replicas];
                    let told = kv(&nodes[0], &arguments).text();
                    assert!(told.contains("done: the cluster has"), "{told}");
                }
                comes.kill();
            }
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(come_and_go));
        is_over.store(true, Ordering::Relaxed);
        let wrong = clients
            .into_iter()
            .map(|client| client.join().expect("no panic"));
        let wrong: Vec<String> = wrong.flatten().collect();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
        assert_eq!(wrong, Vec::<String>::new());
    });
}

#[test]
fn clients_of_nodes_that_stay_notice_nothing() {
    come_and_go(&several(3), "3");
}

/// Nobody else has a key, so nobody stands in for a node that is not reached yet, or not any more.
#[test]
fn clients_of_nodes_that_stay_notice_nothing_where_a_key_is_on_one_node() {
    let nodes = Node::several_with(3, "replicas = 1\n");
    wait_for(&nodes);
    come_and_go(&nodes, "1");
}

/// The operator's command ends when the first node goes by the new map, and before any other does.
#[test]
fn a_change_that_one_node_has_ended_is_gone_by_wherever_clients_ask() {
    let nodes = several(3);
    let (fourth, name) = joining(&nodes.iter().collect::<Vec<_>>());
    let goal = begin_to_join(&nodes[0], &name);
    let (runtime, members) = members(&nodes[0]);
    wait_until("one of them goes by the new map alone", || {
        let step = runtime.block_on(members.step(&goal, None));
        matches!(step, Step::Tell(told) if matches!(told[..], [(_, Change::Commit(_))]))
    });
    let seen = runtime.block_on(members.look(&change::concerned(&goal)));
    let layouts = seen
        .iter()
        .filter_map(|(_, seen)| seen.as_ref()?.layout.as_ref());
    let half_way = layouts.filter(|layout| layout.next.is_some()).count();
    assert_eq!(half_way, 3);
    for number in 0..100 {
        for (which, node) in nodes.iter().chain([&fourth]).enumerate() {
            let key = format!("k{number}-{which}");
            assert_eq!(only_if_there_is_none(node.address, &key).0, 201, "{key}");
            let again = nodes[(which + 1) % 3].address;
            assert_eq!(only_if_there_is_none(again, &key).0, 412, "{key}");
        }
    }
    let told = kv(&nodes[1], &["finish"]).text();
    assert!(told.contains("done: the cluster has 4 nodes"), "{told}");
}

/// Of two that are to join at the same moment, one was prepared by nobody but itself.
#[test]
fn of_two_changes_at_once_an_operator_is_told_what_is_so() {
    let nodes = several(3);
    let all: Vec<&Node> = nodes.iter().collect();
    let ((_first, first), (second, name)) = (joining(&all), joining(&all));
    let (runtime, of_nodes) = members(&nodes[0]);
    let layout = runtime
        .block_on(of_nodes.find())
        .expect("they answer")
        .layout;
    let want = change::Want::Join(name.as_str().into());
    let goal = change::planned(&layout, &want, None).expect("a plan");
    match runtime.block_on(of_nodes.step(&goal, None)) {
        Step::Tell(told) => assert_eq!(told.len(), 1),
        other => panic!("{other:?}"),
    }
    begin_to_join(&nodes[0], &first);
    match runtime.block_on(of_nodes.step(&goal, None)) {
        Step::Overtaken(why) => assert!(why.contains(&format!("--nodes {name}")), "{why}"),
        other => panic!("{other:?}"),
    }
    kv(&nodes[0], &["finish"]).text();
    let is_so = "no change is under way: the cluster has 4 nodes, 3 replicas of a key, and the map of epoch 2";
    let told = kv(&nodes[0], &["abort"]).text();
    assert!(told.contains(is_so), "{told}");
    let told = kv(&nodes[0], &["abort", "--nodes", &name]).text();
    assert!(told.contains(is_so), "{told}");
    assert!(
        told.contains(&format!("{name} is none of its nodes")),
        "{told}"
    );
    let refused = kv(&nodes[0], &["join", &name, "--yes"]);
    assert!(
        refused.stderr.contains("empty its directory"),
        "{}",
        refused.stderr
    );
    assert!(
        !refused.stderr.contains("weir kv abort"),
        "{}",
        refused.stderr
    );
    drop(second);
}

/// A command that is silent looks as if it hung.
#[test]
fn a_repair_that_waits_for_a_change_says_so() {
    let admin = free_address();
    let first = format!("127.0.0.1:{}", crate::harness::free_port());
    let store =
        format!("node = \"{first}\"\nnodes = [\"{first}\"]\n[admin]\nlisten = \"{admin}\"\n");
    let node = Node::with("", &store);
    node.process.wait_for_port(admin);
    let (_second, name) = joining(&[&node]);
    let (runtime, of_node) = members(&node);
    let layout = runtime.block_on(of_node.find()).expect("it answers").layout;
    let want = change::Want::Join(name.as_str().into());
    let goal = change::planned(&layout, &want, None).expect("a plan");
    for _ in 0..2 {
        let step = runtime.block_on(of_node.step(&goal, None));
        assert!(matches!(step, Step::Tell(_)), "{step:?}");
    }
    let mut repair = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["kv", "repair", "--wait", "--admin", &admin.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut says = String::new();
    let mut stderr = BufReader::new(repair.stderr.take().expect("a pipe"));
    stderr.read_line(&mut says).expect("a line");
    assert!(says.contains("to epoch 2: `weir kv finish`"), "{says}");
    kv(&node, &["finish"]).text();
    let mut stdout = String::new();
    let pipe = repair.stdout.as_mut().expect("a pipe");
    pipe.read_to_string(&mut stdout).expect("UTF-8");
    assert!(stdout.starts_with("the last repair ended"), "{stdout}");
    assert!(repair.wait().expect("it ends").success());
}
