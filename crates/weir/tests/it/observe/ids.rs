//! By what a request is known: taken, made, passed on, logged and told.

use std::path::Path;

use serde_json::Value;

use super::answering;
use crate::harness::client::{self, Connection};
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything, wait_until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A gateway that logs JSON, with `config` besides, in front of `origin`.
fn logging(config: &str, origin: &Origin) -> Gateway {
    let forward = forward_everything(&[origin.address], "");
    Gateway::start_in(|directory| {
        let path = directory.file("access.log");
        let path = path.display();
        format!(
            "[access_log]\npath = \"{path}\"\nformat = \"json\"\nflush = \"100ms\"\n{config}\n{forward}"
        )
    })
}

/// The last of `count` lines of a log.
fn line(gateway: &Gateway, count: usize) -> Value {
    let path = gateway.directory.file("access.log");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    wait_until("the log has its lines", || {
        read(&path).lines().count() >= count
    });
    let text = read(&path);
    let line = text.lines().nth(count - 1).expect("it is there");
    serde_json::from_str(line).expect("a line is an object")
}

/// The values of a field in a head as it was sent.
fn values<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let named = fields.filter(|(own, _)| own.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.trim()).collect()
}

fn is_made(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[test]
fn one_id_and_one_trace_go_through_two_hops() {
    let origin = answering();
    let inner = logging(
        "[trusted_proxies]\nnetworks = [\"127.0.0.1/32\"]\n[request_id]\n",
        &origin,
    );
    let forward = forward_everything(&[inner.address], "");
    let outer = Gateway::start_in(|directory| {
        let path = directory.file("access.log");
        let path = path.display();
        format!(
            "[access_log]\npath = \"{path}\"\nformat = \"json\"\nflush = \"100ms\"\n[request_id]\nrespond = true\n{forward}"
        )
    });
    let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let response = client::send(
        outer.address,
        &format!(
            "GET / HTTP/1.1\r\nHost: test\r\nX-Request-Id: forged\r\nX_Request_Id: forged\r\n\
             traceparent: {traceparent}\r\ntracestate: a=b\r\n\r\n"
        ),
    );
    let id = response
        .field("x-request-id")
        .expect("it is told")
        .to_owned();
    assert!(is_made(&id), "{id}");
    let asked = origin.next_head();
    assert_eq!(values(&asked, "x-request-id"), [id.as_str()]);
    assert!(!asked.contains("forged"), "{asked}");
    assert_eq!(values(&asked, "traceparent"), [traceparent.as_str()]);
    assert_eq!(values(&asked, "tracestate"), ["a=b"]);
    for gateway in [&outer, &inner] {
        let line = line(gateway, 1);
        assert_eq!(line["request_id"], id.as_str());
        assert_eq!(line["trace_id"], TRACE);
        assert_eq!(line["protocol"], "HTTP/1.1");
    }
    let line = line(&inner, 1);
    assert_eq!(
        (&line["peer"], &line["client"]),
        (&"127.0.0.1".into(), &"127.0.0.1".into())
    );
    // Another request is another one.
    let other = client::get(outer.address, "/");
    assert_ne!(other.field("x-request-id"), Some(id.as_str()));
}

#[test]
fn an_id_is_taken_when_it_is_one() {
    let origin = answering();
    let gateway = logging(
        "[request_id]\nheader = \"X-Correlation-Id\"\ntrust = \"any\"\n",
        &origin,
    );
    let longest = "a".repeat(128);
    let too_long = "a".repeat(129);
    let cases: [(&[&str], bool); 8] = [
        (&["7f3b-1:x=y/z+@~._"], true),
        (&[&longest], true),
        (&[&too_long], false),
        (&[""], false),
        (&["a b"], false),
        (&["a,b"], false),
        (&["a\"b"], false),
        (&["a", "a"], false),
    ];
    for (count, (sent, is_taken)) in cases.into_iter().enumerate() {
        let lines = sent.iter().map(|id| format!("X-Correlation-ID: {id}\r\n"));
        let fields = lines.collect::<Vec<_>>().concat();
        let response = client::send(
            gateway.address,
            &format!("GET / HTTP/1.1\r\nHost: test\r\n{fields}\r\n"),
        );
        assert_eq!(
            response.field("x-correlation-id"),
            None,
            "it was not asked for"
        );
        let asked = origin.next_head();
        let ids = values(&asked, "x-correlation-id");
        assert_eq!(ids.len(), 1, "{asked}");
        assert_eq!(ids[0] == sent[0], is_taken, "{sent:?}");
        assert!(is_taken || is_made(ids[0]), "{ids:?}");
        assert_eq!(line(&gateway, count + 1)["request_id"], ids[0]);
    }
}

#[test]
fn who_is_refused_is_told_the_id_too() {
    let gateway = Gateway::start_in(|directory| {
        let path = directory.file("access.log");
        let path = path.display();
        format!(
            "[access_log]\npath = \"{path}\"\nformat = \"json\"\nfields = [\"request_id\", \"status\"]\nflush = \"100ms\"\n\
             [request_id]\nrespond = true\n[response_headers]\nalways = {{ x-frame-options = \"DENY\" }}\n\
             [[route]]\npath = \"/only\"\nmethods = [\"GET\"]\nrespond = {{ body = \"x\" }}\n"
        )
    });
    for (count, (request, status)) in [
        ("GET /only HTTP/1.1\r\nHost: test\r\n\r\n", 200),
        ("GET /other HTTP/1.1\r\nHost: test\r\n\r\n", 404),
        (
            "POST /only HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n",
            405,
        ),
        ("GET / HTTP/1.1\r\n\r\n", 400),
    ]
    .into_iter()
    .enumerate()
    {
        let mut connection = Connection::open(gateway.address);
        connection.send(request);
        let response = connection.response();
        assert_eq!(response.status, status);
        assert_eq!(response.field("x-frame-options"), Some("DENY"), "{status}");
        let id = response.field("x-request-id").expect("it is told");
        let line = line(&gateway, count + 1);
        assert_eq!(
            (&line["request_id"], &line["status"]),
            (&id.into(), &status.into())
        );
        assert_eq!(line.as_object().map(serde_json::Map::len), Some(2));
    }
}
