//! The control listener: `/metrics`, `/status`, `/healthz`, the dashboard, `/cache/` to purge and to look, and `/reload` and
//! `/upstreams` to change the gateway. One thread of its own, so that asking for numbers never delays a request, and
//! never the other way round.
//!
//! - [`crowd`]: who may be connected, [`patience`]: for how long an answer waits to be read
//! - [`authentication`]: who may ask
//! - [`app`]: the interface of guard, the circuit breaker
//! - [`change`]: reloading, and changing servers; [`upstreams`]: how these are now
//! - [`cache`]: the cache's part
//! - [`status`]: the state as JSON
//! - [`reply`]: how answers are made
//!
//! Built on hyper: its cost does not matter here, its correctness does.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::admin::crowd::Crowd;
use crate::admin::patience::Patient;
use crate::admin::reply::{Reply, json, of_type, text};
use crate::admin::status::Status;
use crate::control::Control;
use crate::lock::lock;
use crate::settings::Admin;
use crate::start_error::StartError;
use crate::state::shared::Shared;

mod app;
mod authentication;
mod cache;
mod change;
mod crowd;
mod patience;
mod prometheus;
mod reply;
mod status;
mod upstreams;

/// What is answered with a page; what has parts of its own below a path is not among them.
const OWN_PATHS: [&str; 4] = ["/", "/metrics", "/status", "/healthz"];
const DASHBOARD: &str = include_str!("admin/dashboard.html");
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to read one answer as a whole.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

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
    pub(crate) fn serve(self, control: Arc<Control>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let admin = Arc::new(State {
            control,
            token: self.token,
            crowd: Mutex::new(Crowd::new()),
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
    control: Arc<Control>,
    token: Option<String>,
    crowd: Mutex<Crowd<AbortHandle>>,
}

async fn accept(listener: StdListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).expect("the socket belongs to this runtime");
    let mut id = 0;
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        id += 1;
        if let Some(other) = state.crowd().make_room(peer.ip()) {
            other.abort();
        }
        let serving = tokio::spawn(serve(stream, Arc::clone(&state), id));
        let mut crowd = state.crowd();
        crowd.join(id, peer.ip(), serving.abort_handle());
    }
}

async fn serve(stream: TcpStream, state: Arc<State>, id: u64) {
    let on = Arc::clone(&state);
    let service = hyper::service::service_fn(move |request| {
        let state = Arc::clone(&on);
        async move {
            state.crowd().note(id);
            let reply = state.answer(request).await;
            state.crowd().note(id);
            Ok::<_, Infallible>(reply)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    let stream = TokioIo::new(Patient::new(stream, ANSWER_TIMEOUT));
    // How a control connection ends concerns its client alone.
    let _ = http.serve_connection(stream, service).await;
    state.crowd().leave(id);
}

impl State {
    fn crowd(&self) -> MutexGuard<'_, Crowd<AbortHandle>> {
        lock(&self.crowd)
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if !authentication::has_token(&request, self.token.as_deref()) {
            let mut refusal = text(
                StatusCode::UNAUTHORIZED,
                "send the configured token: Authorization: Bearer …\n",
            );
            let scheme = HeaderValue::from_static("Bearer");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return refusal;
        }
        let (shared, has_token) = (&self.control.shared, self.token.is_some());
        let path = request.uri().path();
        if path.starts_with("/cache/") {
            return cache::answer(shared, request, has_token).await;
        }
        if path == "/reload" || path.starts_with("/upstreams") {
            return change::answer(&self.control, request, has_token).await;
        }
        if let Some(apps) = self.control.apps()
            && !OWN_PATHS.contains(&path)
        {
            return app::answer(&self.control, apps, request, has_token).await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
        }
        // A health checker may call this by any name; what it is told is no secret.
        if path == "/healthz" {
            return healthz(shared);
        }
        if let Err(refusal) = authentication::refuse_names(&request, has_token) {
            return refusal.into();
        }
        match path {
            "/" => of_type("text/html; charset=utf-8", DASHBOARD),
            "/metrics" => of_type(
                "text/plain; version=0.0.4; charset=utf-8",
                prometheus::write(shared),
            ),
            "/status" => json(StatusCode::OK, &Status::read(shared, &shared.snapshot())),
            _ => text(
                StatusCode::NOT_FOUND,
                "here are /, /metrics, /status, /healthz, /upstreams, /reload and /cache/\n",
            ),
        }
    }
}

/// Whether every worker turns: one that does not serves nobody, however well the others do.
fn healthz(shared: &Shared) -> Reply {
    let mut said = String::new();
    for (worker, for_ms) in shared.stuck() {
        let seconds = for_ms as f64 / 1e3;
        let _ = writeln!(said, "worker {worker} has not turned for {seconds:.1} s");
    }
    if said.is_empty() {
        text(StatusCode::OK, "ok\n")
    } else {
        text(StatusCode::SERVICE_UNAVAILABLE, said)
    }
}
