//! The part of the control API for queues. All of it speaks JSON.
//!
//! ```text
//! GET  /queues                                   → [{"name", "waiting", …}]
//! POST /queues/NAME/pause                        → {"messages"}
//! POST /queues/NAME/resume        {"skip_damaged": true}, or {}            → {"messages"}, how many are passed by at most
//! POST /queues/NAME/replay        {"from": OFFSET} or {"since_ms": TIME}   → {"messages"}, how many are delivered again
//! GET  /queues/NAME/dead          ?from= &limit=  → {"letters": [...], "next": what `from` is to be, or null}
//! POST /queues/NAME/dead/redrive  {"ids": [1, 2]} or {"all": true}         → {"messages"}
//! POST /queues/NAME/dead/drop     the same
//! … /queues/NAME/sinks/SINK/…     the same for a sink of a queue
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::admin::authentication;
use crate::admin::query::Query;
use crate::admin::reply::{Refusal, Reply, json};
use crate::control::Control;
use crate::service::{OrderError, QueueOrder};
use crate::settings::Level;
use crate::tell::tell;

const BODY_BYTES_MAX: usize = 1 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Dead letters of a page unless it is said, and at most.
const PAGE_LETTERS: usize = 100;
const PAGE_LETTERS_MAX: usize = 1000;

/// How to go on.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Resume {
    skip_damaged: bool,
}

/// From where on to deliver again: exactly one of the two.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Replay {
    from: Option<u64>,
    since_ms: Option<u64>,
}

/// Which dead letters: exactly one of the two.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Which {
    ids: Option<Vec<u64>>,
    all: bool,
}

/// Answers a request for `/queues` and what is below it.
pub(super) async fn answer(
    control: &Arc<Control>,
    request: Request<Incoming>,
    has_token: bool,
) -> Reply {
    let result = async {
        authentication::refuse_foreign(&request, has_token)?;
        if request.uri().path() == "/queues" {
            return match *request.method() {
                Method::GET | Method::HEAD => Ok(json(StatusCode::OK, &control.queues())),
                _ => Err(Refusal::method("GET, HEAD")),
            };
        }
        let peer = request.extensions().get::<SocketAddr>().copied();
        let (queue, order) = read(request).await?;
        carry_out(control, queue, order, peer).await
    };
    let result: Result<Reply, Refusal> = result.await;
    result.unwrap_or_else(Reply::from)
}

/// Which queue, and what it is to do.
async fn read(request: Request<Incoming>) -> Result<(String, QueueOrder), Refusal> {
    let path = request.uri().path().to_owned();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let (queue, rest) = match segments.as_slice() {
        ["queues", queue, "sinks", sink, rest @ ..] => (format!("{queue}/{sink}"), rest),
        ["queues", queue, rest @ ..] => ((*queue).to_owned(), rest),
        _ => return Err(nothing_here()),
    };
    let order = match rest {
        ["dead"] => listing(&request)?,
        ["pause"] => changing(&request).map(|()| QueueOrder::Pause)?,
        ["resume"] => match body(request, r#"{"skip_damaged": true}"#).await? {
            Resume { skip_damaged: true } => QueueOrder::SkipDamaged,
            Resume {
                skip_damaged: false,
            } => QueueOrder::Resume,
        },
        ["replay"] => match body(request, r#"{"from": 1000}"#).await? {
            Replay {
                from: Some(from),
                since_ms: None,
            } => QueueOrder::ReplayFrom(from),
            Replay {
                from: None,
                since_ms: Some(since_ms),
            } => QueueOrder::ReplaySince(since_ms),
            _ => {
                let expected = r#"expected exactly one of "from" and "since_ms""#;
                return Err(Refusal::wrong(expected));
            }
        },
        ["dead", "redrive"] => QueueOrder::Redrive(which(request).await?),
        ["dead", "drop"] => QueueOrder::Drop(which(request).await?),
        _ => return Err(nothing_here()),
    };
    Ok((queue, order))
}

/// A page of dead letters.
fn listing(request: &Request<Incoming>) -> Result<QueueOrder, Refusal> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::method("GET, HEAD"));
    }
    let mut query = Query::read(request.uri().query())?;
    let from = query.number("from", 0..=u64::MAX, 0)?;
    let most = PAGE_LETTERS_MAX as u64;
    let limit = query.number("limit", 1..=most, PAGE_LETTERS as u64)?;
    query.finish("from and limit")?;
    let limit = limit as usize;
    Ok(QueueOrder::Dead { from, limit })
}

/// Dead letters by their numbers; `None` is all of them.
async fn which(request: Request<Incoming>) -> Result<Option<Vec<u64>>, Refusal> {
    match body(request, r#"{"ids": [1, 2]}"#).await? {
        Which {
            ids: Some(ids),
            all: false,
        } => Ok(Some(ids)),
        Which {
            ids: None,
            all: true,
        } => Ok(None),
        _ => {
            let expected = r#"expected exactly one of "ids" and "all": true"#;
            Err(Refusal::wrong(expected))
        }
    }
}

fn nothing_here() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "here are /queues, and below /queues/NAME and /queues/NAME/sinks/SINK: pause, resume, replay, dead, dead/redrive and dead/drop",
    )
}

/// Whether a request that changes something may be one.
fn changing(request: &Request<Incoming>) -> Result<(), Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::method("POST"));
    }
    authentication::require_json(request)
}

/// What a request that changes something says.
async fn body<T: for<'d> Deserialize<'d>>(
    request: Request<Incoming>,
    example: &str,
) -> Result<T, Refusal> {
    changing(&request)?;
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let body = tokio::time::timeout(BODY_TIMEOUT, body).await;
    let body = body.map_err(|_| Refusal::wrong("the body did not come in time"))?;
    let body = body.map_err(|_| Refusal::wrong("expected a whole body of at most 1 MiB"))?;
    let asked = serde_json::from_slice::<Map<_, _>>(&body.to_bytes());
    let asked = asked.and_then(|asked| T::deserialize(Value::Object(asked)));
    asked.map_err(|error| Refusal::wrong(format!("expected an object such as {example}: {error}")))
}

/// Orders wait for the thread of the queue, so each has a thread of its own.
async fn carry_out(
    control: &Arc<Control>,
    queue: String,
    order: QueueOrder,
    peer: Option<SocketAddr>,
) -> Result<Reply, Refusal> {
    let control = Arc::clone(control);
    let told = match &order {
        QueueOrder::Dead { .. } => None,
        QueueOrder::Pause => Some("is paused"),
        QueueOrder::Resume => Some("goes on"),
        QueueOrder::SkipDamaged => Some("goes on, and passes by what cannot be read"),
        QueueOrder::ReplayFrom(_) | QueueOrder::ReplaySince(_) => {
            Some("delivers again what was delivered")
        }
        QueueOrder::Redrive(_) => Some("delivers dead letters"),
        QueueOrder::Drop(_) => Some("drops dead letters"),
    };
    let doing = tokio::task::spawn_blocking(move || {
        let done = control.order(&queue, order);
        (done, queue)
    });
    let Ok((done, queue)) = doing.await else {
        return Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the order broke off",
        ));
    };
    match done {
        Ok(answer) => {
            if let Some(told) = told {
                let by = peer.map_or_else(String::new, |peer| format!(", by {}", peer.ip()));
                tell(
                    Level::Info,
                    format_args!("admin listener{by}: queue {queue} {told}"),
                );
            }
            Ok(json(StatusCode::OK, &answer))
        }
        Err(OrderError::NoQueue(others)) => {
            let help = match others.as_slice() {
                [] => "the configuration has none".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            Err(Refusal::new(
                StatusCode::NOT_FOUND,
                format!("there is no queue {queue:?}; {help}"),
            ))
        }
        Err(OrderError::Refused(why)) => Err(Refusal::new(StatusCode::CONFLICT, why)),
    }
}
