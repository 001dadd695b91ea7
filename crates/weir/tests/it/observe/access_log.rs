//! The access log: its two formats, where it is written, and how it is rotated.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use super::answering;
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything, wait_until};

/// A gateway that writes an access log in `format` at once, in front of `servers`.
fn logging(format: &str, servers: &[SocketAddr]) -> Gateway {
    logging_of(format, servers, "")
}

/// The same with more keys of the route.
fn logging_of(format: &str, servers: &[SocketAddr], keys: &str) -> Gateway {
    let forward = forward_everything(servers, "") + keys;
    Gateway::start_in(|directory| {
        let path = directory.file("access.log");
        let path = path.display();
        format!(
            "[access_log]\npath = \"{path}\"\nformat = \"{format}\"\nflush = \"100ms\"\n{forward}"
        )
    })
}

/// The lines of a log, once there are `count` of them.
fn lines(path: &Path, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    wait_until("the log has its lines", || {
        let bytes = std::fs::read(path).unwrap_or_default();
        let text = String::from_utf8(bytes).expect("a log is ASCII");
        lines = text.lines().map(str::to_owned).collect();
        lines.len() >= count
    });
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

#[test]
fn the_combined_log_has_the_fields_of_apache() {
    let origin = answering();
    let gateway = logging("combined", &[origin.address]);
    let requests: [&[u8]; 5] = [
        b"GET /a?b=c HTTP/1.1\r\nHost: test\r\nReferer: http://before.test/\r\nUser-Agent: curl/8\r\n\r\n",
        b"HEAD / HTTP/1.0\r\nHost: test\r\n\r\n",
        b"GET /\"quoted\" HTTP/1.1\r\nHost: test\r\nReferer: \"\r\nUser-Agent: a\\b\t\xc3\xa9\" 200 1 \"x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc",
    ];
    for (count, request) in requests.iter().enumerate() {
        let mut connection = Connection::open(gateway.address);
        connection.send(request);
        let method = if request.starts_with(b"HEAD") {
            "HEAD"
        } else {
            "GET"
        };
        connection.response_to(method).expect("an answer");
        drop(connection);
        // One at a time: workers write their lines apart.
        lines(&gateway.directory.file("access.log"), count + 1);
    }
    let lines = lines(&gateway.directory.file("access.log"), 5);
    let after_time: Vec<_> = lines
        .iter()
        .map(|line| {
            let (start, rest) = line.split_once(" [").expect("a time");
            assert_eq!(start, "127.0.0.1 - -");
            let (time, rest) = rest.split_once("] ").expect("the end of the time");
            let shape: String = time
                .chars()
                .map(|c| match c {
                    '0'..='9' => '9',
                    'a'..='z' | 'A'..='Z' => 'a',
                    other => other,
                })
                .collect();
            assert_eq!(shape, "99/aaa/9999:99:99:99 +9999");
            rest
        })
        .collect();
    let refused = "400 Bad Request: host_missing\n".len();
    assert_eq!(
        after_time,
        [
            r#""GET /a?b=c HTTP/1.1" 200 5 "http://before.test/" "curl/8""#.to_owned(),
            r#""HEAD / HTTP/1.0" 200 0 "-" "-""#.to_owned(),
            r#""GET /\x22quoted\x22 HTTP/1.1" 200 5 "\x22" "a\x5Cb\x09\xC3\xA9\x22 200 1 \x22x""#
                .to_owned(),
            format!(r#""-" 400 {refused} "-" "-""#),
            r#""POST / HTTP/1.1" 200 5 "-" "-""#.to_owned(),
        ]
    );
}

#[test]
fn the_json_log_has_every_field() {
    let origin = answering();
    let gateway = logging("json", &[origin.address]);
    let request = "POST /a?b=\"c\" HTTP/1.1\r\nHost: www.example.com:80\r\nReferer: a\\b\tc\r\n\
                   User-Agent: \"caf\u{e9}\"\r\nContent-Length: 3\r\n\r\nabc";
    let mut connection = Connection::open(gateway.address);
    connection.send(request);
    let response = connection.response();
    let line = lines(&gateway.directory.file("access.log"), 1).remove(0);
    let line: Value = serde_json::from_str(&line).expect("a line is an object");
    let object = line.as_object().expect("a line is an object");
    let mut names: Vec<_> = object.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "bytes_received",
            "bytes_sent",
            "client",
            "duration_us",
            "endpoint",
            "host",
            "method",
            "protocol",
            "referer",
            "route",
            "status",
            "target",
            "time",
            "upstream",
            "upstream_us",
            "user_agent"
        ]
    );
    for (name, expected) in [
        ("client", "127.0.0.1"),
        ("method", "POST"),
        ("target", "/a?b=\"c\""),
        ("host", "www.example.com:80"),
        ("route", "/{*rest}"),
        ("upstream", "app"),
        ("endpoint", &origin.address.to_string()),
        ("referer", "a\\b\tc"),
        // Bytes, not characters: what a client sends need not be UTF-8.
        ("user_agent", "\"caf\u{c3}\u{a9}\""),
    ] {
        assert_eq!(line[name], expected, "{name}");
    }
    assert_eq!(line["status"], 200);
    assert_eq!(line["bytes_received"], request.len());
    assert_eq!(line["bytes_sent"], response.head.len() + 5);
    let number = |name: &str| line[name].as_u64().expect("microseconds");
    assert!(number("upstream_us") <= number("duration_us"));
    let time = line["time"].as_str().expect("a time");
    assert!(time.len() >= 20 && time.as_bytes()[10] == b'T', "{time}");
}

/// What is stored is confirmed after an interim response that the client was sent, and answers it.
#[test]
fn an_interim_response_before_a_stored_answer_is_counted() {
    const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let origin = Origin::start(|mut peer, _| {
        while let Some(head) = peer.head() {
            peer.send(if head.contains("If-None-Match") {
                format!("{HINTS}HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n")
            } else {
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\nhello"
                    .to_owned()
            });
        }
    });
    let ask = |format: &str| {
        let gateway = logging_of(format, &[origin.address], "cache = true\n");
        let mut connection = Connection::open(gateway.address);
        connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(connection.response().text(), "hello");
        connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        connection.until(b"\r\n\r\n");
        let response = connection.response();
        assert_eq!(response.text(), "hello");
        let line = lines(&gateway.directory.file("access.log"), 2).remove(1);
        (line, HINTS.len() + response.head.len() + "hello".len())
    };
    let (line, sent) = ask("json");
    let line: Value = serde_json::from_str(&line).expect("a line is an object");
    assert_eq!(line["bytes_sent"], sent);
    let (line, _) = ask("combined");
    assert!(line.contains(" 200 5 "), "the body alone: {line}");
}

/// Requests that fail say why; what is not known of them is left out.
#[test]
fn the_json_log_names_the_failure() {
    let origin = Origin::answering("HTTP/1.1 200 OK\nContent-Length: 0\n\n");
    let gateway = logging("json", &[origin.address]);
    let log = gateway.directory.file("access.log");
    client::send(
        gateway.address,
        "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    );
    lines(&log, 1);
    client::get(gateway.address, "/b");
    let lines: Vec<Value> = lines(&log, 2)
        .iter()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    assert_eq!(lines[0]["failure"], "host_repeated");
    assert_eq!(lines[0]["status"], 400);
    for absent in ["method", "target", "host", "route", "upstream", "endpoint"] {
        assert_eq!(lines[0].get(absent), None, "{absent}");
    }
    assert_eq!(lines[1]["failure"], "bare_lf");
    assert_eq!(lines[1]["status"], 502);
    assert_eq!(lines[1]["target"], "/b");
}

#[test]
fn the_log_is_reopened_on_sigusr1() {
    let origin = answering();
    let gateway = logging("combined", &[origin.address]);
    let (log, rotated) = (
        gateway.directory.file("access.log"),
        gateway.directory.file("access.log.1"),
    );
    client::get(gateway.address, "/before");
    lines(&log, 1);
    std::fs::rename(&log, &rotated).expect("the log can be renamed");
    // Until it is told, it writes where it wrote.
    client::get(gateway.address, "/between");
    lines(&rotated, 2);
    gateway.process.signal("USR1");
    wait_until("the log is there again", || log.exists());
    client::get(gateway.address, "/after");
    assert!(lines(&log, 1)[0].contains("/after"));
    let rotated = lines(&rotated, 2);
    assert!(rotated[0].contains("/before") && rotated[1].contains("/between"));
}

#[test]
fn the_log_can_go_to_standard_output() {
    let origin = answering();
    let forward = forward_everything(&[origin.address], "");
    let gateway = Gateway::start(&format!(
        "[access_log]\npath = \"-\"\nflush = \"100ms\"\n{forward}"
    ));
    client::get(gateway.address, "/seen");
    wait_until("the line is printed", || {
        gateway
            .process
            .output()
            .contains("\"GET /seen HTTP/1.1\" 200 5")
    });
    // SIGUSR1 has nothing to reopen and does no harm.
    gateway.process.signal("USR1");
    client::get(gateway.address, "/still");
    wait_until("the line is printed", || {
        gateway.process.output().contains("/still")
    });
}
