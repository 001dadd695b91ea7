//! A table on the disk of this machine.

use std::net::SocketAddr;

use super::{Collector, holds, kill_while_clients_post, the_first_stays};
use crate::harness::Directory;
use crate::harness::process::Process;

fn engine(durability: &str) -> impl FnOnce(&Directory) -> String {
    let durability = durability.to_owned();
    move |directory| {
        let path = directory.file("data");
        format!(
            "path = \"{}\", durability = \"{durability}\"",
            path.display()
        )
    }
}

#[test]
fn events_are_kept_and_read_back() {
    let mut collector = Collector::start(engine("group"), "");
    holds(&mut collector);
    the_first_stays(&collector);
}

#[test]
fn events_may_be_kept_one_by_one_or_wait_for_others() {
    holds(&mut Collector::start(engine("each"), "batch = 1"));
    let batch = "batch = { events = 100, wait = \"20ms\" }";
    holds(&mut Collector::start(engine("os"), batch));
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    for (durability, more) in [("group", ""), ("each", "batch = 1"), ("os", "")] {
        let mut collector = Collector::start(engine(durability), more);
        for round in 0..3 {
            kill_while_clients_post(&mut collector, round);
        }
    }
}

#[test]
fn a_directory_is_of_one_process_and_one_kind() {
    let collector = Collector::start(engine("group"), "");
    let directory = Directory::new();
    let path = collector.0.directory.file("data");
    let start = |table: &str, path: &str, route: &str| {
        let port = crate::harness::free_port();
        let config = format!(
            "[[listener]]\naddress = \"127.0.0.1:{port}\"\n[{table}]\nengine = {{ path = \"{path}\" }}\n[[route]]\npath = \"/\"\n{route}\n"
        );
        let config = directory.write("weir.toml", config);
        let config = config.to_str().expect("UTF-8");
        let process = Process::weir(&["serve", "--config", config], &directory);
        (process, SocketAddr::from(([127, 0, 0, 1], port)))
    };
    let refused = |path: &str| {
        let (mut process, _) = start("table.a", path, "collect = { table = \"a\" }");
        assert!(!process.wait().success());
        process.output()
    };
    let told = refused(path.to_str().expect("UTF-8"));
    assert!(
        told.contains("another process has this directory open"),
        "{told}"
    );
    let store = directory.file("kv");
    let store = store.to_str().expect("UTF-8");
    let (mut process, address) = start("kv", store, "kv = true");
    process.wait_for_port(address);
    process.signal("TERM");
    assert!(process.wait().success());
    let told = refused(store);
    assert!(told.contains("it is no table of activities"), "{told}");
}
