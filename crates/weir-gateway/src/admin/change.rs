//! The part of the control API that changes the gateway. All of it speaks JSON, and answers once every worker has taken the
//! change up.
//!
//! ```text
//! POST   /reload                                 → {"generation", "changes": ["a line for each"], "needs_restart": ["a key"]};
//!                                                  409 when refused
//! GET    /upstreams                              → see `Listing`
//! PUT    /upstreams/NAME/servers/SERVER          {"weight": 5}: it is there and takes requests
//! PATCH  /upstreams/NAME/servers/SERVER          {"weight": 5, "draining": true}, or one of both
//! DELETE /upstreams/NAME/servers/SERVER          what is on its way there ends by itself
//! DELETE /upstreams/NAME/changes                 its servers are those of the file
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::admin::authentication;
use crate::admin::reply::{Refusal, Reply, json};
use crate::admin::upstreams::Listing;
use crate::changes::Changes;
use crate::control::Control;
use crate::control::servers::{Edit, EditError, WEIGHT_MAX};
use crate::settings::Level;
use crate::tell::tell;

const BODY_BYTES_MAX: usize = 4 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A requested change that can be read. It may still be refused.
#[derive(Debug)]
enum Change {
    Reload,
    Server {
        upstream: String,
        server: String,
        edit: Edit,
    },
    Reset {
        upstream: String,
    },
}

/// The body of `PUT` and `PATCH`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Wanted {
    weight: Option<u32>,
    draining: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Changed {
    generation: u64,
    changes: Vec<String>,
    needs_restart: Vec<&'static str>,
}

/// Answers a request for `/reload`, `/upstreams` and what is below it.
pub(super) async fn answer(
    control: &Arc<Control>,
    request: Request<Incoming>,
    has_token: bool,
) -> Reply {
    let result = async {
        authentication::refuse_foreign(&request, has_token)?;
        if request.uri().path() == "/upstreams" {
            return match *request.method() {
                Method::GET | Method::HEAD => {
                    let snapshot = control.shared.snapshot();
                    let upstreams = Listing::read(control, &snapshot);
                    Ok(json(StatusCode::OK, &upstreams))
                }
                _ => Err(Refusal::method("GET, HEAD")),
            };
        }
        let peer = request.extensions().get::<SocketAddr>().copied();
        let wanted = read(request).await?;
        change(control, wanted, peer).await
    };
    let result: Result<Reply, Refusal> = result.await;
    result.unwrap_or_else(Reply::from)
}

/// What is to be changed.
async fn read(request: Request<Incoming>) -> Result<Change, Refusal> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match segments.as_slice() {
        ["reload"] if request.method() == Method::POST => {
            authentication::require_json(&request)?;
            Ok(Change::Reload)
        }
        ["reload"] => Err(Refusal::method("POST")),
        ["upstreams", upstream, "servers", server] => Ok(Change::Server {
            upstream: decoded(upstream)?,
            server: decoded(server)?,
            edit: edit(request).await?,
        }),
        ["upstreams", upstream, "changes"] if request.method() == Method::DELETE => {
            Ok(Change::Reset {
                upstream: decoded(upstream)?,
            })
        }
        ["upstreams", _, "changes"] => Err(Refusal::method("DELETE")),
        _ => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "here are /reload, /upstreams, /upstreams/NAME/servers/SERVER and /upstreams/NAME/changes",
        )),
    }
}

/// Changes wait for workers and name servers, so each has a thread: `/healthz` and `/metrics` do not wait with them. What
/// has begun goes on when whoever asked for it leaves.
async fn change(
    control: &Arc<Control>,
    wanted: Change,
    peer: Option<SocketAddr>,
) -> Result<Reply, Refusal> {
    let control = Arc::clone(control);
    let changing = tokio::task::spawn_blocking(move || {
        let changes = match wanted {
            Change::Reload => control
                .reload()
                .map_err(|reason| Refusal::new(StatusCode::CONFLICT, reason))?,
            Change::Server {
                upstream,
                server,
                edit,
            } => control.edit_server(&upstream, &server, edit)?,
            Change::Reset { upstream } => control.reset_servers(&upstream)?,
        };
        tell_all(&changes, peer);
        let Changes { lines, waiting } = changes;
        let generation = control.shared.snapshot().generation;
        let changed = Changed {
            generation,
            changes: lines,
            needs_restart: waiting,
        };
        Ok(json(StatusCode::OK, &changed))
    });
    changing.await.unwrap_or_else(|_| {
        Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the change broke off",
        ))
    })
}

/// Tells the operator of each change, and who made it: it may have been another operator.
fn tell_all(changes: &Changes, peer: Option<SocketAddr>) {
    let by = peer.map_or_else(String::new, |peer| format!(", by {}", peer.ip()));
    for line in &changes.lines {
        tell(Level::Info, format_args!("admin listener{by}: {line}"));
    }
    for wait in changes.waits() {
        tell(Level::Warning, format_args!("admin listener{by}: {wait}"));
    }
}

async fn edit(request: Request<Incoming>) -> Result<Edit, Refusal> {
    match *request.method() {
        Method::DELETE => Ok(Edit::Remove),
        Method::PUT => match wanted(request).await? {
            Wanted {
                draining: Some(true),
                ..
            } => Err(Refusal::wrong(
                "draining: found true, expected false, since what is put takes requests; PATCH drains",
            )),
            Wanted { weight, .. } => Ok(Edit::Put {
                weight: weight.unwrap_or(1),
            }),
        },
        Method::PATCH => match wanted(request).await? {
            Wanted {
                weight: None,
                draining: None,
            } => Err(Refusal::wrong(
                r#"found nothing to change, expected "weight" or "draining""#,
            )),
            Wanted { weight, draining } => Ok(Edit::Change {
                weight,
                is_draining: draining,
            }),
        },
        _ => Err(Refusal::method("PUT, PATCH, DELETE")),
    }
}

async fn wanted(request: Request<Incoming>) -> Result<Wanted, Refusal> {
    let is_empty = request.headers().get(hyper::header::CONTENT_TYPE).is_none();
    if !is_empty {
        authentication::require_json(&request)?;
    }
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let body = tokio::time::timeout(BODY_TIMEOUT, body).await;
    let body = body.map_err(|_| Refusal::wrong("the body did not come in time"))?;
    let body = body.map_err(|_| Refusal::wrong("expected a whole body of at most 4 KiB"))?;
    let bytes = body.to_bytes();
    if bytes.is_empty() {
        return Ok(Wanted::default());
    }
    let wanted = serde_json::from_slice::<Map<_, _>>(&bytes);
    let wanted = wanted.and_then(|wanted| Wanted::deserialize(Value::Object(wanted)));
    let wanted = wanted.map_err(|error| {
        Refusal::wrong(format!(
            "expected an object such as {{\"weight\": 5}} or {{\"draining\": true}}: {error}"
        ))
    })?;
    match wanted.weight {
        Some(weight) if !(1..=WEIGHT_MAX).contains(&weight) => Err(Refusal::wrong(format!(
            "weight: found {weight}, expected an integer from 1 to {WEIGHT_MAX}"
        ))),
        _ => Ok(wanted),
    }
}

/// A segment of a path with its escapes resolved (RFC 3986 §2.1), since `unix:` servers have slashes.
fn decoded(segment: &str) -> Result<String, Refusal> {
    let bad = || {
        Refusal::wrong(format!(
            "found {segment} in the path, expected whole escapes of UTF-8"
        ))
    };
    let mut bytes = Vec::with_capacity(segment.len());
    let mut parts = segment.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or_else(bad)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

impl From<EditError> for Refusal {
    fn from(error: EditError) -> Self {
        let status = match error {
            EditError::NoUpstream(..) | EditError::NoServer(..) => StatusCode::NOT_FOUND,
            EditError::Invalid(_) => StatusCode::BAD_REQUEST,
            EditError::LastServer | EditError::Refused(_) => StatusCode::CONFLICT,
            EditError::Unkept(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded_or_refused() {
        for (segment, text) in [
            ("127.0.0.1:9001", Some("127.0.0.1:9001")),
            ("unix:%2frun%2Fapp.sock", Some("unix:/run/app.sock")),
            ("%", None),
            ("%2", None),
            ("%zz", None),
            ("%ff", None),
            ("a%\u{e9}", None),
        ] {
            assert_eq!(decoded(segment).ok().as_deref(), text, "{segment}");
        }
    }
}
