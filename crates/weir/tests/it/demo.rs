//! The demos, as somebody sees them who tries them.

use std::path::Path;

use crate::harness::process::Process;
use crate::harness::tool::run_to_end;
use crate::harness::{Directory, free_port, wait_until};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Flags of a demo on ports of its own.
fn flags(seconds: &str) -> Vec<String> {
    let at = || format!("127.0.0.1:{}", free_port());
    let words = ["demo", "--shard", "--seconds", seconds, "--listen"];
    let mut flags: Vec<String> = words.map(str::to_owned).into();
    flags.extend([at(), "--admin".to_owned(), at(), "--ports".to_owned()]);
    flags.push(format!("0,{},{}", free_port(), free_port()));
    flags
}

/// A demo that writes below `directory`.
fn start(directory: &Directory) -> Process {
    let place = format!("TMPDIR={}", directory.file("").display());
    let flags = flags("60");
    let arguments = [place.as_str(), WEIR].into_iter();
    let arguments: Vec<&str> = arguments.chain(flags.iter().map(String::as_str)).collect();
    Process::start("env", &arguments, directory)
}

/// The processes that are told of.
fn nodes(output: &str) -> Vec<u32> {
    let numbers = output.split("pid ").skip(1);
    let numbers = numbers.filter_map(|rest| rest.split([',', ':']).next());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).exists()
}

/// Waits until it writes to the store; its nodes.
fn nodes_at_work(demo: &Process) -> Vec<u32> {
    wait_until("something is written", || {
        demo.output().contains("written ")
    });
    let nodes = nodes(&demo.output());
    assert_eq!(nodes.len(), 3, "{}", demo.output());
    assert!(nodes.iter().all(|node| is_there(*node)));
    nodes
}

#[test]
fn a_node_is_killed_and_every_acknowledged_write_is_there() {
    let flags = flags("8");
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let run = run_to_end(WEIR, &flags);
    assert!(run.status.success(), "{}{}", run.stdout, run.stderr);
    for expected in [
        "node-3 is killed",
        "2 of 3 nodes up",
        "node-3 is back",
        " hints were taken, 0 left out; a repair compared ",
        "weir demo: every acknowledged write is there: ",
        " keys were read through each of 3 nodes\n",
    ] {
        assert!(run.stdout.contains(expected), "{expected}: {}", run.stdout);
    }
    assert!(!run.stdout.contains(": 0 writes were"), "{}", run.stdout);
    assert!(!run.stdout.contains(": 0 hints were"), "{}", run.stdout);
    let left: Vec<u32> = nodes(&run.stdout)
        .into_iter()
        .filter(|node| is_there(*node))
        .collect();
    assert_eq!(left, [0; 0]);
}

#[test]
fn it_ends_in_order_when_it_is_told_to() {
    let directory = Directory::new();
    let mut demo = start(&directory);
    let nodes = nodes_at_work(&demo);
    demo.signal("INT");
    assert!(demo.wait().success(), "{}", demo.output());
    let output = demo.output();
    assert!(
        output.contains("every acknowledged write is there"),
        "{output}"
    );
    assert!(!nodes.iter().any(|node| is_there(*node)), "{output}");
    let left = std::fs::read_dir(directory.file("")).expect("a directory");
    let left = left.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let left: Vec<String> = left.filter(|name| name.starts_with("weir-demo")).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn nodes_end_with_it_however_it_ends() {
    let directory = Directory::new();
    let mut demo = start(&directory);
    let nodes = nodes_at_work(&demo);
    demo.kill();
    wait_until("the nodes end", || {
        !nodes.iter().any(|node| is_there(*node))
    });
}
