//! Disks that are full, directories that are in use or damaged, configurations that leave a queue behind.

use std::fs;

use super::Queued;
use super::sink::{Answer, Sink};
use crate::harness::tool;
use crate::harness::{Directory, wait_until};

fn reload(queued: &Queued) -> tool::Run {
    let admin = queued.admin().to_string();
    tool::run_to_end(env!("CARGO_BIN_EXE_weir"), &["reload", "--admin", &admin])
}

#[test]
fn a_queue_that_is_full_refuses_and_takes_again() {
    let sink = Sink::answering(|_| Answer::status(503));
    let queued = Queued::start(
        &sink,
        "size = \"4MiB\"\nbackoff = \"10ms\"\nkeep = \"0s\"",
        "",
    );
    let body = "x".repeat(100_000);
    let mut accepted = 0;
    let refused = loop {
        let response = queued.post("/", &body);
        if response.status != 202 {
            break response;
        }
        accepted += 1;
        assert!(accepted < 100, "it has no bound");
    };
    assert_eq!(refused.status, 503);
    assert_eq!(refused.field("retry-after"), Some("10"));
    assert!(accepted >= 35, "{accepted}");
    assert!(queued.status()["bytes"].as_u64() <= Some(4 << 20));
    wait_until("the operator is told", || {
        queued
            .process()
            .output()
            .contains("queue events takes nothing: it has reached its \"size\"")
    });
    sink.answer(|_| Answer::status(200));
    queued.wait_for("waiting", 0);
    wait_until("it takes again", || queued.post("/", &body).status == 202);
    assert_eq!(queued.status()["dead"], 0);
}

#[test]
fn what_waits_for_too_long_stops_the_intake() {
    let sink = Sink::answering(|_| Answer::status(503));
    let queued = Queued::start(&sink, "max_age = \"1s\"\nbackoff = \"10ms\"", "");
    queued.accepted("/", "x");
    wait_until("it is refused", || queued.post("/", "y").status == 503);
    sink.answer(|_| Answer::status(200));
    queued.wait_for("waiting", 0);
    wait_until("it is taken", || queued.post("/", "z").status == 202);
}

/// A file system, which is there until this is dropped.
struct Mounted(String);

impl Drop for Mounted {
    fn drop(&mut self) {
        tool::run_to_end("umount", &["-l", &self.0]);
    }
}

/// A file system of its own that is full.
#[test]
fn a_disk_that_is_full_refuses_and_takes_again() {
    let sink = Sink::answering(|_| Answer::status(503));
    let mut queued = Queued::start(&sink, "", "");
    queued.kill();
    let path = queued.path();
    fs::remove_dir_all(&path).expect("it is there");
    fs::create_dir(&path).expect("it can be made");
    let path = path.to_str().expect("UTF-8");
    let mounted = tool::run_to_end("mount", &["-t", "tmpfs", "-o", "size=2m", "tmpfs", path]);
    if !mounted.status.success() {
        println!(
            "not tried, because nothing may be mounted here: {}",
            mounted.stderr
        );
        return;
    }
    let _mounted = Mounted(path.to_owned());
    queued.restart();
    let body = "x".repeat(100_000);
    let mut accepted = 0;
    let refused = loop {
        let response = queued.post("/", &body);
        if response.status != 202 {
            break response;
        }
        accepted += 1;
        assert!(accepted < 100, "there is no end of the disk");
    };
    assert_eq!(
        (refused.status, refused.field("retry-after")),
        (503, Some("5"))
    );
    wait_until("the operator is told", || {
        queued
            .process()
            .output()
            .contains("No space left on device")
    });
    // What was accepted is there after a crash, and is delivered; then there is room.
    queued.restart();
    sink.answer(|_| Answer::status(200));
    queued.wait_for("waiting", 0);
    let delivered = sink.seen().into_iter().map(|it| it.offset);
    let delivered: std::collections::BTreeSet<u64> = delivered.collect();
    assert_eq!(delivered.len(), accepted);
}

#[test]
fn a_second_process_is_refused() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    let config = fs::read_to_string(queued.directory.file("weir.toml")).expect("there is a config");
    let mut other = config;
    for port in queued.ports {
        let another = format!(":{}", crate::harness::free_port());
        other = other.replace(&format!(":{port}"), &another);
    }
    let directory = Directory::new();
    let path = directory.write("weir.toml", other);
    let run = tool::run_to_end(
        env!("CARGO_BIN_EXE_weir"),
        &["serve", path.to_str().expect("UTF-8")],
    );
    assert_eq!(run.status.code(), Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("is in use by another process"),
        "{}",
        run.stderr
    );
    queued.accepted("/", "x");
}

#[test]
fn a_damaged_log_is_told_and_not_opened() {
    let sink = Sink::answering(|_| Answer::status(503));
    let mut queued = Queued::start(&sink, "", "");
    for number in 0..3 {
        queued.accepted("/", &format!("message {number}"));
    }
    queued.kill();
    let path = queued.path().join("log/00000000000000000000.log");
    let mut bytes = fs::read(&path).expect("a segment");
    let at = bytes
        .windows(9)
        .position(|it| it == b"message 1")
        .expect("the message");
    bytes[at] ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    let mut process = queued.launch();
    let status = process.wait();
    assert_eq!(status.code(), Some(1));
    wait_until("it is told", || {
        process.output().contains("is damaged at byte")
    });
    let said = process.output();
    assert!(
        said.contains("00000000000000000000.log is damaged at byte"),
        "{said}"
    );
    assert!(said.contains("offset 1"), "{said}");
}

#[test]
fn a_directory_that_cannot_be_made_is_told() {
    let sink = Sink::start();
    let mut queued = Queued::start(&sink, "", "");
    queued.kill();
    fs::remove_dir_all(queued.path()).expect("it is there");
    fs::write(queued.path(), "no directory").expect("it can be written");
    let mut process = queued.launch();
    assert_eq!(process.wait().code(), Some(1));
    wait_until("it is told", || {
        process.output().contains("cannot open events")
    });
}

#[test]
fn a_queue_that_leaves_the_config_is_kept_and_comes_back() {
    let sink = Sink::answering(|_| Answer::status(503));
    let queued = Queued::start(&sink, "backoff = \"10ms\"", "");
    for number in 0..5 {
        queued.accepted("/", &number.to_string());
    }
    let without = format!(
        "[upstream.sink]\nservers = [\"{}\"]\n[[route]]\npath = \"/{{*rest}}\"\nrespond = {{}}\n",
        sink.address
    );
    queued.write(&without);
    let run = reload(&queued);
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(queued.post("/", "x").status, 200);
    wait_until("its directory is free", || {
        let other = fs::File::open(queued.path().join("log/lock")).expect("the lock");
        other.try_lock().is_ok()
    });
    sink.answer(|_| Answer::status(200));
    let before = sink.seen().len();
    queued.configure(&sink, "", "");
    let run = reload(&queued);
    assert!(run.status.success(), "{}", run.stderr);
    queued.wait_for("waiting", 0);
    assert_eq!(sink.seen().len() - before, 5);
}

#[test]
fn messages_whose_upstream_is_gone_wait_for_it() {
    let sink = Sink::answering(|_| Answer::status(503));
    let queued = Queued::start(&sink, "backoff = \"10ms\"", "");
    queued.accepted("/", "old");
    let config = |upstream| {
        format!(
            "[queue.events]\npath = \"{}\"\n[upstream.{upstream}]\nservers = [\"{}\"]\n\
             [[route]]\npath = \"/{{*rest}}\"\ndefer = \"events\"\nupstream = \"{upstream}\"\n",
            queued.path().display(),
            sink.address
        )
    };
    queued.write(&config("other"));
    assert!(reload(&queued).status.success());
    sink.answer(|_| Answer::status(200));
    queued.accepted("/", "new");
    wait_until("the new one is delivered", || {
        sink.bodies().contains(&"new".to_owned())
    });
    assert_eq!(queued.status()["dead"], 0);
    queued.write(&config("sink"));
    assert!(reload(&queued).status.success());
    queued.wait_for("waiting", 0);
    assert_eq!(sink.bodies().last().map(String::as_str), Some("old"));
}

#[test]
fn a_drain_ends_what_is_under_way_and_keeps_the_rest() {
    let sink = Sink::answering(|_| Answer(200, "", std::time::Duration::from_millis(300)));
    let mut queued = Queued::start(&sink, "concurrency = 1", "");
    for number in 0..5 {
        queued.accepted("/", &number.to_string());
    }
    sink.wait_for(1);
    assert_eq!(queued.end(), Some(0));
    let before = sink.seen().len();
    assert!(before < 5, "{before}");
    sink.answer(|_| Answer::status(200));
    queued.restart();
    queued.wait_for("waiting", 0);
    assert_eq!(sink.bodies(), ["0", "1", "2", "3", "4"], "none twice");
}

#[test]
fn another_durability_holds_at_once() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    queued.accepted("/", "x");
    let syncs = queued.status()["syncs"].as_u64();
    queued.configure(&sink, "durability = \"memory\"", "");
    assert!(reload(&queued).status.success());
    assert_eq!(queued.status()["durability"], "memory");
    for number in 0..20 {
        queued.accepted("/", &number.to_string());
    }
    // A sync a second is what is left.
    let after = queued.status()["syncs"].as_u64();
    assert!(after < syncs.map(|syncs| syncs + 15), "{syncs:?} {after:?}");
    queued.wait_for("delivered", 21);
}

#[test]
fn a_reload_that_is_refused_changes_no_queue() {
    let sink = Sink::start();
    let queued = Queued::start(&sink, "", "");
    queued.accepted("/", "x");
    let other = queued.directory.file("other");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = |path: &std::path::Path, durability: &str, more: &str| {
        queued.write(&format!(
            "{more}[queue.events]\npath = \"{}\"\ndurability = \"{durability}\"\n[upstream.sink]\nservers = [\"{}\"]\n\
             [[route]]\npath = \"/{{*rest}}\"\ndefer = \"events\"\nupstream = \"sink\"\n",
            path.display(),
            sink.address
        ));
    };
    let address = taken.local_addr().expect("an address");
    let refused = format!("[[listener]]\naddress = \"{address}\"\n");
    let own = queued.path();
    for (path, offset) in [(&own, 1), (&other, 2)] {
        config(path, "memory", &refused);
        assert!(!reload(&queued).status.success());
        assert_eq!(queued.accepted("/", "y"), offset);
        assert_eq!(queued.status()["durability"], "group");
    }
    // What was refused for another reason is put to work all the same once that is mended.
    config(&other, "os", "");
    wait_until("what was opened in vain has ended", || {
        reload(&queued).status.success()
    });
    assert_eq!(queued.accepted("/", "z"), 0);
}

/// One of two is damaged: the other has begun to deliver, and nobody takes that.
#[test]
fn a_start_that_fails_ends() {
    let sink = Sink::answering(|_| Answer::status(503));
    let mut queued = Queued::start(&sink, "", "");
    for number in 0..200 {
        queued.accepted("/", &number.to_string());
    }
    queued.kill();
    let damaged = queued.directory.file("zzz");
    fs::create_dir_all(damaged.join("log")).expect("it can be made");
    let segment = damaged.join("log/00000000000000000000.log");
    fs::write(segment, "x".repeat(1 << 20)).expect("it can be written");
    queued.write(&format!(
        "[queue.events]\npath = \"{}\"\n[queue.zzz]\npath = \"{}\"\n[upstream.sink]\nservers = [\"{}\"]\n\
         [[route]]\npath = \"/{{*rest}}\"\ndefer = \"events\"\nupstream = \"sink\"\n\
         [[route]]\npath = \"/zzz\"\ndefer = \"zzz\"\nupstream = \"sink\"\n",
        queued.path().display(),
        damaged.display(),
        sink.address
    ));
    let mut process = queued.launch();
    assert_eq!(process.wait().code(), Some(1));
}

#[test]
fn a_stop_leaves_everything_on_the_disk() {
    let sink = Sink::start();
    let mut queued = Queued::start(&sink, "durability = \"memory\"", "");
    queued.accepted("/", "x");
    queued.wait_for("delivered", 1);
    assert_eq!(queued.end(), Some(0));
    queued.restart();
    assert_eq!(queued.accepted("/", "y"), 1, "no offset is left out");
    queued.wait_for("delivered", 1);
    assert_eq!(sink.bodies(), ["x", "y"], "none is delivered again");
    queued.restart();
    assert!(queued.accepted("/", "z") > 2, "after a crash some are");
    queued.wait_for("waiting", 0);
    queued.told(&["replay", "events", "--from", "0"]);
    queued.wait_for("waiting", 0);
}
