//! What cannot be done as it was asked is one clear line and exit code 2.

use super::load;
use crate::harness::tool::run_to_end;
use crate::harness::{App, Directory, free_port};

fn assert_refused(flags: &[&str], expected: &str) {
    let run = load(flags);
    assert_eq!(run.status.code(), Some(2), "{flags:?}: {}", run.stderr);
    assert_eq!(run.stdout, "", "{flags:?}");
    assert!(run.stderr.contains(expected), "{flags:?}: {}", run.stderr);
    // The parser of flags adds its own hints below.
    if !run.stderr.starts_with("error:") {
        assert_eq!(run.stderr.lines().count(), 1, "{flags:?}: {}", run.stderr);
    }
}

#[test]
fn mistakes_are_one_line() {
    let url = &*format!("http://127.0.0.1:{}/", free_port());
    let field = &*format!("{url}{{sequence}}");
    let range = &*format!("{url}{{rand:9..1}}");
    let cases: [(&[&str], &str); 20] = [
        (&[url], "cannot connect to 127.0.0.1"),
        (&[url, "--connections", "0"], "at least one connection"),
        (
            &[url, "-c", "2", "-t", "3"],
            "2 connections are too few for 3 threads",
        ),
        (
            &[url, "-c", "18446744073709551615"],
            "connections are beyond",
        ),
        (
            &[url, "--pipeline", "18446744073709551615"],
            "are beyond 65536",
        ),
        (&[url, "-t", "0"], "at least one thread"),
        (&[url, "-n", "0"], "at least one request"),
        (&[url, "-d", "0s"], "a duration above zero"),
        (&[url, "-d", "5"], "a duration such as"),
        (&[url, "--rate", "0"], "a rate above zero"),
        (&[url, "--rate=-1"], "a rate of -1/s is beyond"),
        (&[url, "--rate", "1e-12"], "less than one request a day"),
        (
            &[url, "--rate", "0.001", "-n", "1000000"],
            "1000000 requests at 0.001/s take more than a day",
        ),
        (&[url, "--steps", "100:5s,x"], "--steps"),
        (&[url, "--find-max"], "--slo"),
        (&[url, "--slo", "p99"], "expected promises such as"),
        (
            &[field],
            "{sequence} at byte 2: an unknown field; expected {seq}",
        ),
        (&[range], "{rand:9..1} at byte 2: an empty range"),
        (&["ftp://127.0.0.1/"], "ftp is no scheme"),
        (&[url, "--body", "@/nowhere"], "cannot read /nowhere"),
    ];
    for (flags, expected) in cases {
        assert_refused(flags, expected);
    }
}

#[test]
fn mistakes_in_a_mix_name_the_line() {
    let directory = Directory::new();
    for (text, expected) in [
        ("", "request: missing, add `[[request]]`"),
        (
            "[[request]]\npath = \"/{x}\"\n",
            "mix.toml:2: request[1].path: found \"/{x}\", {x} at byte 2: an unknown field",
        ),
        (
            "[[request]]\npath = \"/\"\nmethd = \"PUT\"\n",
            "mix.toml:3: request[1].methd: unknown key; did you mean \"method\"?",
        ),
        (
            "[[request]]\npath = \"/\"\nmethod = \"G T\"\n",
            "request 1: \"G T\" is no method",
        ),
    ] {
        let mix = directory.write("mix.toml", text);
        assert_refused(
            &["http://127.0.0.1:1/", "--mix", mix.to_str().expect("UTF-8")],
            expected,
        );
    }
}

/// Each thread needs a few descriptors of its own. One that cannot start must not leave the others waiting for it.
#[test]
fn threads_that_cannot_start_are_told() {
    let app = App::start("app");
    let url = format!("http://{}/", app.address);
    let weir = env!("CARGO_BIN_EXE_weir");
    let flags = ["load", &url, "-c", "200", "-t", "50", "-d", "1s"];
    let run = run_to_end("prlimit", &[&["--nofile=300", weir][..], &flags].concat());
    assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("use fewer --threads"), "{}", run.stderr);
}
