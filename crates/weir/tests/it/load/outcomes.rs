//! Outcomes are what they are called, and none is lost.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;

use super::Measured;
use super::server::Server;
use crate::harness::origin::Origin;
use crate::harness::process::Process;
use crate::harness::{App, Directory, free_port, wait_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_number_of_requests_is_sent_exactly() {
    let app = App::start("a");
    let url = format!("http://{}/", app.address);
    for flags in [
        &["-c", "7", "-t", "3"][..],
        &["-c", "1"],
        &["-c", "4", "--pipeline", "8"],
        &["-c", "4", "--no-keep-alive"],
        &["-c", "4", "--rate", "5000"],
        &["-c", "4", "--pipeline", "8", "--poisson", "5000"],
    ] {
        let measured = Measured::by(&[&[&url, "--requests", "1001"], flags].concat());
        assert_eq!(measured.requests(), 1001, "{flags:?}");
        measured.assert_all("2xx");
    }
}

/// A socket takes a part of it at a time.
#[test]
fn a_large_body_is_sent_to_its_end() {
    const BYTES: usize = 6_000_000;
    let origin = Origin::start(|mut peer, _| {
        while peer.head().is_some() {
            assert_eq!(peer.body(BYTES).len(), BYTES);
            peer.send(OK);
        }
    });
    let directory = Directory::new();
    let body = directory.write("body", vec![b'x'; BYTES]);
    let body = format!("@{}", body.display());
    let url = format!("http://{}/", origin.address);
    let measured = Measured::by(&[
        &url,
        "-n",
        "5",
        "-c",
        "1",
        "--body",
        &body,
        "--timeout",
        "9s",
    ]);
    assert_eq!(measured.requests(), 5);
    measured.assert_all("2xx");
}

/// What ends when the time is over is measured, and raises no rate: its time is not in the run's.
#[test]
fn answers_after_the_end_are_in_no_rate() {
    let app = App::start_with("slow", free_port(), &["--delay", "700ms"]);
    let url = format!("http://{}/", app.address);
    let measured = Measured::by(&[&url, "-c", "4", "-t", "1", "-d", "1s"]);
    assert_eq!(measured.requests(), 8, "four in time, and four after it");
    let rate = measured.0["rate"].as_f64().expect("a rate");
    assert!(rate <= 4.0, "{rate}");
}

/// Also when all of it is sent in the end, as a number of requests is, or within the second that a run may catch up in.
#[test]
fn a_schedule_that_was_not_kept_is_not_valid() {
    let app = App::start_with("slow", free_port(), &["--delay", "20ms"]);
    let url = format!("http://{}/", app.address);
    for (flags, requests) in [
        (["--rate", "1000", "-n", "100"], 100),
        (["--rate", "60", "-d", "1s"], 60),
    ] {
        let measured = Measured::by(&[&[&*url, "-c", "1"][..], &flags].concat());
        assert_eq!(measured.requests(), requests, "{flags:?}");
        assert_eq!(measured.0["valid"], false, "{flags:?}");
        let why = measured.0["why_invalid"].to_string();
        assert!(why.contains("by the end of their schedule"), "{why}");
        assert!(why.contains("raise --connections"), "{why}");
    }
}

/// However few requests or many are planned, the run takes as long as it says.
#[test]
fn rates_that_no_machine_sends_end_in_time() {
    let app = App::start("a");
    let url = format!("http://{}/", app.address);
    for (flags, planned) in [
        (["--rate", "0.001", "-d", "1s"], 1..=1),
        // Counting one by one what nobody could send takes minutes.
        (["--rate", "1e9", "-d", "5s"], 4_900_000_000..=5_000_000_000),
    ] {
        let measured = Measured::by(&[&[&*url, "-c", "2"][..], &flags].concat());
        let found = measured.0["planned"].as_u64().expect("a number");
        assert!(planned.contains(&found), "{flags:?}: {found}");
        let why = measured.0["why_invalid"].to_string();
        let is_kept = !why.contains("by the end of their schedule");
        assert_eq!(is_kept, found == 1, "{flags:?}: {why}");
    }
}

#[test]
fn statuses_are_kept_apart() {
    let server = Server::answering(|request| {
        let status = request.split(['/', ' ']).nth(2).expect("a path").to_owned();
        vec![format!("HTTP/1.1 {status} X\r\nContent-Length: 1\r\n\r\nx").into_bytes()]
    });
    for (status, outcome) in [
        ("200", "2xx"),
        ("301", "3xx"),
        ("404", "4xx"),
        ("500", "5xx"),
    ] {
        let measured = Measured::by(&[&server.url(&format!("/{status}")), "-n", "100", "-c", "4"]);
        measured.assert_all(outcome);
        let is_good = status < "400";
        assert_eq!(
            measured.0["latency_us"]["p50"].is_number(),
            is_good,
            "{status}"
        );
        assert!(
            measured.0["latency_by_outcome_us"][outcome]["p50"].is_number(),
            "{status}"
        );
    }
}

#[test]
fn bodies_of_any_framing_are_read_to_their_end() {
    let answers: [&[&[u8]]; 4] = [
        &[
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
            b"llo\r\n0\r\n",
            b"\r\n",
        ],
        &[
            b"HTTP/1.1 200 OK\r\nConte",
            b"nt-Length: 4\r\n\r\n",
            b"ab",
            b"cd",
        ],
        &[b"HTTP/1.1 103 Early\r\n\r\n", OK],
        &[b"HTTP/1.1 204 No Content\r\n\r\n"],
    ];
    for pieces in answers {
        let owned: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let server = Server::answering(move |_| owned.clone());
        let measured = Measured::by(&[&server.url("/"), "-n", "200", "-c", "4"]);
        assert_eq!(measured.requests(), 200);
        measured.assert_all("2xx");
    }
}

/// Also behind pipelined requests, the rest of which is sent again, and where the end of the body is the end.
#[test]
fn a_server_that_closes_after_each_response_is_no_failure() {
    for answer in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\n\r\nuntil the end",
    ] {
        for depth in ["1", "3"] {
            let server = Server::answering(move |_| vec![answer.into()]);
            let flags = [
                "-n",
                "60",
                "-c",
                "3",
                "-H",
                "x: please-close",
                "--pipeline",
                depth,
            ];
            let measured = Measured::by(&[&[&*server.url("/")][..], &flags].concat());
            assert_eq!(measured.requests(), 60, "{answer} {depth}");
            measured.assert_all("2xx");
        }
    }
}

#[test]
fn a_server_that_resets() {
    let server = Server::start(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    });
    let measured = Measured::by(&[&server.url("/"), "-n", "50", "-c", "4"]);
    assert_eq!(measured.requests(), 50);
    measured.assert_all("reset");
}

#[test]
fn what_is_not_http_is_a_reset() {
    for answer in [
        &b"SSH-2.0-x\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
    ] {
        let server = Server::start(move |mut stream| {
            let _ = stream.read(&mut [0; 1024]);
            let _ = std::io::Write::write_all(&mut stream, answer);
        });
        Measured::by(&[&server.url("/"), "-n", "20", "-c", "2"]).assert_all("reset");
    }
}

#[test]
fn a_silent_server_times_out_with_the_full_time() {
    let server = Server::start(
        |mut stream| while stream.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {},
    );
    let measured = Measured::by(&[&server.url("/"), "-n", "8", "-c", "4", "--timeout", "300ms"]);
    assert_eq!(measured.requests(), 8);
    measured.assert_all("timeout");
    let least = measured.0["latency_by_outcome_us"]["timeout"]["min"].as_f64();
    assert!(least.expect("a latency") >= 299_000.0, "{}", measured.0);
}

/// Who dies while it is asked is seen to refuse, and is not asked in a busy loop.
#[test]
fn a_server_that_goes_away() {
    let mut app = App::start("a");
    let url = format!("http://{}/", app.address);
    let directory = Directory::new();
    let json = directory.file("json");
    let flags = [
        "load",
        &url,
        "-c",
        "4",
        "-d",
        "4s",
        "--json",
        json.to_str().expect("UTF-8"),
    ];
    let mut process = Process::weir(&flags, &directory);
    wait_until("it tells its progress", || {
        process.output().contains("/s, p50")
    });
    app.process.kill();
    let status = process.wait();
    let text = std::fs::read_to_string(json).expect("results are written");
    let measured = Measured::read(&text, status);
    assert!(measured.count("2xx") > 0, "{text}");
    let refused = measured.count("refused");
    assert!((1..=4 * 10).contains(&refused), "{text}");
}

#[test]
fn what_is_sent_follows_the_templates_and_the_mix() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let server = {
        let seen = Arc::clone(&seen);
        Server::answering(move |request| {
            seen.lock().expect("no panic").push(request.to_owned());
            vec![OK.to_vec()]
        })
    };
    let directory = Directory::new();
    let names = directory.write("names", "ann\nbob smith\n");
    let mix = format!(
        "[[request]]\nweight = 3\npath = \"/get/{{seq}}?name={{line:{}}}\"\n\
         [[request]]\nmethod = \"PUT\"\npath = \"/put\"\nheaders = {{ x-id = \"{{seq}}\" }}\nbody = \"{{rand:5..9}}\"\n",
        names.display()
    );
    let mix = directory.write("mix.toml", mix);
    let flags = [
        "-n",
        "400",
        "-c",
        "4",
        "-t",
        "2",
        "--mix",
        mix.to_str().expect("UTF-8"),
    ];
    Measured::by(&[&[&*server.url("/")][..], &flags].concat()).assert_all("2xx");
    let seen = seen.lock().expect("no panic");
    let mut numbers = BTreeSet::new();
    let mut puts = 0;
    for request in seen.iter() {
        let number = if let Some(rest) = request.strip_prefix("GET /get/") {
            let (number, rest) = rest.split_once("?name=").expect("a name");
            let number: u64 = number.parse().expect("a number");
            let name = ["ann", "bob%20smith"][number as usize % 2];
            assert!(
                rest.starts_with(&format!("{name} HTTP/1.1\r\nHost: ")),
                "{request}"
            );
            number
        } else {
            puts += 1;
            assert!(request.starts_with("PUT /put HTTP/1.1\r\n"), "{request}");
            assert!(request.contains("\r\nContent-Length: 1\r\n"), "{request}");
            assert!("56789".contains(&request[request.len() - 1..]), "{request}");
            let id = request.lines().find_map(|line| line.strip_prefix("x-id: "));
            id.and_then(|id| id.parse().ok()).expect("a number")
        };
        assert!(numbers.insert(number), "{number} was sent twice");
    }
    assert_eq!(numbers, (0..400).collect());
    assert!((60..140).contains(&puts), "a quarter of 400: {puts}");
}

/// Ends early, says so, and says what it has.
#[test]
fn an_interrupted_run_reports() {
    let app = App::start("a");
    let measured = interrupted(&format!("http://{}/", app.address), &["-c", "2"]);
    assert!(measured.count("2xx") > 0, "{}", measured.0);
    assert!(measured.0["seconds"].as_f64().expect("a number") < 30.0);
}

/// What becomes due while the last answers are waited for was not to be sent.
#[test]
fn an_interrupted_schedule_ends_at_once() {
    let app = App::start_with("slow", free_port(), &["--delay", "400ms"]);
    let url = format!("http://{}/", app.address);
    let measured = interrupted(&url, &["-c", "64", "--rate", "50"]);
    let not_sent = measured.0["not_sent"].as_u64().expect("a number");
    assert!(not_sent < 50 / 5, "of 20 in 400 ms: {}", measured.0);
}

/// What `weir load` measured until it was interrupted.
fn interrupted(url: &str, flags: &[&str]) -> Measured {
    let directory = Directory::new();
    let json = directory.file("json");
    let flags = [
        &[
            "load",
            url,
            "-d",
            "60s",
            "--json",
            json.to_str().expect("UTF-8"),
        ][..],
        flags,
    ];
    let mut process = Process::weir(&flags.concat(), &directory);
    // A line on the progress: the run has begun.
    wait_until("it tells its progress", || {
        process.output().contains("/s, p50")
    });
    process.signal("INT");
    let status = process.wait();
    assert!(
        process.output().contains("ended early"),
        "{}",
        process.output()
    );
    let text = std::fs::read_to_string(json).expect("results are written");
    let measured = Measured::read(&text, status);
    assert_eq!(measured.0["cut_short"], true);
    measured
}
