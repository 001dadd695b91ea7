//! guard's interface (github.com/jiajunhuang/guard): `POST /app` with an app as JSON, and what was posted under any path
//! that is not one of weir's own.
//!
//! It answers with guard's statuses and, where guard has them, its words. Who may ask is decided as for all that changes
//! something.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, StatusCode};

use crate::admin::authentication;
use crate::admin::reply::{Refusal, Reply, of_type};
use crate::control::Control;
use crate::control::apps::{AppError, Apps};

/// The body may hold a page.
const BODY_BYTES_MAX: usize = 1 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers a request that is for none of weir's own paths.
pub(super) async fn answer(
    control: &Arc<Control>,
    apps: &Apps,
    request: Request<Incoming>,
    has_token: bool,
) -> Reply {
    if request.uri().path() != "/app" {
        let refused = authentication::refuse_foreign(&request, has_token);
        return refused.map_or_else(Reply::from, |()| of_type("application/json", apps.text()));
    }
    if request.method() != Method::POST {
        let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, String::new());
        let allow = HeaderValue::from_static("POST");
        reply.headers_mut().insert(ALLOW, allow);
        return reply;
    }
    let posted = post(control, request, has_token).await;
    posted.unwrap_or_else(Reply::from)
}

/// Like any change, it waits for workers and name servers, and for the disk: on a thread of its own.
async fn post(
    control: &Arc<Control>,
    request: Request<Incoming>,
    has_token: bool,
) -> Result<Reply, Refusal> {
    authentication::refuse_foreign(&request, has_token)?;
    authentication::refuse_forms(&request)?;
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let Ok(Ok(body)) = tokio::time::timeout(BODY_TIMEOUT, body).await else {
        return Ok(bad("expected a whole body of at most 1 MiB"));
    };
    let (control, body) = (Arc::clone(control), body.to_bytes());
    let posting = tokio::task::spawn_blocking(move || {
        let apps = control.apps()?;
        Some(control.post_app(apps, &body))
    });
    Ok(match posting.await {
        Ok(Some(Ok(()))) => plain(StatusCode::OK, "success!".to_owned()),
        Ok(Some(Err(AppError::Bad(what)))) => bad(&what),
        Ok(Some(Err(AppError::Unsaved(what)))) => plain(StatusCode::INTERNAL_SERVER_ERROR, what),
        Ok(None) | Err(_) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the change broke off".to_owned(),
        ),
    })
}

fn bad(what: &str) -> Reply {
    plain(
        StatusCode::BAD_REQUEST,
        format!("bad configuration: {what}"),
    )
}

fn plain(status: StatusCode, body: String) -> Reply {
    let mut reply = of_type("text/plain; charset=utf-8", body);
    *reply.status_mut() = status;
    reply
}
