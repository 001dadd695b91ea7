//! When lines of the access log come out, and what they leave out.

use super::answering;
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything, wait_until};

/// The line is there while its connection is open: long before a buffer for a file is handed over.
#[test]
fn standard_output_is_not_kept_waiting() {
    let origin = answering();
    let forward = forward_everything(&[origin.address], "");
    let gateway = Gateway::start(&format!(
        "[timeouts]\nidle = \"8s\"\n[access_log]\npath = \"-\"\n{forward}"
    ));
    let mut connection = Connection::open(gateway.address);
    for path in ["/first", "/second"] {
        assert_eq!(connection.get(path).status, 200);
        wait_until("the line is printed", || {
            gateway.process.output().contains(path)
        });
    }
    assert_eq!(connection.get("/third").status, 200, "it is still open");
}

/// However long it may be kept, and however little there is of it.
#[test]
fn a_terminal_is_told_line_by_line() {
    let origin = answering();
    let forward = forward_everything(&[origin.address], "");
    let config = format!("[access_log]\npath = \"-\"\nflush = \"5m\"\n{forward}");
    let mut gateway = Gateway::start_limited(&config, "exec script -qefc \"$0 $*\" /dev/null");
    client::get(gateway.address, "/seen");
    wait_until("the line is shown", || {
        gateway
            .process
            .output()
            .contains("\"GET /seen HTTP/1.1\" 200 5")
    });
    // It passes the signal on.
    gateway.process.signal("TERM");
    gateway.process.wait();
}

/// A pipe that nobody reads takes no more after 64 KiB.
#[test]
fn a_reader_that_has_stopped_delays_no_request() {
    let origin = answering();
    let forward = forward_everything(&[origin.address], "");
    let mut gateway = Gateway::start_limited(
        &format!("[access_log]\npath = \"-\"\nbuffer = \"1KiB\"\n{forward}"),
        "p=$(mktemp -u) && mkfifo $p && exec 1<>$p && rm $p",
    );
    let path = format!("/{}", "a".repeat(1000));
    let mut connection = Connection::open(gateway.address);
    wait_until("lines are dropped", || {
        for _ in 0..20 {
            assert_eq!(connection.get(&path).status, 200);
        }
        gateway.metric("weir_access_log_lines_dropped_total") > 0
    });
    drop(connection);
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait().code(), Some(0));
}

fn logging(format: &str, keys: &str, origin: &Origin) -> Gateway {
    let forward = forward_everything(&[origin.address], "");
    Gateway::start(&format!(
        "[access_log]\npath = \"-\"\nflush = \"100ms\"\nformat = '{format}'\n{keys}\n{forward}"
    ))
}

/// Asks for `target`, and returns the line.
fn line_of(gateway: &Gateway, target: &str) -> String {
    let response = client::send(
        gateway.address,
        &format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nReferer: http://before.test/?code=secret&a=1\r\n\
             User-Agent: a \"b\"\r\nX-Url: /x?token=secret\r\n\r\n"
        ),
    );
    assert_eq!(response.status, 200);
    let lines = || gateway.process.output();
    wait_until("the line is printed", || lines().contains("before.test"));
    let all = lines();
    let line = all.lines().find(|line| line.contains("before.test"));
    line.expect("it was there").to_owned()
}

#[test]
fn a_text_of_ones_own_has_what_it_names() {
    let origin = answering();
    let format = r#"{{{method}}} {path} {query} {host} {status} "{user_agent}" {failure} {request_header:x-url} {response_header:Content-Length} {referer} {time}"#;
    let gateway = logging(format, "", &origin);
    let line = line_of(&gateway, "/a?b=c");
    let (line, time) = line.rsplit_once(' ').expect("a time");
    assert_eq!(
        line,
        r#"{GET} /a b=c test 200 "a \x22b\x22" - /x?token=secret 5 http://before.test/?code=secret&a=1"#
    );
    let shape: String = time
        .chars()
        .map(|c| if c.is_ascii_digit() { '9' } else { c })
        .collect();
    assert_eq!(shape, "9999-99-99T99:99:99.999Z");
}

#[test]
fn what_is_redacted_is_in_no_line() {
    let named = "redact = [\"token\", \"code\"]";
    for (format, keys, expected) in [
        (
            "combined",
            named,
            r#""GET /a?token=REDACTED&b=1 HTTP/1.1" 200 5 "http://before.test/?code=REDACTED&a=1""#,
        ),
        (
            "combined",
            "redact = true",
            r#""GET /a?REDACTED HTTP/1.1" 200 5 "http://before.test/?REDACTED""#,
        ),
        (
            "json",
            "fields = [\"target\", \"query\", \"referer\", \"request_header:x-url\"]\nredact = [\"token\", \"code\"]",
            r#"{"target":"/a?token=REDACTED&b=1","query":"token=REDACTED&b=1","referer":"http://before.test/?code=REDACTED&a=1","request_header:x-url":"/x?token=REDACTED"}"#,
        ),
        (
            "{target} {query} {referer} {request_header:x-url}",
            "redact = true",
            "/a?REDACTED REDACTED http://before.test/?REDACTED /x?REDACTED",
        ),
    ] {
        let origin = answering();
        let gateway = logging(format, keys, &origin);
        let line = line_of(&gateway, "/a?token=secret&b=1");
        assert!(line.contains(expected), "{line}");
        assert!(!gateway.process.output().contains("secret"));
        // The upstream is asked for what was asked for.
        assert!(origin.next_head().starts_with("GET /a?token=secret&b=1 "));
    }
}
