//! Messages to the operator: a reader of standard error that does not read keeps the gateway from nothing.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;

use crate::harness::origin::Origin;
use crate::harness::{Directory, Gateway, forward_everything, wait_until};

/// What a pipe holds by default (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;

/// A gateway whose standard error is a pipe that is full. `pipe` keeps it open.
fn with_full_pipe(pipe: &Path, config: &str) -> Gateway {
    let made = Command::new("mkfifo").arg(pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let fill = format!(
        "exec 2<>{}; head -c {PIPE_BYTES} /dev/zero >&2",
        pipe.display()
    );
    Gateway::start_limited(config, &fill)
}

#[test]
fn nothing_waits_for_a_reader_of_messages() {
    let place = Directory::new();
    let origin = Origin::start(|_, _| {});
    let dead = origin.address;
    let keys = "health = { path = \"/\", interval = \"100ms\", rise = 1, fall = 1 }";
    let mut gateway = with_full_pipe(&place.file("errors"), &forward_everything(&[dead], keys));
    let up = format!("weir_upstream_endpoint_up{{upstream=\"app\",endpoint=\"{dead}\"}}");
    wait_until("it is down", || gateway.metric(&up) == 0);
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait().code(), Some(0));
}

#[test]
fn messages_that_found_no_room_are_counted() {
    let place = Directory::new();
    let pipe = place.file("errors");
    let gateway = with_full_pipe(&pipe, "[[route]]\npath = \"/\"\nrespond = {}\n");
    let refused = "weir_config_reloads_total{result=\"refused\"}";
    // A mistake that takes long to tell: two of them are more than waits for a reader.
    gateway.configure(&format!(
        "{} = 1\n[[route]]\npath = \"/\"\nrespond = {{}}\n",
        "x".repeat(200_000)
    ));
    for count in 1..=4 {
        gateway.process.signal("HUP");
        wait_until("the file is read", || gateway.metric(refused) == count);
    }
    let reader = File::options().read(true).write(true).open(&pipe);
    let lines = BufReader::new(reader.expect("there is a pipe")).lines();
    let mut lines = lines.map(|line| line.expect("it is read"));
    let mut until = |text: &str| {
        let mut seen: Vec<String> = Vec::new();
        while seen.last().is_none_or(|line| !line.contains(text)) {
            seen.push(lines.next().expect("it stays open"));
        }
        seen
    };
    until("listening on");
    let mut seen = until(" messages were dropped here");
    gateway.process.signal("TERM");
    seen.extend(until("draining"));
    until("drained");
    // A reload counts before it is told, so the last may find room again.
    let told = seen
        .iter()
        .filter(|line| line.contains("the configuration stays as it is"));
    let dropped = seen.iter().filter_map(|line| {
        let (before, _) = line.split_once(" messages were dropped here")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    let (told, dropped) = (told.count(), dropped.sum::<usize>());
    assert!(
        told >= 1 && dropped >= 2 && told + dropped == 4,
        "{told} {dropped}"
    );
}
