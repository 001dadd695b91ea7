//! The control listener: `/metrics`, `/status`, `/healthz` and the dashboard. One thread of its own, so that asking
//! for numbers never delays a request, and never the other way round.
//!
//! Built on hyper: its cost does not matter here, its correctness does.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::gateway::StartError;
use crate::metrics::prometheus;
use crate::settings::Admin;
use crate::worker::Shared;

mod status;

const DASHBOARD: &str = include_str!("admin/dashboard.html");
/// Control connections open at once.
const CONNECTIONS_MAX: usize = 64;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The control listener, bound and not yet served.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: StdListener,
    token: Option<String>,
}

pub(crate) fn bind(settings: &Admin) -> Result<Bound, StartError> {
    let listener = StdListener::bind(settings.listen).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.map_err(|error| StartError::Listen(settings.listen, error))?;
    Ok(Bound {
        listener,
        token: settings.token.clone(),
    })
}

impl Bound {
    /// Serves for as long as the process lives: a draining gateway still answers questions.
    pub(crate) fn serve(self, shared: Arc<Shared>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let admin = Arc::new(State {
            shared,
            token: self.token,
        });
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                runtime.block_on(accept(self.listener, admin));
            })?;
        Ok(())
    }
}

#[derive(Debug)]
struct State {
    shared: Arc<Shared>,
    token: Option<String>,
}

async fn accept(listener: StdListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).expect("the socket belongs to this runtime");
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| state.answer(&request));
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT);
            // How a control connection ends concerns its client alone.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

impl State {
    fn answer(
        &self,
        request: &Request<Incoming>,
    ) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
        let response = if !self.is_allowed(request) {
            let mut response = text(
                StatusCode::UNAUTHORIZED,
                "send the configured token: Authorization: Bearer …\n",
            );
            response.headers_mut().insert(
                WWW_AUTHENTICATE,
                hyper::header::HeaderValue::from_static("Bearer"),
            );
            response
        } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
            text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n")
        } else {
            match request.uri().path() {
                "/" => of_type("text/html; charset=utf-8", DASHBOARD),
                "/metrics" => of_type(
                    "text/plain; version=0.0.4; charset=utf-8",
                    prometheus::write(&self.shared),
                ),
                "/status" => of_type("application/json", status::write(&self.shared)),
                "/healthz" => text(StatusCode::OK, "ok\n"),
                _ => text(
                    StatusCode::NOT_FOUND,
                    "here are /, /metrics, /status and /healthz\n",
                ),
            }
        };
        ready(Ok(response))
    }

    fn is_allowed(&self, request: &Request<Incoming>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let given = request
            .headers()
            .get(AUTHORIZATION)
            .map(hyper::http::HeaderValue::as_bytes)
            .unwrap_or_default();
        given
            .strip_prefix(b"Bearer ")
            .is_some_and(|given| equal_in_constant_time(given, token.as_bytes()))
    }
}

/// Takes as long for a guess that is nearly right as for any other.
fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = of_type("text/plain; charset=utf-8", body);
    *response.status_mut() = status;
    response
}

fn of_type(content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    response.headers_mut().insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static(content_type),
    );
    response
}
