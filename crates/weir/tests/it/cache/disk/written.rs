//! Requests that change something whose old version is on disk, while the disk does not answer, is being indexed, or the
//! process is killed right behind the answer.
//!
//! A disk that does not answer is a pipe in the place of a file: whoever opens it waits for the other end.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use super::{MIB, caching, config, files, indexed};
use crate::harness::client::{Connection, Response, get, send};
use crate::harness::origin::Origin;
use crate::harness::pattern::read_head;
use crate::harness::{Directory, Gateway, wait_until};

/// More than RAM takes of one object.
const LARGE: u64 = 2 * MIB;

/// An origin of which every path is large until something is deleted, and says `new` from then on.
fn origin() -> Origin {
    let deleted = AtomicU64::new(0);
    Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if head.starts_with("DELETE") {
                deleted.fetch_add(1, Ordering::SeqCst);
                peer.send("HTTP/1.1 204 No Content\r\n\r\n");
                continue;
            }
            let body = match deleted.load(Ordering::SeqCst) {
                0 => vec![b'o'; LARGE as usize],
                _ => b"new".to_vec(),
            };
            let length = body.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"{length}\"\r\nContent-Length: {length}\r\n\r\n"
            ));
            peer.send(body);
        }
    })
}

fn delete(gateway: &Gateway, path: &str) -> Response {
    let request = format!("DELETE {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    send(gateway.address, &request)
}

fn is_old(gateway: &Gateway, path: &str) -> bool {
    let body = get(gateway.address, path).body;
    assert!(body == b"new" || body.len() as u64 == LARGE, "torn");
    body != b"new"
}

/// Has the gateway store a path on disk, and says which file that is.
fn store(gateway: &Gateway, directory: &Directory, path: &str) -> PathBuf {
    let before = files(directory);
    assert!(is_old(gateway, path));
    let mut new = Vec::new();
    wait_until("it is on disk", || {
        new = files(directory);
        new.retain(|file| !before.contains(file));
        !new.is_empty()
    });
    new.remove(0).0
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
}

/// Threads of the gateway that wait for the other end of a pipe.
fn stuck_threads(gateway: &Gateway) -> usize {
    let tasks = format!("/proc/{}/task", gateway.process.pid());
    let tasks = std::fs::read_dir(tasks)
        .expect("the process runs")
        .flatten();
    let waits = tasks.map(|task| std::fs::read_to_string(task.path().join("wchan")));
    waits
        .flatten()
        .filter(|wait| wait == "wait_for_partner")
        .count()
}

/// All disk threads of a gateway, which wait until this is dropped.
struct Stuck {
    pipes: [PathBuf; 2],
    _clients: Vec<Connection>,
}

impl Stuck {
    /// Two paths that nothing else asks for are stored, and asked for when their files have become pipes.
    fn new(gateway: &Gateway, directory: &Directory) -> Self {
        let paths = ["/stuck/1", "/stuck/2"];
        let pipes = paths.map(|path| store(gateway, directory, path));
        for pipe in &pipes {
            std::fs::remove_file(pipe).expect("it is there");
            make_pipe(pipe);
        }
        let ask = |path| {
            let mut client = Connection::open(gateway.address);
            client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
            client
        };
        let clients = paths.map(ask).into();
        wait_until("the disk is stuck", || {
            stuck_threads(gateway) == paths.len()
        });
        Self {
            pipes,
            _clients: clients,
        }
    }
}

impl Drop for Stuck {
    /// A thread that was let go tries once more: it must not find the pipe again.
    fn drop(&mut self) {
        for pipe in &self.pipes {
            let opened = std::fs::OpenOptions::new().write(true).open(pipe);
            let removed = std::fs::remove_file(pipe);
            drop(opened.and(removed));
        }
    }
}

#[test]
fn a_write_is_answered_though_the_disk_is_not_and_ends_what_is_there() {
    let origin = origin();
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let file = store(&gateway, &directory, "/a");
    let stuck = Stuck::new(&gateway, &directory);
    for _ in 0..3 {
        assert_eq!(delete(&gateway, "/a").status, 204);
        assert!(!is_old(&gateway, "/a"));
    }
    let asked = origin.heads_waiting();
    assert!(!is_old(&gateway, "/a"));
    assert_eq!(
        origin.heads_waiting(),
        0,
        "{asked} before: the new one is stored"
    );
    assert!(file.exists(), "the disk has not answered yet");
    drop(stuck);
    wait_until("it is off the disk", || !file.exists());
    assert!(!is_old(&gateway, "/a"));
}

/// What confirms the head of something on disk is not waited for either.
#[test]
fn a_confirmation_is_answered_though_the_disk_is_not() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let origin = Origin::start(move |mut peer, _| {
        while let Some(head) = peer.head() {
            if head.starts_with("HEAD") {
                wait.lock()
                    .expect("one at a time")
                    .recv()
                    .expect("the test goes on");
            }
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"1\"\r\nContent-Length: {LARGE}\r\n\r\n"
            ));
            if head.starts_with("GET") {
                peer.send(vec![b'o'; LARGE as usize]);
            }
        }
    });
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    store(&gateway, &directory, "/a");
    let mut client = Connection::open(gateway.address);
    client.send("HEAD /a HTTP/1.1\r\nHost: test\r\n\r\n");
    while !origin.next_head().starts_with("HEAD") {}
    let _stuck = Stuck::new(&gateway, &directory);
    go.send(()).expect("the origin waits");
    assert!(read_head(&mut client.stream).starts_with("HTTP/1.1 200 OK\r\n"));
}

/// The file of the last run is met whether it is indexed before the write or long after it.
#[test]
fn a_write_while_the_disk_is_indexed_ends_what_is_found_later_also_after_a_kill() {
    for is_killed in [false, true] {
        let origin = origin();
        let directory = Directory::new();
        let gateway = caching(origin.address, &directory, "true");
        for path in ["/a", "/b", "/kept"] {
            store(&gateway, &directory, path);
        }
        drop(gateway);
        // Too long for what is no object, and it leads to a pipe: the first that is indexed keeps the rest waiting.
        let pipe = directory.file("pipe");
        make_pipe(&pipe);
        let link = directory.file("store/objects/00/link");
        let detour = directory.file(&format!("{}pipe", "./".repeat(64)));
        std::os::unix::fs::symlink(detour, &link).expect("it can be made");
        let mut gateway = Gateway::start(&config(origin.address, &directory, "true"));
        wait_until("the indexing waits", || stuck_threads(&gateway) == 1);
        assert_eq!(gateway.metric("weir_cache_disk_indexed"), 0);
        for path in ["/a", "/b"] {
            assert_eq!(delete(&gateway, path).status, 204);
        }
        assert!(!is_old(&gateway, "/a"));
        if is_killed {
            gateway.process.kill();
            std::fs::remove_file(&link).expect("it is there");
            gateway = caching(origin.address, &directory, "true");
        } else {
            drop(std::fs::OpenOptions::new().write(true).open(&pipe));
            gateway = indexed(gateway);
        }
        let found = ["/a", "/b", "/kept"].map(|path| is_old(&gateway, path));
        assert_eq!(found, [false, false, true], "{is_killed}");
        let ended = std::fs::metadata(directory.file("store/ended"));
        assert_eq!(ended.expect("it is there").len(), 0, "all of it was met");
    }
}

#[test]
fn what_a_write_ended_stays_so_when_the_process_is_killed_behind_the_answer() {
    let origin = origin();
    let directory = Directory::new();
    let mut gateway = caching(origin.address, &directory, "true");
    let paths: Vec<_> = (0..20).map(|number| format!("/{number}")).collect();
    for path in &paths {
        store(&gateway, &directory, path);
    }
    for path in &paths[1..] {
        assert_eq!(delete(&gateway, path).status, 204);
    }
    gateway.process.kill();
    let gateway = caching(origin.address, &directory, "true");
    let old: Vec<_> = paths.iter().filter(|path| is_old(&gateway, path)).collect();
    assert_eq!(old, ["/0"], "nothing was asked of this one");
}
