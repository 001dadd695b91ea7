//! What was purged stays so when the process is killed right behind the answer, though its disk holds on to the rest.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use super::{Versions, purge, version_of};
use crate::harness::client::{Connection, get};
use crate::harness::origin::Origin;
use crate::harness::{Directory, Gateway, wait_until};

/// More than RAM takes of one object, so that it goes to disk while it arrives.
const LARGE_BYTES: usize = 2 << 20;
/// Many more than fit in RAM, so that most of them are on disk.
const PATHS: usize = 40;

/// A gateway whose disk is indexed, so that it takes objects.
fn start(origin: SocketAddr, directory: &Directory) -> Gateway {
    let gateway = Gateway::start(&format!(
        "[cache]\nmemory = \"1MiB\"\ndisk = {{ path = \"{}\", size = \"1GiB\" }}\n\
         [upstream.app]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = true\n",
        directory.file("cache").display(),
        origin
    ));
    gateway.wait_for_metric("weir_cache_disk_indexed", 1);
    gateway
}

fn path(number: usize) -> String {
    let kind = if number.is_multiple_of(2) {
        "even"
    } else {
        "odd"
    };
    format!("/{kind}/{number}")
}

/// Has the gateway store all paths, and waits until some of both kinds are on disk.
fn fill(gateway: &Gateway) {
    wait_until("much is on disk", || {
        for number in 0..PATHS {
            for _ in 0..3 {
                get(gateway.address, &path(number));
            }
        }
        gateway.metric("weir_cache_objects{tier=\"disk\"}") >= 20
    });
}

/// The versions that a restarted gateway has of each path.
fn versions_after_kill(
    versions: &Versions,
    directory: &Directory,
    gateway: &mut Gateway,
) -> Vec<u64> {
    gateway.process.kill();
    let gateway = start(versions.origin.address, directory);
    let paths = (0..PATHS).map(path);
    paths
        .map(|path| version_of(&get(gateway.address, &path)))
        .collect()
}

#[test]
fn a_kill_behind_the_answer_brings_nothing_back() {
    for what in [
        "{\"prefix\": \"http://test/even/\"}",
        "{\"prefix\": \"/even/\"}",
        "{\"tag\": \"even\"}",
        "{\"tag\": \"even\", \"soft\": true}",
        "{\"all\": true}",
        "URLS",
    ] {
        let versions = Versions::with_body("Cache-Control: max-age=600\r\n", 60_000);
        let directory = Directory::new();
        let mut gateway = start(versions.origin.address, &directory);
        fill(&gateway);
        versions.next();
        if what == "URLS" {
            for number in (0..PATHS).step_by(2) {
                let url = format!("{{\"url\": \"http://test{}\"}}", path(number));
                purge(&gateway, &url);
            }
        } else {
            purge(&gateway, what);
        }
        let found = versions_after_kill(&versions, &directory, &mut gateway);
        for (number, found) in found.iter().enumerate() {
            let is_purged = what.contains("all") || number.is_multiple_of(2);
            assert!(*found == 2 || !is_purged, "{}: {what}", path(number));
        }
        let kept = found.iter().filter(|found| **found == 1).count();
        let is_all = what.contains("all");
        assert_eq!(
            kept == 0,
            is_all,
            "{what}: the rest comes back, {kept} of it"
        );
    }
}

#[test]
fn what_was_on_its_way_to_disk_does_not_get_there() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, number| {
        while peer.head().is_some() {
            let letter = if number == 0 { "o" } else { "n" };
            let half = letter.repeat(LARGE_BYTES / 2);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {LARGE_BYTES}\r\n\r\n{half}"
            ));
            if number == 0 {
                let _ = wait.lock().expect("one at a time").recv();
            }
            peer.send(half);
        }
    });
    let directory = Directory::new();
    let mut gateway = start(origin.address, &directory);
    let mut before = Connection::open(gateway.address);
    before.send("GET /a HTTP/1.1\r\nHost: test\r\n\r\n");
    before.until(b"\r\n\r\n");
    before.exactly(LARGE_BYTES / 2);
    purge(&gateway, "{\"url\": \"http://test/a\"}");
    let is_new = |gateway: &Gateway| {
        let body = get(gateway.address, "/a").body;
        body.len() == LARGE_BYTES && body.iter().all(|byte| *byte == b'n')
    };
    assert!(is_new(&gateway));
    go.send(()).expect("the origin waits");
    before.exactly(LARGE_BYTES / 2);
    assert!(is_new(&gateway));
    wait_until("the new one is on disk", || {
        gateway.metric("weir_cache_objects{tier=\"disk\"}") == 1
    });
    assert_eq!(origin.heads_waiting(), 2, "it was stored");
    gateway.process.kill();
    let gateway = start(origin.address, &directory);
    assert!(is_new(&gateway));
    assert_eq!(origin.heads_waiting(), 0, "it came back from disk");
}
