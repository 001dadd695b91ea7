//! One health check: what is asked, and which answers are good.

use serde_json::Value;

use super::status_of;
use crate::harness::origin::Origin;
use crate::harness::{Gateway, forward_everything, wait_until};

/// What a check that is made so often says of an origin: null for a good one, or what is wrong.
fn verdict(origin: &Origin, keys: &str) -> Value {
    let health = format!("health = {{ path = \"/well?deep=1\", interval = \"100ms\", {keys} }}");
    let gateway = Gateway::start(&forward_everything(&[origin.address], &health));
    let check = || status_of(&gateway, origin.address)["check"].clone();
    wait_until("it was checked", || !check().is_null());
    check()["error"].clone()
}

fn answering(response: impl AsRef<[u8]>) -> Origin {
    let response = response.as_ref().to_vec();
    Origin::start(move |mut peer, _| {
        while peer.head().is_some() {
            peer.send(&response);
        }
    })
}

#[test]
fn the_request_is_a_plain_get_with_the_host_of_the_endpoint_or_another() {
    let origin = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(verdict(&origin, ""), Value::Null);
    let head = origin.next_head();
    assert!(head.starts_with("GET /well?deep=1 HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains(&format!("host: {}\r\n", origin.address)),
        "{head}"
    );
    assert!(head.contains("user-agent: weir health check\r\n"), "{head}");
    assert!(head.contains("connection: close\r\n"), "{head}");

    let origin = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(verdict(&origin, "host = \"app.internal\""), Value::Null);
    assert!(origin.next_head().contains("host: app.internal\r\n"));
}

#[test]
fn an_answer_is_judged_by_its_status_and_by_what_its_body_contains() {
    let plain = |status: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let padded = |padding: usize| plain("200 OK", &("x".repeat(padding) + "ready"));
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nrea\r\n2\r\ndy\r\n0\r\n\r\n";
    let ready = "body = \"ready\"";
    let lacks = "the answer to GET /well?deep=1 does not contain \"ready\"";
    let with = |status| format!("GET /well?deep=1 was answered with {status}");
    let cases = [
        (plain("302 Found", ""), "", None),
        (plain("404 Not Found", ""), "", Some(with(404))),
        (plain("302 Found", ""), "statuses = [200]", Some(with(302))),
        (plain("418 T", ""), "statuses = [\"200-204\", 418]", None),
        (
            format!("HTTP/1.1 103 E\r\n\r\n{}", plain("200 OK", "")),
            "",
            None,
        ),
        (plain("200 OK", "all are ready."), ready, None),
        (
            plain("200 OK", "all are read."),
            ready,
            Some(lacks.to_owned()),
        ),
        (plain("503 S", "ready"), ready, Some(with(503))),
        (chunked.to_owned(), ready, None),
        (padded((64 << 10) - 5), ready, None),
        (padded((64 << 10) - 4), ready, Some(lacks.to_owned())),
    ];
    for (response, keys, expected) in cases {
        let shown = response.chars().take(60).collect::<String>();
        let found = verdict(&answering(&response), keys);
        assert_eq!(found.as_str(), expected.as_deref(), "{shown} {keys}");
    }
}

#[test]
fn what_is_no_answer_in_time_is_a_bad_one() {
    let silent = Origin::start(|mut peer, _| while peer.head().is_some() {});
    let found = verdict(&silent, "timeout = \"200ms\"");
    assert_eq!(found, "it took longer than 200 ms");

    // It begins well, and its text would come some day.
    let slow = Origin::start(|mut peer, _| {
        if peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nrea");
            peer.head();
        }
    });
    let found = verdict(&slow, "timeout = \"200ms\", body = \"ready\"");
    assert_eq!(found, "it took longer than 200 ms");

    for broken in ["", "220 mail.example.com ESMTP\r\n"] {
        let closing = Origin::start(move |mut peer, _| {
            peer.head();
            peer.send(broken);
        });
        let found = verdict(&closing, "").to_string();
        assert!(
            found.contains("GET /well?deep=1 was not answered: "),
            "{found}"
        );
    }
}
