//! What the service answers: from a received request to its response.
//!
//! Pure: no sockets, no waiting, no clock; the time and the randomness are arguments. The four functions with work are
//! those of the services that weir was measured with. They do their work for each request and keep nothing for the
//! next one: caching is the task of the gateway in front.

use std::hint::black_box;

use fastrand::Rng;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use weir_http::date::Civil;
use weir_http::form;

use super::payload::{Payload, Record};
use super::receive::{BodyFault, FORM_BYTES_MAX};

const SECONDS_PER_DAY: u64 = 86_400;

/// How many strings `/handle` and `/sendEvent` encode. The loop they come from counts from 0 to 1000 inclusive.
const ENCODINGS: usize = 1001;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// 612 bytes, the length of the nginx welcome page, which published measurements of proxies tend to fetch.
static PAGE: &[u8; 612] = include_bytes!("page.html");

/// What a method and a path lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// A function, by a method that it has.
    To(Function),
    /// A known path with a method that it does not allow.
    WrongMethod { allow: &'static str },
    /// No such path.
    Unknown,
}

/// The functions of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Page,
    Health,
    WhatDateIsIt,
    WhatIsMyName,
    Handle,
    SendEvent,
    Produce,
    Stats,
    StatsTimes,
}

/// Finds the function. HEAD is allowed wherever GET is.
pub(super) fn route(method: &Method, path: &str) -> Route {
    let (function, allow) = match path {
        "/" => (Function::Page, "GET, HEAD"),
        "/healthz" => (Function::Health, "GET, HEAD"),
        "/what-date-is-it" => (Function::WhatDateIsIt, "GET, HEAD"),
        "/what-is-my-name" => (Function::WhatIsMyName, "POST"),
        "/handle" => (Function::Handle, "GET, HEAD"),
        "/sendEvent" => (Function::SendEvent, "POST"),
        "/stats" => (Function::Stats, "GET, HEAD"),
        "/stats/times" => (Function::StatsTimes, "GET, HEAD"),
        "/produce" => (Function::Produce, "POST"),
        _ => return Route::Unknown,
    };
    if allow.split(", ").any(|allowed| allowed == method.as_str()) {
        Route::To(function)
    } else {
        Route::WrongMethod { allow }
    }
}

/// Answers what `route` found, given the received body. The answer to HEAD is that to GET; the server leaves out the
/// body when it sends it.
pub(super) fn answer(
    route: Route,
    body: Result<Bytes, BodyFault>,
    unix_now: u64,
    work: Work,
) -> Response<Payload> {
    let body = match body {
        Ok(body) => body,
        Err(fault) => return refuse_body(fault),
    };
    match route {
        Route::To(Function::Page) => whole(StatusCode::OK, HTML, &PAGE[..]),
        Route::To(Function::Health) => healthy(),
        Route::To(Function::WhatDateIsIt) => what_date_is_it(unix_now),
        Route::To(Function::WhatIsMyName) => what_is_my_name(&body),
        Route::To(Function::Handle) => {
            work.on(10, &mut Rng::new());
            whole(StatusCode::OK, JSON, "done!")
        }
        Route::To(Function::SendEvent) => {
            handle_event(work);
            whole(StatusCode::OK, JSON, "event is saved!")
        }
        // These take more than the request, see `Service`.
        Route::To(Function::Produce | Function::Stats | Function::StatsTimes) => whole(
            StatusCode::NOT_IMPLEMENTED,
            TEXT,
            "this weir was built without Kafka\n",
        ),
        Route::WrongMethod { allow } => {
            let text = format!("this path has only {allow}\n");
            let refusal = whole(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
            with(refusal, header::ALLOW, HeaderValue::from_static(allow))
        }
        Route::Unknown => whole(
            StatusCode::NOT_FOUND,
            TEXT,
            "there is nothing at this path\n",
        ),
    }
}

/// The answer of `/healthz`.
pub(super) fn healthy() -> Response<Payload> {
    whole(StatusCode::OK, TEXT, "ok")
}

/// The answer of `/produce`.
#[cfg(feature = "kafka")]
pub(super) fn produced(result: Result<(), String>) -> Response<Payload> {
    match result {
        Ok(()) => whole(StatusCode::ACCEPTED, JSON, "{}\n"),
        Err(why) => whole(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
    }
}

/// The answer of `/handle` when nobody took its event.
pub(super) fn not_taken(why: &str) -> Response<Payload> {
    whole(StatusCode::BAD_GATEWAY, TEXT, format!("{why}\n"))
}

/// The answer of `--fail-ratio`.
pub(super) fn failed_on_purpose() -> Response<Payload> {
    whole(
        StatusCode::INTERNAL_SERVER_ERROR,
        TEXT,
        "failed on purpose\n",
    )
}

/// Text that is JSON.
pub(super) fn json(text: String) -> Response<Payload> {
    whole(StatusCode::OK, JSON, text)
}

/// Today's date, which caches may keep for as long as it is true.
fn what_date_is_it(unix_now: u64) -> Response<Payload> {
    let second_of_day = unix_now % SECONDS_PER_DAY;
    let today = Civil::from_unix(unix_now - second_of_day);
    let record = Record::Date {
        year: today.year,
        month: today.month,
        day: today.day,
    };
    let response = ok(JSON, Payload::records(record));
    let max_age = SECONDS_PER_DAY - second_of_day;
    let response = with(
        response,
        header::CACHE_CONTROL,
        ascii(format!("public, max-age={max_age}").into_bytes()),
    );
    let mut last_modified = Vec::new();
    today.write_imf_fixdate(&mut last_modified);
    with(response, header::LAST_MODIFIED, ascii(last_modified))
}

/// The form's `name`, which must be there exactly once.
fn what_is_my_name(body: &[u8]) -> Response<Payload> {
    let parameters = match form::parameters(body) {
        Ok(parameters) => parameters,
        Err(error) => return bad_request(format!("the form is broken: {error}\n")),
    };
    let mut names = parameters
        .into_iter()
        .filter_map(|(name, value)| (name == "name").then_some(value));
    match (names.next(), names.next()) {
        (Some(name), None) => ok(JSON, Payload::records(Record::Name { name })),
        (Some(_), Some(_)) => bad_request("the form parameter name is there more than once\n"),
        (None, _) => bad_request("the form parameter name is missing\n"),
    }
}

/// The work of `/sendEvent`.
pub(super) fn handle_event(work: Work) {
    work.on(50, &mut Rng::new());
}

/// How often `/handle` and `/sendEvent` do their work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work(pub(super) u16);

impl Work {
    /// Each string of so many letters is made, encoded and thrown away.
    fn on(self, letters: usize, rng: &mut Rng) {
        for _ in 0..ENCODINGS * usize::from(self.0) {
            let text: String = std::iter::repeat_with(|| rng.alphabetic())
                .take(letters)
                .collect();
            // Nobody reads the encoding. Without the box the compiler may leave out the work.
            black_box(serde_json::to_vec(black_box(&text)).expect("a string always encodes"));
        }
    }
}

fn refuse_body(fault: BodyFault) -> Response<Payload> {
    let (status, text) = match fault {
        BodyFault::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the form is longer than {FORM_BYTES_MAX} bytes\n"),
        ),
        BodyFault::TooSlow => (
            StatusCode::REQUEST_TIMEOUT,
            "the body took too long\n".to_owned(),
        ),
        BodyFault::Broken => (StatusCode::BAD_REQUEST, "the body is broken\n".to_owned()),
    };
    // The rest of the body would be taken for the next request.
    with(
        whole(status, TEXT, text),
        header::CONNECTION,
        HeaderValue::from_static("close"),
    )
}

pub(super) fn bad_request(text: impl Into<Bytes>) -> Response<Payload> {
    whole(StatusCode::BAD_REQUEST, TEXT, text)
}

fn whole(
    status: StatusCode,
    content_type: HeaderValue,
    bytes: impl Into<Bytes>,
) -> Response<Payload> {
    let mut response = ok(content_type, Payload::Bytes(bytes.into()));
    *response.status_mut() = status;
    response
}

fn ok(content_type: HeaderValue, payload: Payload) -> Response<Payload> {
    with(Response::new(payload), header::CONTENT_TYPE, content_type)
}

fn with(
    mut response: Response<Payload>,
    name: HeaderName,
    value: HeaderValue,
) -> Response<Payload> {
    response.headers_mut().insert(name, value);
    response
}

fn ascii(value: Vec<u8>) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(value))
        .expect("digits, letters and punctuation make a header value")
}

#[cfg(test)]
mod tests;
