//! One health check: a connection, perhaps a GET on it, and what is thought of the answer. It knows nothing of the checks
//! before, and changes nothing.

use std::fmt::Display;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::timeout;
use weir_socket::Stream;

use crate::failure::Failure;
use crate::settings::{EndpointAddress, HealthCheck, Probe, StatusSet};
use crate::upstream::connect::{open, whose_failure};

/// What is read of a body to find a text in it.
const BODY_BYTES_MAX: usize = 64 << 10;
const AGENT: HeaderValue = HeaderValue::from_static("weir health check");

/// What an endpoint is asked through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probed {
    pub(super) address: EndpointAddress,
    /// The `Host` that it gets unless the rule has one.
    pub(super) host: String,
}

/// How a check ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Good,
    /// What was wrong, in words that follow the name of the endpoint.
    Bad(String),
    /// For want of descriptors or memory.
    NotAsked,
}

impl Probed {
    /// Asks once; all of it takes no longer than the rule allows.
    pub(super) async fn ask(&self, rule: &HealthCheck) -> Answer {
        let limit = rule.timeout;
        let asking = timeout(limit, self.ask_within(&rule.probe));
        asking.await.unwrap_or_else(|_| {
            let limit_ms = limit.as_millis();
            Answer::Bad(format!("it took longer than {limit_ms} ms"))
        })
    }

    async fn ask_within(&self, probe: &Probe) -> Answer {
        let stream = match open(&self.address).await {
            Ok(stream) => stream,
            Err(error) if whose_failure(&error) == Failure::NoSocket => return Answer::NotAsked,
            Err(error) => return Answer::Bad(format!("it cannot be connected to: {error}")),
        };
        let Probe::Http {
            path,
            host,
            statuses,
            body,
        } = probe
        else {
            return Answer::Good;
        };
        let host = host.as_ref().unwrap_or(&self.host);
        match get(stream, path, host, statuses, body.as_deref()).await {
            Ok(()) => Answer::Good,
            Err(reason) => Answer::Bad(reason),
        }
    }
}

/// Sends a GET and looks at the answer; the error says what is wrong with it.
async fn get(
    stream: Stream,
    path: &str,
    host: &str,
    statuses: &StatusSet,
    body: Option<&str>,
) -> Result<(), String> {
    let broke_off = |error: &dyn Display| format!("GET {path} was not answered: {error}");
    let request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, AGENT)
        .header(CONNECTION, HeaderValue::from_static("close"))
        .body(Empty::<Bytes>::new())
        .map_err(|error| broke_off(&error))?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broke_off(&error))?;
    // Its set ends with this function, and it with its set.
    let mut moving = JoinSet::new();
    moving.spawn(connection);
    let response = sender.send_request(request).await;
    let response = response.map_err(|error| broke_off(&error))?;
    let status = response.status().as_u16();
    if !statuses.has(status) {
        return Err(format!("GET {path} was answered with {status}"));
    }
    match body {
        Some(text) if !has_text(response, text).await.map_err(|e| broke_off(&e))? => Err(format!(
            "the answer to GET {path} does not contain {text:?}"
        )),
        _ => Ok(()),
    }
}

/// Whether `text` stands in what is read of the body. The rest is left where it is.
async fn has_text(response: Response<Incoming>, text: &str) -> hyper::Result<bool> {
    let mut body = response.into_body();
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let room = BODY_BYTES_MAX - read.len();
        read.extend_from_slice(&data[..data.len().min(room)]);
        if memchr::memmem::find(&read, text.as_bytes()).is_some() {
            return Ok(true);
        }
        if read.len() == BODY_BYTES_MAX {
            break;
        }
    }
    Ok(false)
}
