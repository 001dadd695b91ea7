//! What a new process finds of the last one, and what it says when it cannot have the directory.

use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::{FRESH, MIB, caching, config, fetch, files, origin, wait_for_files};
use crate::harness::client::{Connection, get};
use crate::harness::origin::Origin;
use crate::harness::{Directory, Gateway, wait_until};

/// Answers of 1,000 bytes that say which path they belong to.
fn small(path: &str) -> String {
    path.repeat(1000 / path.len())
}

fn origin_of_small() -> Origin {
    Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            let body = small(head.split(' ').nth(1).expect("a path"));
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

fn is_hit(connection: &mut Connection, path: &str) -> bool {
    let response = connection.get(path);
    assert_eq!(response.text(), small(path));
    response
        .field("cache-status")
        .is_some_and(|said| said.starts_with("weir; hit"))
}

/// Lets the disk rest: what it has no time for is dropped, which is not what this is about.
fn wait_until_written(directory: &Directory) {
    let mut seen = files(directory).len();
    loop {
        thread::sleep(Duration::from_millis(20));
        let now = files(directory).len();
        if std::mem::replace(&mut seen, now) == now {
            return;
        }
    }
}

/// Small objects that were used go to disk when they have to leave RAM, come back from there, and outlive the process.
#[test]
fn small_objects_are_demoted_found_promoted_and_outlive_the_process() {
    const OBJECTS: usize = 15_000;
    let origin = origin_of_small();
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let mut connection = Connection::open(gateway.address);
    // Twice what RAM takes; each is used once after it was stored.
    for number in 0..OBJECTS {
        let path = format!("/{number:05}");
        is_hit(&mut connection, &path);
        assert!(is_hit(&mut connection, &path), "{path}");
        if number % 500 == 0 {
            wait_until_written(&directory);
        }
    }
    assert_eq!(origin.heads_waiting(), OBJECTS);
    // RAM has half of them and the disk the others, but for those that it was too busy to take: a few, when it can rest.
    let hits = |connection: &mut Connection| {
        let each = (0..OBJECTS).filter(|number| is_hit(connection, &format!("/{number:05}")));
        each.count()
    };
    let before = hits(&mut connection);
    println!("{before} of {OBJECTS} objects are hits, of which RAM holds half");
    assert!(before > OBJECTS * 3 / 4, "{before}");
    drop(gateway);

    let asked = origin.heads_waiting();
    assert_eq!(asked, OBJECTS - before);
    let gateway = caching(origin.address, &directory, "true");
    let mut connection = Connection::open(gateway.address);
    let after = hits(&mut connection);
    println!("after a restart {after}");
    assert!(after > OBJECTS / 3, "{after}");
    assert_eq!(origin.heads_waiting(), OBJECTS - after);
    // Second uses bring them to RAM, from where they are found without the disk.
    let again = hits(&mut connection);
    assert!(again >= after, "{again}");
    drop(gateway);
}

#[test]
fn a_large_object_outlives_the_process_and_is_not_read_at_the_start() {
    const LENGTH: u64 = 50 * MIB;
    let origin = origin(LENGTH, FRESH);
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    fetch(gateway.address, LENGTH);
    wait_for_files(&directory, 1);
    drop(gateway);
    let gateway = caching(origin.address, &directory, "true");
    wait_until("it is found", || {
        fetch(gateway.address, LENGTH).contains("weir; hit")
    });
    assert_eq!(origin.heads_waiting(), 1);
}

/// Under the keys of another version lies what this one may not answer with.
#[test]
fn what_another_version_has_stored_is_not_used() {
    const LENGTH: u64 = 8 * MIB;
    let origin = origin(LENGTH, FRESH);
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    fetch(gateway.address, LENGTH);
    wait_for_files(&directory, 1);
    drop(gateway);
    let path = &files(&directory)[0].0;
    let file = std::fs::File::options().write(true).open(path);
    let written = file.expect("it is there").write_all_at(b"weirobj\x01", 0);
    written.expect("it can be written");
    let gateway = caching(origin.address, &directory, "true");
    wait_for_files(&directory, 0);
    assert!(fetch(gateway.address, LENGTH).contains("fwd=uri-miss; stored"));
    assert_eq!(origin.heads_waiting(), 2);
}

/// A write ends what is on disk, also what is on its way there.
#[test]
fn a_write_ends_what_is_on_disk_and_what_arrives() {
    const LENGTH: u64 = 8 * MIB;
    static VERSION: AtomicU64 = AtomicU64::new(0);
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            if head.starts_with("DELETE") {
                VERSION.fetch_add(1, Ordering::SeqCst);
                peer.send("HTTP/1.1 204 No Content\r\n\r\n");
                continue;
            }
            let version = VERSION.load(Ordering::SeqCst);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{FRESH}X-Version: {version}\r\nContent-Length: {LENGTH}\r\n\r\n"
            ));
            for _ in 0..LENGTH / MIB {
                peer.send(vec![version as u8; MIB as usize]);
            }
        }
    });
    let directory = Directory::new();
    let gateway = caching(origin.address, &directory, "true");
    let address = gateway.address;
    let read = move || {
        let response = get(address, "/");
        let version: u8 = response
            .field("x-version")
            .and_then(|text| text.parse().ok())
            .expect("a version");
        assert_eq!(response.body.len() as u64, LENGTH);
        assert!(
            response.body.iter().all(|byte| *byte == version),
            "a body of another head"
        );
        u64::from(version)
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..40).for_each(|_| _ = read()));
        }
        for _ in 0..20 {
            let mut connection = Connection::open(address);
            connection.send("DELETE / HTTP/1.1\r\nHost: test\r\n\r\n");
            assert_eq!(connection.response().status, 204);
        }
    });
    // Nothing is under way any more, and nothing older than the last write may be left.
    let last = VERSION.load(Ordering::SeqCst);
    assert_eq!(read(), last);
    drop(gateway);
    let gateway = caching(origin.address, &directory, "true");
    let response = get(gateway.address, "/");
    assert_eq!(response.field("x-version"), Some(last.to_string().as_str()));
}

#[test]
fn a_directory_that_cannot_be_had_is_told() {
    let origin = origin(10, FRESH);
    let directory = Directory::new();
    let running = caching(origin.address, &directory, "true");
    let serve = |text: &str| {
        let path = directory.write("second.toml", text);
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--config"])
            .arg(&path)
            .output()
            .expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let listener = "[[listener]]\naddress = \"127.0.0.1:0\"\n";
    let told = serve(&(listener.to_owned() + &config(origin.address, &directory, "true")));
    assert!(
        told.contains(":5: cache.disk.path: cannot cache in ")
            && told.contains("the directory is in use by another process"),
        "{told}"
    );

    directory.write("file", "");
    let below_a_file = config(origin.address, &directory, "true").replace("/store", "/file/store");
    let told = serve(&(listener.to_owned() + &below_a_file));
    assert!(
        told.contains("cache.disk.path: cannot cache in ") && told.contains("Not a directory"),
        "{told}"
    );

    let forbidden = below_a_file.replace(directory.file("file").to_str().expect("UTF-8"), "/sys");
    let told = serve(&(listener.to_owned() + &forbidden));
    assert!(
        told.contains("cache.disk.path: cannot cache in ") && (told.contains("ermi")),
        "{told}"
    );
    drop::<Gateway>(running);
}
