//! What a build server sees: one line, and an exit status.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::server::{Server, read_request};
use super::{Measured, load};
use crate::harness::process::Process;
use crate::harness::{App, Directory, free_port, wait_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_promise_is_judged_for_any_run() {
    let app = App::start_with("slow", free_port(), &["--delay", "20ms"]);
    let url = format!("http://{}/", app.address);
    for (slo, line, status) in [
        ("p50=10s,errors=0%", "slo kept: p50 ", 0),
        ("p50=10s,p90=1ms", "slo missed: p50 ", 3),
    ] {
        let run = load(&[&url, "-n", "20", "-c", "2", "-q", "--slo", slo]);
        assert_eq!(run.status.code(), Some(status), "{}", run.stdout);
        assert!(run.stdout.starts_with(line), "{}", run.stdout);
        assert_eq!(run.stdout.lines().count(), 1, "{}", run.stdout);
    }
    // Beside the whole report, the line is its last one.
    let run = load(&[&url, "-n", "20", "-c", "2", "--slo", "p50=1ms"]);
    let last = run.stdout.lines().last().unwrap_or_default();
    assert!(last.starts_with("slo missed: p50 "), "{}", run.stdout);
    assert!(last.contains(", promised 1.00ms"), "{}", run.stdout);
}

#[test]
fn a_run_without_a_good_answer_is_no_success() {
    let app = App::start("a");
    let url = format!("http://{}/nowhere", app.address);
    let run = load(&[&url, "-n", "20", "-c", "2", "-q"]);
    assert_eq!(run.status.code(), Some(5), "{}", run.stdout);
    assert!(
        run.stdout.starts_with("no good answer: 20 requests"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.ends_with(", 20 4xx\n"), "{}", run.stdout);
}

/// It answers a hundred requests a second one after the other, and is asked three hundred.
#[test]
fn a_server_that_falls_behind_is_the_servers_doing() {
    let gate = Arc::new(Mutex::new(()));
    let server = Server::answering(move |_| {
        let _held = gate.lock().expect("no panic");
        std::thread::sleep(Duration::from_millis(10));
        vec![OK.to_vec()]
    });
    let flags = ["-c", "32", "-t", "1", "--rate", "300", "-d", "2s"];
    let measured = Measured::by(&[&[&*server.url("/")][..], &flags].concat());
    let found = &measured.0;
    assert_eq!(
        (&found["valid"], &found["limit"]),
        (&true.into(), &"server".into()),
        "{found}"
    );
    let never_sent = found["not_sent"].as_u64().expect("a count");
    let sent = found["sent"].as_u64().expect("a count");
    assert!(never_sent > 0, "{found}");
    assert_eq!(found["planned"], sent + never_sent);
    // What was never sent was not answered in time.
    let judged = Measured::by(&[&[&*server.url("/"), "--slo", "errors=10%"][..], &flags].concat());
    assert_eq!(judged.0["verdict"], "slo missed", "{}", judged.0);
}

/// Half of the requests have no answer. What waits for their connections is not sent late by the generator, which is idle.
#[test]
fn a_server_that_lets_requests_time_out_is_the_servers_doing() {
    let count = AtomicUsize::new(0);
    let server = Server::answering(move |_| {
        if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            std::thread::sleep(Duration::from_secs(20));
        }
        vec![OK.to_vec()]
    });
    let flags = [
        "-c",
        "16",
        "-t",
        "1",
        "--rate",
        "300",
        "-d",
        "2s",
        "--timeout",
        "500ms",
    ];
    let measured = Measured::by(&[&[&*server.url("/")][..], &flags].concat());
    let found = &measured.0;
    assert_eq!(
        (&found["valid"], &found["limit"]),
        (&true.into(), &"server".into()),
        "{found}"
    );
}

/// Its errors are its own, whatever the generator did meanwhile, and so is a latency far beyond the generator's delays.
#[test]
fn a_server_that_dies_has_broken_its_promise() {
    let left = AtomicUsize::new(400);
    let server = Server::start(move |mut stream| {
        let mut unread = Vec::new();
        while read_request(&mut stream, &mut unread).is_some() {
            let is_dead = left.load(Ordering::Relaxed) == 0;
            if is_dead || stream.write_all(OK).is_err() {
                return;
            }
            left.fetch_sub(1, Ordering::Relaxed);
        }
    });
    let flags = [
        "-c",
        "1",
        "-t",
        "1",
        "--rate",
        "1000",
        "-d",
        "1s",
        "-q",
        "--slo",
        "errors=1%",
    ];
    let run = load(&[&[&*server.url("/")][..], &flags].concat());
    assert_eq!(run.status.code(), Some(3), "{}", run.stdout);
    assert!(
        run.stdout.starts_with("slo missed: errors "),
        "{}",
        run.stdout
    );
}

/// It has not shown what it was to show, and says why.
#[test]
fn a_run_that_was_ended_early_keeps_no_promise() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let server = Server::answering(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        // Beside this, no delay of the generator counts.
        std::thread::sleep(Duration::from_millis(20));
        vec![OK.to_vec()]
    });
    let url = server.url("/");
    for (slo, begins, status) in [
        (
            &["--slo", "p50=10s"][..],
            "not valid: ended early, as told; ",
            4,
        ),
        (&[], "measured: ended early, as told; ", 0),
    ] {
        let directory = Directory::new();
        let flags = ["load", &url, "--rate", "50", "-c", "2", "-d", "60s", "-q"];
        let mut run = Process::weir(&[&flags[..], slo].concat(), &directory);
        let before = asked.load(Ordering::Relaxed);
        wait_until("a few were answered", || {
            asked.load(Ordering::Relaxed) > before + 5
        });
        run.signal("TERM");
        assert_eq!(run.wait().code(), Some(status), "{}", run.output());
        assert!(run.output().starts_with(begins), "{}", run.output());
    }
}
