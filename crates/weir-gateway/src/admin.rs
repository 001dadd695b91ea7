//! The control listener: `/metrics`, `/status`, `/healthz`, `/readyz`, `/livez`, the dashboard, `/cache/` to purge and to look, and `/reload` and
//! `/upstreams` to change the gateway. One thread of its own, so that asking for numbers never delays a request, and
//! never the other way round.
//!
//! - [`crowd`]: who may be connected, [`patience`]: for how long an answer waits to be read
//! - [`authentication`]: who may ask
//! - [`app`]: the interface of guard, the circuit breaker
//! - [`change`]: reloading, and changing servers; [`upstreams`]: how these are now
//! - [`cache`]: the cache's part, [`queues`]: that of queues, [`store`]: that of the store; [`query`]: what they are asked with
//! - [`status`]: the state as JSON, [`history`]: the last minute of it
//! - [`reply`]: how answers are made
//!
//! Built on hyper: its cost does not matter here, its correctness does.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderValue, WWW_AUTHENTICATE, X_FRAME_OPTIONS};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use crate::admin::crowd::Crowd;
use crate::admin::history::History;
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
mod history;
mod patience;
mod prometheus;
mod query;
mod queues;
mod reply;
mod status;
mod store;
mod upstreams;

/// What is answered with a page; what has parts of its own below a path is not among them.
const OWN_PATHS: [&str; 6] = ["/", "/metrics", "/status", "/healthz", "/readyz", "/livez"];
const DASHBOARD: &str = include_str!("admin/dashboard.html");
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to read one answer as a whole.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The control listener, bound and not yet served.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: StdListener,
}

pub(crate) fn bind(settings: &Admin) -> Result<Bound, StartError> {
    let listener = StdListener::bind(settings.listen).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.map_err(|error| StartError::Listen(settings.listen, error))?;
    Ok(Bound { listener })
}

impl Bound {
    /// Serves for as long as the process lives: a draining gateway still answers questions.
    pub(crate) fn serve(self, control: Arc<Control>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let admin = Arc::new(State {
            control,
            crowd: Mutex::new(Crowd::new()),
            history: Mutex::new(History::since_start()),
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
    crowd: Mutex<Crowd<AbortHandle>>,
    history: Mutex<History>,
}

async fn accept(listener: StdListener, state: Arc<State>) {
    let listener = TcpListener::from_std(listener).expect("the socket belongs to this runtime");
    tokio::spawn(keep_history(Arc::clone(&state)));
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
        let serving = tokio::spawn(serve((stream, peer), Arc::clone(&state), id));
        let mut crowd = state.crowd();
        crowd.join(id, peer.ip(), serving.abort_handle());
    }
}

/// Takes down each second what has been counted, whether somebody looks or not: who looks wants to know what was before.
async fn keep_history(state: Arc<State>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let shared = &state.control.shared;
    loop {
        seconds.tick().await;
        let now_ms = shared.since_start().as_millis() as u64;
        lock(&state.history).note(now_ms, shared);
    }
}

async fn serve((stream, peer): (TcpStream, SocketAddr), state: Arc<State>, id: u64) {
    let on = Arc::clone(&state);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let state = Arc::clone(&on);
        async move {
            state.crowd().note(id);
            // For who changes something.
            request.extensions_mut().insert(peer);
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
        if let Some(reply) = probed(&self.control.shared, &request) {
            return reply;
        }
        let token = self.control.admin_token();
        if token.is_some() && is_page(&request) {
            return page();
        }
        if !authentication::has_token(&request, token.as_deref()) {
            let mut refusal = text(
                StatusCode::UNAUTHORIZED,
                "send the token of [admin] in the config file: Authorization: Bearer …\n",
            );
            let scheme = HeaderValue::from_static("Bearer");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return refusal;
        }
        let (shared, has_token) = (&self.control.shared, token.is_some());
        let path = request.uri().path();
        if path.starts_with("/cache/") {
            return cache::answer(shared, request, has_token).await;
        }
        if path == "/queues" || path.starts_with("/queues/") {
            return queues::answer(&self.control, request, has_token).await;
        }
        if path == "/store" || path.starts_with("/store/") {
            return store::answer(&self.control, &request, has_token);
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
            "/" => page(),
            "/metrics" => of_type(
                "text/plain; version=0.0.4; charset=utf-8",
                prometheus::write(shared, self.control.inside()),
            ),
            "/status" => {
                let (snapshot, history) = (shared.snapshot(), lock(&self.history));
                let status = Status::read(shared, &snapshot, &history, self.control.inside());
                json(StatusCode::OK, &status)
            }
            _ => text(
                StatusCode::NOT_FOUND,
                "here are /, /metrics, /status, /healthz, /readyz, /livez, /upstreams, /queues, /store, /reload and /cache/\n",
            ),
        }
    }
}

/// Whether the dashboard is asked for. A browser opens a page without a token, and asks its user for it once it is there.
fn is_page(request: &Request<Incoming>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path() == "/"
}

/// The dashboard, in no frame of another page: what is typed there is typed to this gateway.
fn page() -> Reply {
    let mut page = of_type("text/html; charset=utf-8", DASHBOARD);
    let headers = page.headers_mut();
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    page
}

/// The answer to a probe of Kubernetes, which has no place for a token; what it is told is no secret.
fn probed(shared: &Shared, request: &Request<Incoming>) -> Option<Reply> {
    let is_asked = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/readyz" if is_asked => Some(healthz(shared)),
        // A gateway that drains must not be killed for it.
        "/livez" if is_asked => Some(turning(shared)),
        _ => None,
    }
}

/// Whether this gateway is one to send requests to: every worker turns, and it is not about to end. A worker that does not turn
/// serves nobody, however well the others do.
fn healthz(shared: &Shared) -> Reply {
    let mut is_ending = [&shared.is_leaving, &shared.is_draining].into_iter();
    if is_ending.any(|flag| flag.load(Ordering::Relaxed)) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    turning(shared)
}

/// Whether every worker turns.
fn turning(shared: &Shared) -> Reply {
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
