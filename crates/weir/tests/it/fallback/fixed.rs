//! Fixed answers: their kinds, whom they are for, and what the log says.

use serde_json::Value;

use super::{BREAKER, assert_fell_back, broken, dead, falling_back, open_breaker};
use crate::harness::client::{Connection, get, send};
use crate::harness::{Gateway, wait_until};

#[test]
fn an_answer_is_text_json_html_or_a_file() {
    for (fallback, status, content_type, body) in [
        (
            "{ body = \"busy\" }",
            503,
            "text/plain; charset=utf-8",
            "busy",
        ),
        (
            "{ status = 429, json = { error = \"busy\" } }",
            429,
            "application/json",
            r#"{"error":"busy"}"#,
        ),
        (
            "{ status = 200, content_type = \"text/html\", body = \"<p>busy\" }",
            200,
            "text/html",
            "<p>busy",
        ),
        (
            "{ file = \"SORRY\" }",
            503,
            "text/html; charset=utf-8",
            "<p>from a file",
        ),
    ] {
        let sorry = crate::harness::Directory::new();
        let file = sorry.write("sorry.html", "<p>from a file");
        let fallback = fallback.replace("SORRY", file.to_str().expect("UTF-8"));
        let gateway = falling_back(dead(), "", &format!("fallback = {fallback}"));
        // It is read once: what is answered when nothing else works must not depend on a disk.
        drop(sorry);
        let mut connection = Connection::open(gateway.address);
        for _ in 0..2 {
            let response = connection.get("/");
            assert_eq!(
                (response.status, response.field("content-type")),
                (status, Some(content_type)),
                "{}",
                response.head
            );
            assert_eq!(response.text(), body);
        }
        connection.send("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
        let head = connection.response_to("HEAD").expect("an answer");
        assert_eq!(head.field("content-length"), Some(&*body.len().to_string()));
        assert_fell_back(&gateway, "answer", 3);
    }
}

#[test]
fn the_log_has_the_failure_beside_the_status_that_was_sent() {
    let gateway = falling_back(dead(), "", "fallback = { status = 200, body = \"calm\" }");
    assert_eq!(get(gateway.address, "/").status, 200);
    let path = gateway.directory.file("access.log");
    let mut line = String::new();
    wait_until("the log has its line", || {
        line = std::fs::read_to_string(&path).unwrap_or_default();
        line.ends_with('\n')
    });
    let line: Value = serde_json::from_str(&line).expect("a line of JSON");
    assert_eq!(line["status"], 200);
    assert_eq!(line["failure"], "connect_failed");
    assert_eq!(line["fallback"], "answer");
    gateway.wait_for_metric(
        "weir_failures_total{fault=\"upstream\",reason=\"connect_failed\"",
        1,
    );
}

#[test]
fn refused_and_failed_requests_are_told_apart() {
    let answer = |on: &str| {
        format!(
            "{BREAKER}\nfallback = {{ on = \"{on}\", status = 429, body = \"too many requests\" }}"
        )
    };
    let refused = |gateway: &Gateway| {
        open_breaker(gateway);
        get(gateway.address, "/")
    };
    let origin = broken();
    let response = refused(&falling_back(origin.address, "", &answer("refused")));
    assert_eq!(
        (response.status, &*response.text()),
        (429, "too many requests")
    );
    let wait = response
        .field("retry-after")
        .and_then(|wait| wait.parse::<u64>().ok());
    assert!(wait.is_some_and(|wait| wait > 0), "{}", response.head);
    let response = refused(&falling_back(origin.address, "", &answer("failed")));
    assert_eq!(response.status, 503);
    assert!(response.field("retry-after").is_some());
    for (on, status) in [("refused", 502), ("failed", 429), ("any", 429)] {
        let response = get(falling_back(dead(), "", &answer(on)).address, "/");
        assert_eq!(response.status, status, "{on}");
        assert_eq!(response.field("retry-after"), None);
    }
}

#[test]
fn an_answer_of_the_service_is_passed_on_whatever_it_says() {
    let origin = broken();
    let gateway = falling_back(origin.address, "", "fallback = { body = \"calm\" }");
    assert_eq!(get(gateway.address, "/").status, 500);
    assert_fell_back(&gateway, "answer", 0);
}

#[test]
fn what_the_client_did_is_answered_as_ever() {
    let more = "rate = { requests = 1, per = \"600s\", burst = 1 }\nbody_limit = 3\nfallback = { status = 200, body = \"calm\" }";
    let gateway = falling_back(dead(), "", more);
    let large = "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nfour";
    assert_eq!(send(gateway.address, large).status, 413);
    assert_eq!(get(gateway.address, "/").status, 200);
    let limited = get(gateway.address, "/");
    assert_eq!(limited.status, 429, "who asks too often is told so");
    assert!(limited.field("retry-after").is_some());
    assert_fell_back(&gateway, "answer", 1);
}

#[test]
fn a_body_that_has_not_arrived_ends_the_connection_behind_the_answer() {
    let gateway = falling_back(dead(), "", "fallback = { body = \"calm\" }");
    let mut connection = Connection::open(gateway.address);
    connection.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\nbegun");
    let response = connection.response();
    assert_eq!((response.status, &*response.text()), (503, "calm"));
    assert_eq!(response.field("connection"), Some("close"));
}
