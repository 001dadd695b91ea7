//! Heads for the tests of this crate, written as text.

use std::time::Duration;

use weir_http::head::HeadScan;
use weir_http::{Fields, HeadLimits, Method, RequestHead, ResponseHead};

use crate::Timestamp;
use crate::meta::{Demands, LifetimeSource, Meta};

const LIMITS: HeadLimits = HeadLimits {
    bytes: 1 << 20,
    fields: 200,
};

/// A response head and its bytes.
pub(crate) struct Response {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: ResponseHead,
}

impl Response {
    pub(crate) fn fields(&self) -> Fields<'_> {
        self.head.view(&self.bytes)
    }
}

pub(crate) fn response(text: &str) -> Response {
    let mut head = ResponseHead::default();
    head.parse(
        text.as_bytes(),
        &mut HeadScan::default(),
        LIMITS,
        Method::Get,
    )
    .expect("the test's response is valid");
    Response {
        bytes: text.as_bytes().to_vec(),
        head,
    }
}

/// A 200 with these lines.
pub(crate) fn ok(lines: &[&str]) -> Response {
    response(&with_lines("HTTP/1.1 200 OK", lines))
}

/// A request head and its bytes.
pub(crate) struct Request {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: RequestHead,
}

impl Request {
    pub(crate) fn fields(&self) -> Fields<'_> {
        self.head.view(&self.bytes)
    }
}

/// A GET with these lines.
pub(crate) fn get(lines: &[&str]) -> Request {
    let text = with_lines("GET / HTTP/1.1\r\nHost: h", lines);
    let mut head = RequestHead::default();
    head.parse(text.as_bytes(), &mut HeadScan::default(), LIMITS)
        .expect("the test's request is valid");
    Request {
        bytes: text.into_bytes(),
        head,
    }
}

fn with_lines(first: &str, lines: &[&str]) -> String {
    let mut text = format!("{first}\r\n");
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text
}

/// What was decided about a response that arrived at second 1000 and is fresh for 100 seconds.
pub(crate) fn meta() -> Meta {
    Meta {
        status: 200,
        request_time: Timestamp::from_secs(1000),
        response_time: Timestamp::from_secs(1000),
        date: Timestamp::from_secs(1000),
        last_modified: None,
        initial_age: Duration::ZERO,
        lifetime: Duration::from_secs(100),
        lifetime_source: LifetimeSource::MaxAge,
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: None,
        demands: Demands::default(),
    }
}
