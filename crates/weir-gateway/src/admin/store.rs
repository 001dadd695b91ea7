//! The part of the control API for the store. All of it speaks JSON.
//!
//! ```text
//! GET  /store                                    → {"node", "nodes", "operations", "repair", …}
//! POST /store/repair                             → 202 and the same: one begins, behind the one that is under way
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};

use crate::admin::authentication;
use crate::admin::reply::{Refusal, Reply, json};
use crate::control::Control;
use crate::service::StoreOrder;
use crate::settings::Level;
use crate::tell::tell;

/// Answers a request for `/store` and what is below it.
pub(super) fn answer(
    control: &Arc<Control>,
    request: &Request<Incoming>,
    has_token: bool,
) -> Reply {
    let result = authentication::refuse_foreign(request, has_token);
    let result = result.and_then(|()| match request.uri().path() {
        "/store" => match *request.method() {
            Method::GET | Method::HEAD => status(control, StatusCode::OK),
            _ => Err(Refusal::method("GET, HEAD")),
        },
        "/store/repair" => repair(control, request),
        _ => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "here are /store and /store/repair",
        )),
    });
    result.unwrap_or_else(Reply::from)
}

fn status(control: &Control, status: StatusCode) -> Result<Reply, Refusal> {
    match control.store() {
        Some(store) => Ok(json(status, &store)),
        None => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "there is no store: no route has kv = true",
        )),
    }
}

fn repair(control: &Control, request: &Request<Incoming>) -> Result<Reply, Refusal> {
    if request.method() != Method::POST {
        return Err(Refusal::method("POST"));
    }
    authentication::require_json(request)?;
    let ordered = control.store_order(StoreOrder::Repair);
    let reply = status(control, StatusCode::ACCEPTED)?;
    ordered.map_err(|why| Refusal::new(StatusCode::CONFLICT, why))?;
    let peer = request.extensions().get::<SocketAddr>();
    let by = peer.map_or_else(String::new, |peer| format!(", by {}", peer.ip()));
    tell(
        Level::Info,
        format_args!("admin listener{by}: the store is repaired"),
    );
    Ok(reply)
}
