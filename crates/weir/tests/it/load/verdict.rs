//! What a build server sees: one line, and an exit status.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::server::Server;
use super::{Measured, load};
use crate::harness::{App, free_port};

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
        vec![b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()]
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
