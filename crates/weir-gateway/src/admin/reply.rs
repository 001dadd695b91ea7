//! Answers of the control listener.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use serde::Serialize;

pub(super) type Reply = Response<Full<Bytes>>;

pub(super) fn of_type(content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    let content_type = HeaderValue::from_static(content_type);
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut reply = of_type("text/plain; charset=utf-8", body);
    *reply.status_mut() = status;
    reply
}

/// An answer to a program.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    let mut body = serde_json::to_vec(body).expect("plain values have a JSON form");
    body.push(b'\n');
    let mut reply = of_type("application/json", body);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// Why a request of a program is not granted: `{"error": "what was found and what would do"}`.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    what: String,
    /// The methods that the path has.
    allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, what: impl Into<String>) -> Self {
        let (what, allow) = (what.into(), None);
        Self {
            status,
            what,
            allow,
        }
    }

    /// What was sent makes no sense.
    pub(super) fn wrong(what: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, what)
    }

    /// The path has only these methods.
    pub(super) fn method(allow: &'static str) -> Self {
        let what = format!("expected one of the methods {allow}");
        Self {
            allow: Some(allow),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, what)
        }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        #[derive(Serialize)]
        struct Error {
            error: String,
        }
        let error = refusal.what;
        let mut reply = json(refusal.status, &Error { error });
        if let Some(allow) = refusal.allow {
            let allow = HeaderValue::from_static(allow);
            reply.headers_mut().insert(ALLOW, allow);
        }
        reply
    }
}
