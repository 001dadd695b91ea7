//! A node that is started with an old copy of its data, or without it, after another one has come.

use std::fs;

use serde_json::Value;

use super::{Seen, json_of};
use crate::harness::tool::run;
use crate::harness::wait_until;
use crate::kv::client::kv;
use crate::kv::members::{joining, name_of};

const KEYS: usize = 40;

/// What the node has instead of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    Copy,
    Nothing,
}

#[test]
fn a_node_with_an_old_map_counts_as_down_says_so_and_is_taken_out() {
    let mut nodes = Seen::three();
    let (data, copy) = (
        nodes[0].directory.file("data"),
        nodes[0].directory.file("copy"),
    );
    nodes[0].kill();
    let paths = [&data, &copy].map(|path| path.to_str().expect("UTF-8"));
    run("cp", &["-r", paths[0], paths[1]]);
    nodes[0].restart();
    for node in &nodes {
        node.wait_for_nodes(3);
    }
    let (fourth, name) = joining(&nodes.iter().map(|seen| &seen.node).collect::<Vec<_>>());
    let told = kv(&nodes[1], &["join", &name, "--yes"]).text();
    assert!(told.contains("done: the cluster has 4 nodes"), "{told}");
    for instead in [Instead::Copy, Instead::Nothing] {
        nodes[0].kill();
        fs::remove_dir_all(&data).expect("it is there");
        if instead == Instead::Copy {
            run("cp", &["-r", paths[1], paths[0]]);
        }
        nodes[0].restart();
        let is_apart = |node: &Seen| node.says_of(&nodes[0])["apart"].is_string();
        wait_until("all know that it has an old map", || {
            nodes[1..].iter().all(is_apart) && nodes[0].store()["standing"] == "behind"
        });
        check_clients(&nodes, &fourth);
        check_operators(&nodes);
    }
    // It need not be stopped for that.
    let old = name_of(&nodes[0]);
    let told = kv(&nodes[1], &["leave", &old, "--gone", "--yes"]).text();
    assert!(told.contains("done: the cluster has 3 nodes"), "{told}");
    assert_eq!(nodes[0].v1("PUT", "k0", "").status, 503);
    for node in [&nodes[1].node, &nodes[2].node, &fourth] {
        assert_eq!(node.ask("PUT", "/v1/kv/k0", b"v").status, 201);
    }
}

/// All others do everything, and itself nothing.
fn check_clients(nodes: &[Seen], fourth: &crate::kv::Node) {
    let others = [&nodes[1].node, &nodes[2].node, fourth];
    let address = name_of(&nodes[0]);
    wait_until("the fourth one has missed it", || {
        let placement = json_of(&fourth.ask("GET", "/v1/placement", b""));
        let all = placement["nodes"].as_array().expect("a list").clone();
        let is_down = |node: &Value| node["address"] == *address && node["is_up"] == false;
        all.iter().any(is_down)
    });
    for (number, node) in (0..KEYS).zip(others.iter().cycle()) {
        let target = format!("/v1/kv/k{number}");
        assert_eq!(node.ask("PUT", &target, b"v").status, 201, "{target}");
        assert_eq!(node.ask("GET", &target, b"").status, 200, "{target}");
    }
    for target in [
        "/v1/kv/k0",
        "/v1/kv/k0?from=1",
        "/v0/entity?id=k0",
        "/v1/range",
    ] {
        let refused = nodes[0].ask("GET", target, b"");
        assert_eq!(refused.status, 503, "{target}");
        assert!(
            refused.text().contains("an older map"),
            "{}",
            refused.text()
        );
    }
    // Whoever asks it by the protocol of the nodes learns the newer map of another one.
    for number in 0..8 {
        let key = format!("k{number}");
        assert_eq!(kv(fourth, &["get", &key, "--nodes", &address]).text(), "v");
    }
}

/// What is told, and what cannot be done meanwhile.
fn check_operators(nodes: &[Seen]) {
    let address = name_of(&nodes[0]);
    let remedy = format!("`weir kv leave {address} --gone`");
    let why = "it has the map of epoch 1, and this node that of epoch 2";
    assert_eq!(nodes[1].says_of(&nodes[0])["apart"], why);
    assert_eq!(nodes[1].says_of(&nodes[0])["is_up"], false);
    let trouble = format!("warn: store: {address} is there, and counts as down: {why}");
    let troubles = nodes[1].troubles();
    assert!(troubles.contains(&trouble), "{troubles:?}");
    let shown = nodes[1].weir_kv(&["status"]).stdout;
    let is_apart = |line: &str| line.starts_with(&address) && line.contains(" apart ");
    assert!(shown.lines().any(is_apart), "{shown}");
    assert!(shown.contains(why), "{shown}");
    let shown = nodes[0].weir_kv(&["status"]).stdout;
    assert!(
        shown.contains("an older map") && shown.contains(&remedy),
        "{shown}"
    );
    let troubles = nodes[0].troubles();
    let is_own = |it: &String| it.starts_with("bad: store: this node has an older map");
    assert!(troubles.iter().any(is_own), "{troubles:?}");
    for node in &nodes[..2] {
        wait_until("the log says what to do", || {
            node.process.output().contains(&remedy)
        });
    }
    for arguments in [
        ["leave", &name_of(&nodes[2]), "--yes"],
        ["leave", &address, "--yes"],
    ] {
        let refused = kv(&nodes[1], &arguments).stderr;
        assert!(
            refused.contains("another map") && refused.contains(&remedy),
            "{refused}"
        );
    }
}
